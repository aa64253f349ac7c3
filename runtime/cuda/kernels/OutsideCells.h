// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a kernel tells of an index that is outside of its axis: for the device
// code and for the host that launches it.

#ifndef SHARDONNX_RUNTIME_CUDA_KERNELS_OUTSIDECELLS_H
#define SHARDONNX_RUNTIME_CUDA_KERNELS_OUTSIDECELLS_H

#include <cstdint>

namespace shardonnx::rt::cuda {

/// What the first cell says where nobody knows the node.
constexpr unsigned long long kSomeEmbedding = 1;

/// The first cell says whose index it was: 0 nobody's, kSomeEmbedding, or the
/// address of the host's words for the node; the others index and axis.
struct OutsideCells {
  int64_t *cells; // Cells::outside; may be null
  unsigned long long whose;
};

/// `what` lives as long as the program.
inline OutsideCells outsideCells(int64_t *cells, const char *what) {
  return {cells, what ? reinterpret_cast<uintptr_t>(what) : kSomeEmbedding};
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_KERNELS_OUTSIDECELLS_H
