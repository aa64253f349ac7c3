// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which kernels may be launched before the kernel ahead of them has ended: the
// runtime believes what the compiler, and the build of its own, have done.

#ifndef SHARDONNX_RUNTIME_DEPENDENTLAUNCH_H
#define SHARDONNX_RUNTIME_DEPENDENTLAUNCH_H

namespace shardonnx {

/// Code for this architecture and later ones begins with griddepcontrol.wait,
/// before it touches memory; earlier GPUs lack it.
constexpr int kDependentLaunchArch = 90;

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_DEPENDENTLAUNCH_H
