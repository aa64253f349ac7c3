// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the products of rows with the matrices of their groups are cut: for the
// device code and for the host that launches it.

#ifndef SHARDONNX_RUNTIME_CUDA_KERNELS_GROUPEDSHAPES_H
#define SHARDONNX_RUNTIME_CUDA_KERNELS_GROUPEDSHAPES_H

#include "shardonnx/runtime/IndexABI.h"

namespace shardonnx::rt::cuda {

constexpr int kGroupedThreads = 256;

/// 16-bit floats: a block computes kGroupedTile × kGroupedTile elements,
/// kGroupedDepth terms at a time; copies are kGroupedStages - 1 parts ahead.
constexpr int kGroupedTile = 128;
constexpr int kGroupedDepth = 32;
constexpr int kGroupedStages = 3;
/// Of an operand's part in shared memory. Lines along the sum have its
/// kGroupedDepth elements, lines across it kGroupedTile; eight more keep what
/// ldmatrix reads at once in different banks.
constexpr int kGroupedAlongPitch = kGroupedDepth + 8;
constexpr int kGroupedAcrossPitch = kGroupedTile + 8;
constexpr int kGroupedPart = kGroupedTile * kGroupedAlongPitch; // elements
constexpr unsigned kGroupedSharedBytes = 2 * kGroupedStages * kGroupedPart * 2;

/// f32: the same without tensor cores.
constexpr int kGroupedFloatTile = 64;
constexpr int kGroupedFloatDepth = 16;

/// Rows are sorted by one block, each of whose warps counts for itself.
constexpr int kRouteThreads = 1024;

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_KERNELS_GROUPEDSHAPES_H
