// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the CUDA calls lay out their workspaces: for the compiler, which plans
// them, and for the calls, which use them.

#ifndef SHARDONNX_RUNTIME_CUDA_WORKSPACEPLAN_H
#define SHARDONNX_RUNTIME_CUDA_WORKSPACEPLAN_H

#include "AttentionPlan.h"
#include "AxisPlan.h"
#include "ElementBytes.h"
#include "EmbeddingPlan.h"
#include "GemmPlan.h"
#include "LossPlan.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Layout.h"
#include <cstdint>

namespace shardonnx::rt::cuda {

constexpr int64_t gemmWorkspaceBytes(const ShxGemm &desc) {
  return planGemm(desc).bytes;
}

constexpr int64_t embeddingGradWorkspaceBytes(const ShxEmbedding &desc) {
  return planEmbeddingGrad(desc).bytes;
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_WORKSPACEPLAN_H
