// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the kernels cut their work: for the device code, for the host that
// launches it, and for the plans of workspaces.

#ifndef SHARDONNX_RUNTIME_CUDA_KERNELS_SHAPES_H
#define SHARDONNX_RUNTIME_CUDA_KERNELS_SHAPES_H

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt::cuda {

// ---- Embedding.
constexpr int kEmbeddingThreads = 256; // a warp a row

/// Those rows of a table of `all` that are here: `count` from `first` on.
struct TableRows {
  int64_t first, count, all;
};

/// Sorting: each warp ranks kSortRounds × 32 keys in a row.
constexpr int kSortThreads = 256;
constexpr int kSortWarps = kSortThreads / 32;
constexpr int kSortRounds = 8;
constexpr int64_t kSortTile = kSortThreads * kSortRounds;
constexpr int kMaxDigitBits = 9;
constexpr int kScanThreads = 1024;

/// Summing: a warp adds kSumTile sorted rows over kSumColumns columns.
constexpr int kSumThreads = 128;
constexpr int64_t kSumTile = 128;
constexpr int64_t kSumColumns = 256;

// ---- Cross-entropy: a block a row.
constexpr int kLossThreads = 512;
/// Blocks of a loss whose rows have no workspace for their losses.
constexpr int64_t kLossBlocks = 1024;

// ---- Copies.
constexpr int kCopyThreads = 256;
constexpr int kCopyEach = 4; // units of a thread
constexpr int kTransposeTile = 64;

/// A division by a number that the host knows: Granlund and Montgomery,
/// "Division by invariant integers using multiplication" (1994), for dividends
/// below 2^31.
struct Divisor {
  uint32_t value, factor, shift;
};
/// Where unit i of a copy lies; dims from the innermost on.
struct CopyShape {
  int32_t rank, srcDtype, dstDtype, accumulate;
  Divisor dims[SHX_MAX_RANK];
  int64_t srcStride[SHX_MAX_RANK], dstStride[SHX_MAX_RANK];
};
/// A transposition: the source is contiguous along `tall`, the destination
/// along `wide`; `outer` are the other dims.
struct TransposeShape {
  CopyShape outer;
  int64_t wide, tall;
  int64_t wideStride; // of the source
  int64_t tallStride; // of the destination
  Divisor tilesWide, tilesTall;
  int32_t vectors; // 16-byte accesses are possible
  int32_t reserved;
};

// ---- Slices.
constexpr int kSliceThreads = 256;
constexpr int64_t kSquaresChunk = 1 << 15; // elements whose squares one sum has
constexpr int kFinishThreads = 256;
constexpr int kGatherThreads = 256; // of --gather-dtype's: a warp a block

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_KERNELS_SHAPES_H
