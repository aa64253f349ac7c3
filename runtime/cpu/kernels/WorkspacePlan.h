// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the GEMM and the loss lay out their workspaces: for Workspace.cpp, which
// says how large they are, and for the calls, which use them.

#ifndef SHARDONNX_RUNTIME_CPU_WORKSPACEPLAN_H
#define SHARDONNX_RUNTIME_CPU_WORKSPACEPLAN_H

#include "AttentionPlan.h"

namespace shardonnx::rt {

/// Matrices of a batch that are widened at once: as many as fit in this many
/// floats, at least one.
constexpr int64_t kWidenFloats = 1 << 21;

/// f32 copies of what is not f32, for `group` matrices of the batch at a time.
struct GemmPlan {
  int64_t batch, group;
  int64_t a, b, c; // floats of one matrix's copies; 0: used as it is
  int64_t floats;  // of the workspace
};

static constexpr GemmPlan planGemm(const ShxGemm &desc) {
  GemmPlan plan{};
  plan.batch = 1;
  for (int32_t i = 0; i < desc.batchRank; ++i)
    plan.batch *= desc.batch[i];
  plan.a = desc.dtypeA == SHX_F32 ? 0 : scratchLine(desc.m * desc.k);
  plan.b = desc.dtypeB == SHX_F32 ? 0 : scratchLine(desc.k * desc.n);
  plan.c = desc.dtypeC == SHX_F32 ? 0 : scratchLine(desc.m * desc.n);
  int64_t each = plan.a + plan.b + plan.c;
  plan.group = each > 0 ? kWidenFloats / each : plan.batch;
  plan.group = plan.group < 1 ? 1 : plan.group;
  plan.group = plan.group < plan.batch ? plan.group : plan.batch;
  plan.floats = plan.group * each;
  return plan;
}

/// Offsets in bytes; a size of 0 means that the operand is used as it is.
struct LossPlan {
  int64_t panel; // words of the vocabulary widened at once
  int64_t logits, losses, x, dx, w, dw;
  bool widenX, widenW, widenDw;
  int64_t bytes;
};

static constexpr LossPlan planLoss(const ShxLinearCrossEntropy &desc) {
  LossPlan plan{};
  plan.widenX = desc.dtypeX != SHX_F32;
  plan.widenW = desc.dtypeW != SHX_F32;
  plan.widenDw = desc.dtypeDw != SHX_F32;
  plan.panel = desc.vocab;
  if (plan.widenW && desc.vocab * desc.width > 2 * kWidenFloats) {
    plan.panel = 2 * kWidenFloats / desc.width / 64 * 64;
    plan.panel = plan.panel < 64 ? 64 : plan.panel;
    plan.panel = plan.panel < desc.vocab ? plan.panel : desc.vocab;
  }
  int64_t at = 0;
  auto take = [&at](int64_t floats) {
    int64_t here = at;
    at += scratchLine(floats) * 4;
    return here;
  };
  plan.logits = take(desc.chunkRows * desc.vocab);
  plan.losses = take(desc.chunkRows * 2); // double
  plan.x = take(plan.widenX ? desc.chunkRows * desc.width : 0);
  plan.dx = take(plan.widenX ? desc.chunkRows * desc.width : 0);
  plan.w = take(plan.widenW ? plan.panel * desc.width : 0);
  plan.dw = take(plan.widenDw ? desc.vocab * desc.width : 0);
  plan.bytes = at;
  return plan;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_WORKSPACEPLAN_H
