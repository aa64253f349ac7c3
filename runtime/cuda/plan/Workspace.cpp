// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The workspaces of the CUDA libraries and of our kernels. Linked into the
// compiler as well, so it needs neither a GPU nor CUDA's headers.

#include "shardonnx/runtime/Workspace.h"
#include "WorkspacePlan.h"

namespace shardonnx {

using namespace rt::cuda;

const LibraryModel &cudaLibraries() {
  static constexpr LibraryModel model = {
      gemmWorkspaceBytes,
      attentionWorkspaceBytes,
      attentionGradWorkspaceBytes,
      embeddingGradWorkspaceBytes,
      [](const ShxAxisCollective &desc) { return planAxis(desc).bytes; },
      [](const ShxLinearCrossEntropy &desc) { return planLoss(desc).bytes; },
      lossChunkRows,
      [](const ShxAttention &) { return int64_t(0); },
      [](const ShxAttention &) { return int64_t(0); }};
  return model;
}

} // namespace shardonnx
