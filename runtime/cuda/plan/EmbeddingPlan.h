// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the embedding's gradient lays out its workspace on CUDA.

#ifndef SHARDONNX_RUNTIME_CUDA_EMBEDDINGPLAN_H
#define SHARDONNX_RUNTIME_CUDA_EMBEDDINGPLAN_H

#include "../kernels/Shapes.h"
#include "shardonnx/runtime/Layout.h"

namespace shardonnx::rt::cuda {

/// Offsets in bytes. Ids are sorted by digits of digitBits, in passes that read
/// what the last one wrote; partial sums of rows are padded to whole packs.
struct EmbeddingGradPlan {
  int32_t digitBits, passes;
  int64_t sortTiles;
  int64_t keys[2], order[2]; // written by even and odd passes
  int64_t counts, partial;
  int64_t bytes;
};

constexpr EmbeddingGradPlan planEmbeddingGrad(const ShxEmbedding &desc) {
  EmbeddingGradPlan plan{};
  int32_t bits = 1;
  while (bits < 32 && (int64_t(1) << bits) < desc.vocab)
    ++bits;
  plan.passes = (bits + kMaxDigitBits - 1) / kMaxDigitBits;
  plan.digitBits = (bits + plan.passes - 1) / plan.passes;
  plan.sortTiles = (desc.rows + kSortTile - 1) / kSortTile;
  int64_t at = 0;
  auto take = [&at](int64_t words) {
    int64_t here = at;
    at += alignTo(words * 4, 256);
    return here;
  };
  for (int side = 0; side < 2; ++side) {
    bool used = side < plan.passes;
    plan.keys[side] = take(used ? desc.rows : 0);
    plan.order[side] = take(used ? desc.rows : 0);
  }
  plan.counts = take(plan.sortTiles << plan.digitBits);
  int64_t sumTiles = (desc.rows + kSumTile - 1) / kSumTile;
  plan.partial = take(2 * sumTiles * alignTo(desc.width, 8));
  plan.bytes = at;
  return plan;
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_EMBEDDINGPLAN_H
