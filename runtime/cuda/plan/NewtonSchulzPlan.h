// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The workspace of Newton-Schulz over a matrix in bf16 on a GPU
// (calls/NewtonSchulz.cu), where it is replaced in place.

#ifndef SHARDONNX_RUNTIME_CUDA_NEWTONSCHULZPLAN_H
#define SHARDONNX_RUNTIME_CUDA_NEWTONSCHULZPLAN_H

#include "../kernels/Shapes.h"
#include "GemmPlan.h"
#include "shardonnx/runtime/NewtonSchulzPlan.h"

namespace shardonnx::rt::cuda {

/// Offsets in bytes; the Gram matrix is first.
struct NewtonSchulzPlan : NewtonSchulzShape {
  int64_t polynomial = 0, sums = 0, squares = 0, squaresSum = 0, product = 0;
  int64_t bytes = 0;
};

/// C = A·B in f32 or bf16, of operands in bf16 whose rows have no gaps.
constexpr ShxGemm newtonSchulzProduct(int64_t m, int64_t n, int64_t k,
                                      int32_t dtypeC) {
  ShxGemm desc{};
  desc.m = m, desc.n = n, desc.k = k;
  desc.lda = k, desc.ldb = desc.ldc = n;
  desc.dtypeA = desc.dtypeB = SHX_BF16;
  desc.dtypeC = dtypeC;
  return desc;
}

/// Sums in f32 of some waves of tiles.
constexpr int64_t kNewtonSchulzSums = 1 << 24;

constexpr NewtonSchulzPlan planNewtonSchulz(int64_t rows, int64_t columns,
                                            int64_t sums = kNewtonSchulzSums) {
  constexpr int64_t kLeastBlock = 256;
  NewtonSchulzPlan plan{{rows, columns, sums, kLeastBlock}};
  int64_t products =
      plan.mostOfProducts([](int64_t m, int64_t n, int64_t k, int32_t dtypeC) {
        return planGemm(newtonSchulzProduct(m, n, k, dtypeC)).bytes;
      });
  int64_t chunks = (rows * columns + kSquaresChunk - 1) / kSquaresChunk;
  int64_t at = 0;
  auto take = [&at](int64_t bytes) {
    int64_t here = at;
    at += alignTo(bytes, kGemmAlignment);
    return here;
  };
  int64_t square = plan.least * plan.least * bytesOf(SHX_BF16);
  take(square);
  plan.polynomial = take(square);
  plan.sums = take(plan.block * plan.least * int64_t(sizeof(float)));
  plan.squares = take(chunks * int64_t(sizeof(double)));
  plan.squaresSum = take(sizeof(double));
  plan.product = take(products);
  plan.bytes = at;
  return plan;
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_NEWTONSCHULZPLAN_H
