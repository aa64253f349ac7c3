// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory that the machine says this process has.

#ifndef SHARDONNX_RUNTIME_PROCESSMEMORY_H
#define SHARDONNX_RUNTIME_PROCESSMEMORY_H

#include <cstdint>

namespace shardonnx::rt {

/// Proportional set size: pages shared with others count in equal parts.
int64_t proportionalSetBytes();

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PROCESSMEMORY_H
