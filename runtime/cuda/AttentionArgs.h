// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What our attention kernels are given and how they cut the work into blocks:
// read by the kernels and by the host that launches them.

#ifndef SHARDONNX_RUNTIME_CUDA_ATTENTIONARGS_H
#define SHARDONNX_RUNTIME_CUDA_ATTENTIONARGS_H

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt::cuda {

// The one parameter of each kernel. What a direction does not use is null.
struct AttentionArgs {
  ShxAttention desc;
  const void *q, *k, *v, *mask, *dout;
  void *out;    // forward writes, backward reads
  float *lse;   // forward writes, backward reads
  float *delta; // [batch, heads, seqQ]: out·dout
  void *dq, *dk, *dv;
  int32_t vectors; // every row begins at a multiple of four elements
  int32_t reserved;
};

constexpr int kAttentionThreads = 256;
// A block owns this many queries (forward, dq) or keys (dk and dv): 16 threads
// share four of them.
constexpr int kAttentionRows = 64;
constexpr int64_t kAttentionMaxDim = 256;

// Kernels exist for head dims up to these.
constexpr int attentionDim(int64_t headDim) {
  return headDim <= 64 ? 64 : headDim <= 128 ? 128 : 256;
}

// How many rows of the other operand are on the chip at once, as far as shared
// memory goes.
constexpr int attentionColumns(int dim) { return dim <= 128 ? 64 : 32; }

// Floats from a row to the next in shared memory: eight threads that read 16
// bytes of eight rows meet eight different banks.
constexpr int attentionPitch(int columns) { return columns + 4; }

// Dynamic shared memory, in bytes.
constexpr int attentionForwardShared(int dim) {
  return 4 * (2 * kAttentionRows * attentionPitch(dim) +
              kAttentionRows * attentionPitch(kAttentionRows));
}
constexpr int attentionGradShared(int dim) {
  int columns = attentionColumns(dim);
  return 4 * (2 * (kAttentionRows + columns) * attentionPitch(dim) +
              2 * kAttentionRows * attentionPitch(columns) + 2 * columns);
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_ATTENTIONARGS_H
