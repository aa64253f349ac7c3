// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Indices that the program computed itself, checked where they are used.

#ifndef SHARDONNX_RUNTIME_CUDA_KERNELS_OUTSIDE_CUH
#define SHARDONNX_RUNTIME_CUDA_KERNELS_OUTSIDE_CUH

#include "Device.cuh"
#include "OutsideCells.h"

namespace shardonnx::rt::cuda {

/// As placeWithin, and the first index of a step that is outside is kept
/// together with whose it is.
__device__ inline int64_t placeOrNote(int64_t index, int64_t size,
                                      const OutsideCells &outside) {
  int64_t place = placeWithin(index, size, nullptr);
  auto *found = reinterpret_cast<unsigned long long *>(outside.cells);
  if (place < 0 && found && atomicCAS(found, 0ull, outside.whose) == 0) {
    outside.cells[1] = index;
    outside.cells[2] = size;
  }
  return place;
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_KERNELS_OUTSIDE_CUH
