// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What our attention kernels are given and how they cut the work into blocks:
// read by the kernels and by the host that launches them.

#ifndef SHARDONNX_RUNTIME_CUDA_ATTENTIONARGS_H
#define SHARDONNX_RUNTIME_CUDA_ATTENTIONARGS_H

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt::cuda {

/// The one parameter of each kernel. What a direction does not use is null.
struct AttentionArgs {
  ShxAttention desc;
  const void *q, *k, *v, *mask, *dout;
  void *out;    // forward writes, backward reads
  float *lse;   // forward writes, backward reads
  float *delta; // [batch, heads, seqQ]: out·dout
  void *dq, *dk, *dv;
  int32_t vectors; // how every row begins: 0, kAttentionFours, kAttentionPacks
  /// Backward: a query with this log-sum-exp or less has no gradient (but see
  /// AttentionUnseen.cu).
  float leastLse;
};

/// At multiples of four elements; of 16 bytes of 16-bit floats, and ends there.
constexpr int kAttentionFours = 1, kAttentionPacks = 2;

constexpr int kAttentionThreads = 256; // of the f32 kernels
/// A block owns this many queries (forward, dq) or keys (dk and dv).
constexpr int kAttentionRows = 64;
constexpr int64_t kAttentionMaxDim = 256;

/// Kernels exist for head dims up to these.
constexpr int attentionDim(int64_t headDim) {
  return headDim <= 64 ? 64 : headDim <= 128 ? 128 : 256;
}

/// How many rows of the other operand are on the chip at once, as far as shared
/// memory and registers go. (The f32 forward always has 64.)
constexpr int attentionColumns(int dim) { return dim <= 128 ? 64 : 32; }

/// f32: from a row to the next in shared memory; eight threads that read 16
/// bytes of eight rows meet eight different banks.
constexpr int attentionPitch(int columns) { return columns + 4; }
/// 16 bits: likewise.
constexpr int attentionHalfPitch(int dim) { return dim + 8; }

/// The kernels of 16-bit floats: a warp has 16 of the rows. dk and dv of the
/// largest head dim do not fit into its registers: two warps have a half each.
constexpr int attentionHalfThreads(int dim, bool keys) {
  return keys && dim > 128 ? 256 : 128;
}

/// Dynamic shared memory, in bytes.
constexpr int attentionForwardShared(int dim) {
  return 4 * (2 * kAttentionRows * attentionPitch(dim) +
              kAttentionRows * attentionPitch(kAttentionRows));
}
constexpr int attentionGradShared(int dim) {
  int columns = attentionColumns(dim);
  return 4 * (2 * (kAttentionRows + columns) * attentionPitch(dim) +
              2 * kAttentionRows * attentionPitch(columns) + 2 * columns);
}
/// Two tiles of keys and two of values: the next ones come while these are
/// used.
constexpr int attentionHalfForwardShared(int dim) {
  return 2 * (kAttentionRows + 4 * attentionColumns(dim)) *
         attentionHalfPitch(dim);
}
/// Likewise; what a query has one float of stands in its row's padding. The
/// largest is what GPUs with 99 KiB for a block have.
constexpr int attentionHalfGradColumns(int dim) {
  return dim <= 64 ? 64 : dim <= 128 ? 32 : 16;
}
constexpr int attentionHalfGradShared(int dim) {
  return 2 * 2 * (kAttentionRows + 2 * attentionHalfGradColumns(dim)) *
         attentionHalfPitch(dim);
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_ATTENTIONARGS_H
