// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The inner loops that exist once per instruction set, and the choice between
// them at run time.

#ifndef SHARDONNX_RUNTIME_CPU_KERNELS_H
#define SHARDONNX_RUNTIME_CPU_KERNELS_H

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt {

struct AttentionOperands {
  const void *q, *k, *v, *mask;
  void *out;
  float *lse;
};

struct AttentionGradOperands {
  const void *q, *k, *v, *mask, *out;
  const float *lse;
  const void *dout;
  void *dq, *dk, *dv;
  float *partialDq; // [part][batch, heads, seqQ, headDim], or null
};

struct Kernels {
  /// Float types to and from f32; narrowing rounds to nearest even.
  void (*widen)(int32_t dtype, const void *from, float *to, int64_t count);
  void (*narrow)(int32_t dtype, const float *from, void *to, int64_t count);
  /// to += from.
  void (*add)(const float *from, float *to, int64_t count);
  /// to = fromᵀ, f32.
  void (*transpose)(int64_t rows, int64_t columns, const float *from,
                    int64_t fromStride, float *to, int64_t toStride);
  /// The forward of one tile of queries of one head.
  void (*attention)(const ShxAttention &desc, const AttentionOperands &args,
                    int64_t task, float *scratch);
  /// The gradients of one part of the keys of one kv head.
  void (*attentionGrad)(const ShxAttention &desc,
                        const AttentionGradOperands &args, int64_t task,
                        float *scratch);
  /// -log softmax(cap(logits))[label]. When dlogits is not null it becomes
  /// seed·∂loss/∂logits; it may be the logits themselves. softcap 0: none.
  double (*crossEntropyRow)(const float *logits, int64_t classes, int64_t label,
                            float softcap, float seed, float *dlogits);
};

/// For the CPU at hand; ends the program with one line if it is older than
/// x86-64-v3 (AVX2, FMA, F16C).
const Kernels &kernels();

/// Tests run every call on each of these.
namespace v3 {
extern const Kernels kernelTable;
}
namespace v4 {
extern const Kernels kernelTable;
}
bool hasV4();
/// From now on kernels() are these; null: for the CPU at hand again.
void overrideKernels(const Kernels *table);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_KERNELS_H
