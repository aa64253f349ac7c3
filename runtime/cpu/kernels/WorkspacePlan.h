// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the GEMM and the loss lay out their workspaces: for Workspace.cpp, which
// says how large they are, and for the calls, which use them.

#ifndef SHARDONNX_RUNTIME_CPU_WORKSPACEPLAN_H
#define SHARDONNX_RUNTIME_CPU_WORKSPACEPLAN_H

#include "AttentionPlan.h"
#include "shardonnx/runtime/ProductPlan.h"
#include <initializer_list>

namespace shardonnx::rt {

/// Matrices of a batch that are multiplied side by side: as many as have room
/// in this many bytes of workspace, at least one.
constexpr int64_t kBatchBytes = 8 << 20;

/// When B is one matrix for the whole batch and the rows of A and C go on from
/// one matrix to the next, the batch is one taller product.
static constexpr ShxGemm flattenBatch(const ShxGemm &desc) {
  ShxGemm flat = desc;
  if (desc.transA)
    return flat;
  int64_t rows = desc.m;
  for (int32_t i = desc.batchRank - 1; i >= 0; --i) {
    if (desc.batch[i] == 1)
      continue;
    if (desc.batchStrideB[i] != 0 || desc.batchStrideA[i] != rows * desc.lda ||
        desc.batchStrideC[i] != rows * desc.ldc)
      return flat;
    rows *= desc.batch[i];
  }
  flat.m = rows;
  flat.batchRank = 0;
  return flat;
}

/// Of a flattened product: a slot of the workspace for each of `group`
/// matrices.
struct GemmPlan {
  int64_t batch, group;
  int64_t slot, bytes;
};

static constexpr GemmPlan planGemm(const ShxGemm &flat) {
  GemmPlan plan{};
  plan.batch = 1;
  for (int32_t i = 0; i < flat.batchRank; ++i)
    plan.batch *= flat.batch[i];
  plan.slot = planProduct(flat.m, flat.n, flat.k, flat.dtypeC).bytes;
  plan.group = plan.slot > 0 ? kBatchBytes / plan.slot : plan.batch;
  plan.group = plan.group < 1 ? 1 : plan.group;
  plan.group = plan.group < plan.batch ? plan.group : plan.batch;
  plan.bytes = plan.group * plan.slot;
  return plan;
}

/// Offsets in bytes.
struct LossPlan {
  int64_t logits, losses, dw; // dw: sums in f32 of what is stored in less
  int64_t product;            // the workspace of its products
  int64_t bytes;
};

/// Without a gradient, as in evaluation, there is no distance of its rows, and
/// one product: that of the logits.
static constexpr LossPlan planLoss(const ShxLinearCrossEntropy &desc) {
  LossPlan plan{};
  const bool gradients = desc.lddx != 0;
  int64_t at = 0;
  auto take = [&at](int64_t bytes) {
    int64_t here = at;
    at += scratchLine(ceilDiv(bytes, 4)) * 4;
    return here;
  };
  plan.logits = take(desc.chunkRows * desc.vocab * 4);
  plan.losses = take(desc.chunkRows * 8);
  plan.dw = take(desc.dtypeDw != SHX_F32 ? desc.vocab * desc.width * 4 : 0);
  int64_t product = 0;
  auto need = [&product](int64_t m, int64_t n, int64_t k, int32_t dtype) {
    int64_t bytes = planProduct(m, n, k, dtype).bytes;
    product = product < bytes ? bytes : product;
  };
  // The last chunk of rows may be smaller, and a smaller depth have taller
  // chunks of its other operand.
  int64_t rest = desc.chunkRows > 0 ? desc.rows % desc.chunkRows : 0;
  for (int64_t rows : {desc.chunkRows, rest}) {
    need(rows, desc.vocab, desc.width, SHX_F32);
    if (!gradients)
      continue;
    need(rows, desc.width, desc.vocab, desc.dtypeX);
    need(desc.transW ? desc.vocab : desc.width,
         desc.transW ? desc.width : desc.vocab, rows, SHX_F32);
  }
  plan.product = take(product);
  plan.bytes = at;
  return plan;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_WORKSPACEPLAN_H
