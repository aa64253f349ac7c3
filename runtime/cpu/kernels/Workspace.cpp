// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU's workspaces and scratch. Linked into the compiler as well, so it
// depends on nothing but the plans.

#include "shardonnx/runtime/Workspace.h"
#include "WorkspacePlan.h"

namespace shardonnx {

using namespace rt;

// Operands are packed into the workspace.
static int64_t gemm(const ShxGemm &desc) {
  return planGemm(flattenBatch(desc)).bytes;
}

static int64_t attentionGrad(const ShxAttention &desc) {
  AttentionPlan plan = planAttention(desc);
  return plan.partialDq ? plan.keyParts * plan.partialSize * 4 : 0;
}

static int64_t linearCrossEntropy(const ShxLinearCrossEntropy &desc) {
  return planLoss(desc).bytes;
}

// 16 MiB of f32 logits, but at least 256 rows, below which the products lose
// more than 5 % of their speed.
static int64_t chunkRows(const ShxLinearCrossEntropy &desc) {
  constexpr int64_t kChunkFloats = 1 << 22, kLeastRows = 256;
  int64_t chunk = kChunkFloats / (desc.vocab > 0 ? desc.vocab : 1);
  chunk = (chunk < kLeastRows ? kLeastRows : chunk) / 16 * 16;
  return chunk < desc.rows ? chunk : desc.rows;
}

static int64_t attentionScratch(const ShxAttention &desc) {
  return forwardScratch(desc).floats * 4;
}

static int64_t attentionGradScratch(const ShxAttention &desc) {
  return backwardScratch(desc).floats * 4;
}

const LibraryModel &cpuLibraries() {
  static constexpr LibraryModel model = {
      gemm,
      [](const ShxAttention &) { return int64_t(0); },
      attentionGrad,
      [](const ShxEmbedding &) { return int64_t(0); },
      [](const ShxAxisCollective &) { return int64_t(0); },
      linearCrossEntropy,
      chunkRows,
      attentionScratch,
      attentionGradScratch};
  return model;
}

} // namespace shardonnx
