// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the kernels after a matrix product cut their work, for the device code
// and for the host that launches it.

#ifndef SHARDONNX_RUNTIME_CUDA_KERNELS_GEMMSHAPES_H
#define SHARDONNX_RUNTIME_CUDA_KERNELS_GEMMSHAPES_H

#include <cstdint>

namespace shardonnx::rt::cuda {

constexpr int kEpilogueThreads = 256;

/// Sums of columns: a block adds 256 columns of a split of the rows.
constexpr int kColumnWarps = 8;
constexpr int64_t kColumnsPerBlock = kColumnWarps * 32;
constexpr int64_t kRowsPerSplit = 128; // at least

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_KERNELS_GEMMSHAPES_H
