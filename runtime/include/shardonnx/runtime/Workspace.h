// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the library calls of a device need beside their operands: asked by the
// compiler, which plans the memory, and relied on by the runtime. Sizes in
// bytes.

#ifndef SHARDONNX_RUNTIME_WORKSPACE_H
#define SHARDONNX_RUNTIME_WORKSPACE_H

#include "shardonnx/runtime/MeshABI.h"
#include <cstdint>

namespace shardonnx {

// One device's calls.
struct LibraryModel {
  // Workspaces: independent of the number of threads and of the machine.
  int64_t (*gemm)(const ShxGemm &desc);
  int64_t (*attention)(const ShxAttention &desc);
  int64_t (*attentionGrad)(const ShxAttention &desc);
  int64_t (*embeddingGrad)(const ShxEmbedding &desc);
  int64_t (*axisCollective)(const ShxAxisCollective &desc);
  // Grows with desc.chunkRows.
  int64_t (*linearCrossEntropy)(const ShxLinearCrossEntropy &desc);

  // The least rows per chunk that do not cost speed: a multiple of 16, at most
  // desc.rows.
  int64_t (*chunkRows)(const ShxLinearCrossEntropy &desc);

  // Scratch that each thread of the CPU's pool keeps for these calls.
  int64_t (*attentionScratch)(const ShxAttention &desc);
  int64_t (*attentionGradScratch)(const ShxAttention &desc);
};

// Of a loss whose vocabulary ranks share: for each row of a chunk what each of
// them tells, what this one does, and the logit that it begins with.
constexpr int64_t sharedLossBytes(int64_t chunkRows, int64_t parts) {
  return chunkRows * (SHX_LOSS_SHARE_NUMBERS * (parts + 1) + 1) * 4;
}

const LibraryModel &cpuLibraries();
const LibraryModel &cudaLibraries();

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_WORKSPACE_H
