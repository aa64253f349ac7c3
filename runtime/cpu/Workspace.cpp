// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes of workspaces and scratch. Linked into the compiler as well, so it
// depends on nothing but the plans.

#include "shardonnx/runtime/Workspace.h"
#include "WorkspacePlan.h"

namespace shardonnx {

using namespace rt;

int64_t gemmWorkspaceBytes(const ShxGemm &desc) {
  return planGemm(desc).floats * 4;
}

int64_t attentionGradWorkspaceBytes(const ShxAttention &desc) {
  AttentionPlan plan = planAttention(desc);
  return plan.partialDq ? plan.keyParts * plan.partialSize * 4 : 0;
}

int64_t linearCrossEntropyWorkspaceBytes(const ShxLinearCrossEntropy &desc) {
  return planLoss(desc).bytes;
}

int64_t linearCrossEntropyChunkRows(int64_t rows, int64_t vocab) {
  constexpr int64_t kChunkFloats = 1 << 22, kLeastRows = 256;
  int64_t chunk = kChunkFloats / (vocab > 0 ? vocab : 1);
  chunk = (chunk < kLeastRows ? kLeastRows : chunk) / 16 * 16;
  return chunk < rows ? chunk : rows;
}

int64_t attentionScratchBytes(const ShxAttention &desc) {
  return forwardScratch(desc).floats * 4;
}

int64_t attentionGradScratchBytes(const ShxAttention &desc) {
  return backwardScratch(desc).floats * 4;
}

int64_t crossEntropyScratchBytes(const ShxCrossEntropy &desc) {
  return desc.dtype == SHX_F32 ? 0 : scratchLine(desc.classes) * 4;
}

} // namespace shardonnx
