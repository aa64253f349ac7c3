// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The linear cross-entropy on CUDA: its products, how large a chunk of rows is,
// and how it lays out its workspace.

#ifndef SHARDONNX_RUNTIME_CUDA_LOSSPLAN_H
#define SHARDONNX_RUNTIME_CUDA_LOSSPLAN_H

#include "ElementBytes.h"
#include "GemmPlan.h"
#include "shardonnx/runtime/Layout.h"

namespace shardonnx::rt::cuda {

/// Offsets in bytes.
struct LossPlan {
  int32_t dtype;  // of the logits, and of their gradient, which replaces them
  int64_t stride; // of their rows: any vocabulary has aligned ones
  int64_t logits, losses;
  int64_t dw;   // f32 sums of the chunks; -1: dw is f32 itself
  int64_t gemm; // for one product after another
  int64_t bytes;
};

struct LossProducts {
  ShxGemm logits, dx, dw;
};

/// Logits are held in the operands' type, as PyTorch's autocast does; of
/// operands that differ, in f32.
constexpr int32_t logitsDtype(const ShxLinearCrossEntropy &desc) {
  return desc.dtypeX == desc.dtypeW ? desc.dtypeX : int32_t(SHX_F32);
}
constexpr int64_t logitsStride(const ShxLinearCrossEntropy &desc) {
  return alignTo(desc.vocab, 64);
}

/// Words [begin, begin + count) of a vocabulary.
struct LossWords {
  int64_t begin, count;
};

/// The words as products take them: all at once, or first as many as eight
/// divides. cuBLASLt 13 answers a product of 16 bits whose rows or terms eight
/// does not divide with kernels that read element by element, whatever the
/// strides (GPT-2's 50257 words on an H100: 3.4 ms instead of 0.5 ms); the few
/// words that are left cost next to nothing. Weights with a word a column have
/// rows of that length, which no cut aligns.
constexpr int64_t kLossWordsStep = 8, kLossWordsWorthCutting = 64;
constexpr int64_t lossWordsCut(const ShxLinearCrossEntropy &d) {
  bool aligned = d.vocab % kLossWordsStep == 0;
  bool cut = d.transW && bytesOf(d.dtypeX) == 2 && bytesOf(d.dtypeW) == 2 &&
             d.vocab > kLossWordsWorthCutting && !aligned;
  return cut ? d.vocab / kLossWordsStep * kLossWordsStep : d.vocab;
}

/// Of a chunk of `rows` rows, and of some words.
constexpr LossProducts lossProducts(const ShxLinearCrossEntropy &d,
                                    int64_t rows, LossWords words) {
  LossProducts products{};
  int64_t ldw = d.transW ? d.width : d.vocab, stride = logitsStride(d);
  int32_t dtype = logitsDtype(d);

  ShxGemm &logits = products.logits; // x·w or x·wᵀ
  logits.m = rows, logits.n = words.count, logits.k = d.width;
  logits.lda = d.ldx, logits.ldb = ldw, logits.ldc = stride;
  logits.transB = d.transW;
  logits.dtypeA = d.dtypeX, logits.dtypeB = d.dtypeW, logits.dtypeC = dtype;
  logits.flags = d.flags;

  ShxGemm &dx = products.dx; // dlogits·wᵀ or dlogits·w
  dx.m = rows, dx.n = d.width, dx.k = words.count;
  dx.lda = stride, dx.ldb = ldw, dx.ldc = d.lddx;
  dx.transB = !d.transW;
  dx.dtypeA = dtype, dx.dtypeB = d.dtypeW, dx.dtypeC = d.dtypeX;
  dx.accumulate = words.begin > 0;
  dx.flags = d.flags;

  ShxGemm &dw = products.dw; // xᵀ·dlogits or dlogitsᵀ·x
  dw.m = d.transW ? words.count : d.width;
  dw.n = d.transW ? d.width : words.count;
  dw.k = rows;
  dw.lda = d.transW ? stride : d.ldx;
  dw.ldb = d.transW ? d.ldx : stride;
  dw.ldc = ldw;
  dw.transA = 1;
  dw.dtypeA = d.transW ? dtype : d.dtypeX;
  dw.dtypeB = d.transW ? d.dtypeX : dtype;
  dw.dtypeC = SHX_F32;
  dw.flags = d.flags;
  return products;
}

/// Without a gradient, as in evaluation, there is no distance of its rows, and
/// one product: that of the logits.
constexpr LossPlan planLoss(const ShxLinearCrossEntropy &desc) {
  LossPlan plan{};
  plan.dtype = logitsDtype(desc);
  plan.stride = logitsStride(desc);
  int64_t at = 0;
  auto take = [&at](int64_t bytes) {
    int64_t here = at;
    at += alignTo(bytes, 256);
    return here;
  };
  plan.logits = take(desc.chunkRows * plan.stride * bytesOf(plan.dtype));
  plan.losses = take(desc.rows * 8);
  plan.dw = desc.dtypeDw == SHX_F32 ? -1 : take(desc.vocab * desc.width * 4);
  int64_t gemmBytes = 0, cut = lossWordsCut(desc);
  for (LossWords words :
       {LossWords{0, cut}, LossWords{cut, desc.vocab - cut}}) {
    LossProducts products = lossProducts(desc, desc.chunkRows, words);
    for (const ShxGemm *product :
         {&products.logits, &products.dx, &products.dw}) {
      bool made =
          words.count > 0 && (product == &products.logits || desc.lddx != 0);
      if (made && planGemm(*product).bytes > gemmBytes)
        gemmBytes = planGemm(*product).bytes;
    }
  }
  plan.gemm = take(gemmBytes);
  plan.bytes = at;
  return plan;
}

/// Each chunk reads and writes all of dw (f32), so with few rows a chunk is
/// bound by memory: on Hopper 2 · rows flops for each 8 bytes are even at about
/// 900 rows, and 2048 leave that behind. 512 MiB of logits allow more where the
/// vocabulary is small. Chunks that divide the rows need one kernel less.
constexpr int64_t lossChunkRows(const ShxLinearCrossEntropy &desc) {
  constexpr int64_t kChunkBytes = int64_t(512) << 20, kLeast = 2048,
                    kStep = 128;
  int64_t row = logitsStride(desc) * bytesOf(logitsDtype(desc));
  int64_t most = row > 0 ? kChunkBytes / row / kStep * kStep : kLeast;
  most = most < kLeast ? kLeast : most;
  if (desc.rows <= most)
    return desc.rows;
  for (int64_t chunk = most; 2 * chunk >= most; chunk -= kStep)
    if (desc.rows % chunk == 0)
      return chunk;
  int64_t chunks = (desc.rows + most - 1) / most;
  return alignTo((desc.rows + chunks - 1) / chunks, kStep);
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_LOSSPLAN_H
