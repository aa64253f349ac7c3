// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The workspaces of attention: for the compiler, which plans them, and for the
// calls, which use them. What cuDNN wants was seen by building its plans for an
// H100 (cudnn_plans_test does it again).

#ifndef SHARDONNX_RUNTIME_CUDA_ATTENTIONPLAN_H
#define SHARDONNX_RUNTIME_CUDA_ATTENTIONPLAN_H

#include "shardonnx/runtime/CudaAttention.h"
#include "shardonnx/runtime/Layout.h"

namespace shardonnx::rt::cuda {

/// Room for what a plan keeps for itself (256 bytes with cuDNN 9.19) and, with
/// cuDNN before 9.16, for the lengths of the sequences.
constexpr int64_t cudnnSpareBytes(const ShxAttention &desc) {
  return 4096 + desc.batch * 8;
}

/// The deterministic algorithm keeps the gradients of all scores, in 16 bits
/// and in tiles of 64 queries and 128 keys.
constexpr int64_t cudnnScoreBytes(const ShxAttention &desc) {
  return desc.batch * desc.heads * alignTo(desc.seqQ, 64) *
         alignTo(desc.seqK, 128) * 2;
}

/// dq in f32 or the scores, a dot product for each query and, where heads share
/// keys and values, dk and dv of each head.
constexpr int64_t cudnnGradBytes(const ShxAttention &desc) {
  int64_t queries = desc.batch * desc.heads * desc.seqQ;
  int64_t keys = desc.batch * desc.heads * desc.seqK;
  bool deterministic = desc.flags & SHX_ATTENTION_DETERMINISTIC;
  int64_t bytes =
      deterministic ? cudnnScoreBytes(desc) : queries * desc.headDim * 4;
  bytes += queries * 4;
  if (desc.kvHeads != desc.heads)
    bytes += 2 * keys * desc.headDim * 2;
  return bytes + cudnnSpareBytes(desc);
}

/// Our own kernels: a dot product for each query.
constexpr int64_t ownGradBytes(const ShxAttention &desc) {
  return desc.batch * desc.heads * desc.seqQ * 4;
}

inline int64_t attentionWorkspaceBytes(const ShxAttention &desc) {
  return cudnnRefusal(desc, false, false)
             ? 0
             : alignTo(cudnnSpareBytes(desc), kBufferAlignmentBytes);
}

inline int64_t attentionGradWorkspaceBytes(const ShxAttention &desc) {
  int64_t own = ownGradBytes(desc);
  int64_t cudnn = cudnnRefusal(desc, false, true) ? 0 : cudnnGradBytes(desc);
  return alignTo(own > cudnn ? own : cudnn, kBufferAlignmentBytes);
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_ATTENTIONPLAN_H
