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

/// One operand of a matrix product: rows of A or columns of B are its lines, so
/// that element (line, depth) is data[line * lineStride + depth * depthStride].
struct ProductOperand {
  const void *data;
  int32_t dtype;
  int64_t lineStride, depthStride; // one of them is 1
};

/// Operands of a product of which one is not worth packing: rows of A, aLine
/// apart and aDepth 1, or rows of B, a depth each. Of what is packed the
/// distances are those of its panels; tiles of A are aTile apart. All of them
/// are counted in units of 32 bits: one f32, or two bf16 along the depth.
struct StridedOperands {
  const float *a;
  int64_t aLine, aDepth, aTile;
  const float *b;
  int64_t bDepth;
};

/// Matrix products of operands that were packed first: lines in panels as wide
/// as a tile, in which `depthStep` elements of a line lie together, zeros where
/// the operand has ended. A panel's element (line, depth) of whole steps lies
/// `depth * lines of a tile * elementBytes` further than that of depth 0.
struct ProductKernels {
  const char *name;
  int64_t rows, columns; // lines of a panel of A, of B
  int64_t depthStep;
  int64_t depthBlock; // of the panels that a tile multiplies in one go
  int64_t elementBytes;
  /// Packs some lines; the panels lie panelBytes apart.
  void (*packA)(const ProductOperand &from, int64_t lines, int64_t depth,
                void *to, int64_t panelBytes);
  void (*packB)(const ProductOperand &from, int64_t lines, int64_t depth,
                void *to, int64_t panelBytes);
  /// c (+)= panels of A times one panel of B, for the first `columns` of it.
  void (*multiply)(int64_t rows, int64_t columns, int64_t depth, const void *a,
                   int64_t aPanelBytes, const void *b, float *c,
                   int64_t cStride, bool add);
  /// The same, of rows of A where they lie, or, in f32, of whole vectors of B
  /// where it is not packed; null: there is none.
  void (*multiplyStrided)(int64_t rows, int64_t columns, int64_t depth,
                          const StridedOperands &operands, float *c,
                          int64_t cStride, bool add);
  int64_t vector; // columns of a vector
  /// Rows of A are read where they lie whatever they are multiplied by.
  bool rowsLie;
};

struct AttentionKernels {
  /// The forward of one block of queries of one kv head. The operands of the
  /// task `next`, if there is one, are asked for meanwhile.
  void (*forward)(const ShxAttention &desc, const AttentionOperands &args,
                  int64_t task, int64_t next, float *scratch);
  /// The gradients of one part of the keys of one kv head.
  void (*gradient)(const ShxAttention &desc, const AttentionGradOperands &args,
                   int64_t task, int64_t next, float *scratch);
};

/// Depthwise convolutions, on the layout of DepthwisePlan.h. Places are read
/// and written up to a whole number of kDepthwiseLanes.
struct DepthwiseKernels {
  /// to[i] = Σ_t weights[t]·from[i + offsets[t]] for i < count.
  void (*sumTaps)(const float *from, const int64_t *offsets,
                  const float *weights, int64_t taps, float *to, int64_t count);
  /// sums[t], in kDepthwiseLanes parts, += Σ_i grad[i]·from[i + offsets[t]] for
  /// i < count; grad is zero behind.
  void (*sumPlaces)(const float *grad, const float *from,
                    const int64_t *offsets, int64_t taps, int64_t count,
                    float *sums);
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
  /// -log softmax(cap(logits))[label]. When dlogits is not null it becomes
  /// seed·∂loss/∂logits; it may be the logits themselves. softcap 0: none.
  double (*crossEntropyRow)(const float *logits, int64_t classes, int64_t label,
                            float softcap, float seed, float *dlogits);
  /// Attention in f32, and of bf16 operands multiplied as pairs (or null).
  const AttentionKernels *f32Attention, *bf16Attention;
  /// Products in f32, and of bf16 pairs summed in f32 (null: this CPU has no
  /// instruction for them, so they are widened).
  const ProductKernels *f32Product, *bf16Product;
  const DepthwiseKernels *depthwise;
};

/// Why there are none for the CPU at hand, as SHARDONNX_CPU_ISA would have it;
/// null where there are.
const char *whyNoKernels();

/// For the CPU at hand, or the lesser one that SHARDONNX_CPU_ISA names; ends
/// the program with one line if it is older than x86-64-v3 (AVX2, FMA, F16C).
const Kernels &kernels();

/// Those that an instruction set has, by its name in SHARDONNX_CPU_ISA, whether
/// or not this CPU has it; `dots`: where AVX512-BF16's dot products are fast.
Kernels kernelsOf(const char *name, bool dots);

/// Tests run every call on each of these.
namespace v3 {
extern const Kernels kernelTable;
}
namespace v4 {
extern const Kernels kernelTable;
}
bool hasV4();
/// Products of bf16 by AVX512-BF16, attention too, and by AMX, which has to be
/// asked for.
namespace bf16 {
extern const AttentionKernels attentionKernels;
extern const ProductKernels bf16Product;
} // namespace bf16
namespace amx {
extern const ProductKernels bf16Product;
}
bool hasBf16();
bool hasAmx();
/// From now on kernels() are these; null: for the CPU at hand again.
void overrideKernels(const Kernels *table);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_KERNELS_H
