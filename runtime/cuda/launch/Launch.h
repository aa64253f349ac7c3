// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches of the runtime's own kernels (kernels/*.cu).

#ifndef SHARDONNX_RUNTIME_CUDA_LAUNCH_H
#define SHARDONNX_RUNTIME_CUDA_LAUNCH_H

#include "../../core/OwnedUnit.h"
#include "Context.h"

namespace shardonnx::rt::cuda {

/// Of a grid or a block.
struct Dim {
  Dim(int64_t x, int64_t y = 1, int64_t z = 1);
  unsigned x, y, z;
};

/// How many blocks `count` elements need.
constexpr int64_t blocksFor(int64_t count, int64_t perBlock) {
  return (count + perBlock - 1) / perBlock;
}

/// A kernel's parameter as the driver wants it: by address.
template <typename T> void *parameter(const T &value) {
  return const_cast<void *>(static_cast<const void *>(&value));
}

/// `arguments` are the addresses of the kernel's parameters. Enqueues nothing
/// when preparing, or when the grid is empty, but finds the kernel.
void launchRaw(Context &context, CUstream stream, const char *kernel, Dim grid,
               Dim block, unsigned sharedBytes, void **arguments);

/// launchOn(context, stream, "shx_k_name", blocks, threads, 0, x, y, n): the
/// values must have the very types of the kernel's parameters.
template <typename... Arguments>
void launchOn(Context &context, CUstream stream, const char *kernel, Dim grid,
              Dim block, unsigned sharedBytes, const Arguments &...arguments) {
  void *addresses[] = {parameter(arguments)..., nullptr};
  launchRaw(context, stream, kernel, grid, block, sharedBytes, addresses);
}

/// As above, on the compute stream.
template <typename... Arguments>
void launch(Context &context, const char *kernel, Dim grid, Dim block,
            unsigned sharedBytes, const Arguments &...arguments) {
  launchOn(context, context.compute, kernel, grid, block, sharedBytes,
           arguments...);
}

/// Bytes from one place of the device to another.
void copyBytes(Context &context, CUstream stream, void *to, const void *from,
               int64_t bytes);

/// A generated kernel, on the compute stream.
void launchGenerated(Context &context, const ShxDeviceKernel &kernel,
                     int64_t blocks, void **arguments);

/// The optimizer's kernel over the buffers' piece.
void launchOptimizer(Context &context, const ShxDeviceKernel &kernel,
                     bool decay, const OptimizerBuffers &buffers);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_LAUNCH_H
