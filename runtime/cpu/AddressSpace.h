// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// OpenBLAS asks for a buffer of each thread, and where it gets none it asks
// again, for ever: under a limit of the address space (ulimit -v) a program
// would hang without a word. It is asked here first.

#ifndef SHARDONNX_RUNTIME_CPU_ADDRESSSPACE_H
#define SHARDONNX_RUNTIME_CPU_ADDRESSSPACE_H

namespace shardonnx::rt {

/// Ends the program where the limit leaves no room for the buffers of so many
/// more threads. Buffers that OpenBLAS takes before main are checked by then.
void checkAddressSpace(int threads);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_ADDRESSSPACE_H
