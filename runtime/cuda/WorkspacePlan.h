// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the CUDA calls lay out their workspaces: for the compiler, which plans
// them, and for the calls, which use them.

#ifndef SHARDONNX_RUNTIME_CUDA_WORKSPACEPLAN_H
#define SHARDONNX_RUNTIME_CUDA_WORKSPACEPLAN_H

#include "ElementBytes.h"
#include "GemmPlan.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Layout.h"
#include <cstdint>

namespace shardonnx::rt::cuda {

constexpr int64_t gemmWorkspaceBytes(const ShxGemm &desc) {
  return planGemm(desc).bytes;
}

constexpr int64_t attentionWorkspaceBytes(const ShxAttention &) { return 0; }

// dq in f32, and a dot product for each query.
constexpr int64_t attentionGradWorkspaceBytes(const ShxAttention &desc) {
  int64_t queries = desc.batch * desc.heads * desc.seqQ;
  return alignTo(queries * (desc.headDim + 2) * 4, kBufferAlignmentBytes);
}

// The positions of each id, sorted.
constexpr int64_t embeddingGradWorkspaceBytes(const ShxEmbedding &desc) {
  return alignTo(desc.rows * 4, kBufferAlignmentBytes) * 2 +
         alignTo((desc.vocab + 1) * 4, kBufferAlignmentBytes);
}

// Offsets in bytes. Logits of a chunk have the operand's dtype.
struct LossPlan {
  int64_t logits, losses, gemm;
  int64_t bytes;
};
constexpr LossPlan planLoss(const ShxLinearCrossEntropy &desc) {
  LossPlan plan{};
  int64_t at = 0;
  auto take = [&at](int64_t bytes) {
    int64_t here = at;
    at += alignTo(bytes, 256);
    return here;
  };
  plan.logits = take(desc.chunkRows * desc.vocab * bytesOf(desc.dtypeX));
  plan.losses = take(desc.rows * 4);
  ShxGemm product{};
  product.m = desc.chunkRows;
  product.n = desc.vocab;
  product.k = desc.width;
  plan.gemm = take(gemmWorkspaceBytes(product));
  plan.bytes = at;
  return plan;
}

// 256 MiB of logits, but at least 1024 rows.
constexpr int64_t lossChunkRows(const ShxLinearCrossEntropy &desc) {
  constexpr int64_t kChunkBytes = int64_t(1) << 28, kLeastRows = 1024;
  int64_t row = (desc.vocab > 0 ? desc.vocab : 1) * bytesOf(desc.dtypeX);
  int64_t chunk = kChunkBytes / row;
  chunk = (chunk < kLeastRows ? kLeastRows : chunk) / 16 * 16;
  return chunk < desc.rows ? chunk : desc.rows;
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_WORKSPACEPLAN_H
