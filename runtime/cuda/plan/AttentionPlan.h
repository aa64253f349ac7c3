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

/// Documents are sequences of a ragged batch. A plan keeps some bytes for each
/// of the most that there may be (256 forward, 448 backward).
constexpr int64_t cudnnDocumentBytes(const ShxAttention &desc) {
  return 512 * alignTo(desc.documents, 64);
}

/// …and its sums of keys' gradients are as far apart as the gradients are, for
/// each query head: where these lie among others', as packed ones do, they are
/// first written side by side.
constexpr bool writesKeysAside(const ShxAttention &desc) {
  int64_t row = desc.kvHeads * desc.headDim;
  return desc.documents > 0 && desc.kvHeads != desc.heads &&
         (desc.dkStride[1] != row || desc.dvStride[1] != row);
}

/// What a plan is made of. Documents know no samples: a microbatch of theirs is
/// one sample of all its tokens. As several it is not the same to cuDNN 9.19,
/// whose gradient was not a number then (docs/cuda.md).
constexpr ShxAttention asPlannedByCudnn(ShxAttention desc) {
  if (desc.documents == 0)
    return desc;
  desc.seqQ *= desc.batch;
  desc.seqK *= desc.batch;
  for (int64_t *stride :
       {desc.qStride, desc.kStride, desc.vStride, desc.outStride,
        desc.doutStride, desc.dqStride, desc.dkStride, desc.dvStride})
    stride[0] *= desc.batch;
  desc.batch = 1;
  if (writesKeysAside(desc))
    for (int64_t *stride : {desc.dkStride, desc.dvStride}) {
      stride[1] = desc.kvHeads * desc.headDim;
      stride[0] = desc.seqK * stride[1];
      stride[2] = desc.headDim;
    }
  return desc;
}

/// One of the two gradients that are written aside.
constexpr int64_t kAsideAlignmentBytes = 256;
constexpr int64_t keysAsideBytes(const ShxAttention &desc) {
  return writesKeysAside(desc)
             ? alignTo(desc.batch * desc.seqK * desc.kvHeads * desc.headDim * 2,
                       kAsideAlignmentBytes)
             : 0;
}

/// By tokens, not by documents: dq in f32, as far apart as dq's tokens are, a
/// dot product for each query and, where heads share keys and values, dk and dv
/// of each head, for which the frontend takes four bytes an element.
constexpr int64_t cudnnDocumentGradBytes(const ShxAttention &desc) {
  int64_t tokens = desc.batch * desc.seqQ;
  int64_t bytes = tokens * (desc.dqStride[1] + desc.heads) * 4;
  if (desc.kvHeads != desc.heads)
    bytes += 2 * tokens * desc.heads * desc.headDim * 4;
  return bytes + 2 * keysAsideBytes(desc) + cudnnDocumentBytes(desc) +
         cudnnSpareBytes(desc);
}

/// Our own kernels: a dot product for each query.
constexpr int64_t ownGradBytes(const ShxAttention &desc) {
  return desc.batch * desc.heads * desc.seqQ * 4;
}

/// Of masks only first keys are told by the descriptor.
constexpr bool hasFirstKeys(const ShxAttention &desc) {
  return desc.maskDtype == SHX_I32;
}

inline int64_t attentionWorkspaceBytes(const ShxAttention &desc) {
  return cudnnRefusal(desc, hasFirstKeys(desc), false)
             ? 0
             : alignTo(cudnnSpareBytes(desc) + cudnnDocumentBytes(desc),
                       kBufferAlignmentBytes);
}

inline int64_t attentionGradWorkspaceBytes(const ShxAttention &desc) {
  int64_t own = ownGradBytes(desc);
  int64_t cudnn = cudnnRefusal(desc, hasFirstKeys(desc), true) ? 0
                  : desc.documents > 0 ? cudnnDocumentGradBytes(desc)
                                       : cudnnGradBytes(desc);
  return alignTo(own > cudnn ? own : cudnn, kBufferAlignmentBytes);
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_ATTENTIONPLAN_H
