// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products of bf16 by AVX512-BF16: each lane of an instruction adds the
// products of two pairs to an f32 sum.

#include "ProductTile.h"

namespace shardonnx::rt::SHX_ISA {
namespace {

struct DotOfPairs {
  static constexpr int64_t kDepth = Bf16Units::kDepth;
  SHX_INLINE Vec broadcast(const float *unit) {
    return (Vec)_mm512_set1_epi32(int32_t(floatToBits(*unit)));
  }
  SHX_INLINE Vec step(Vec sum, Vec element, Vec row) {
    return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)element, (__m512bh)row);
  }
};

} // namespace

extern const ProductKernels bf16Product;
const ProductKernels bf16Product = {
    "avx512-bf16",
    kProductRows,
    kProductColumns,
    Bf16Units::kDepth,
    384,
    2,
    pack<Bf16Units, kProductRows>,
    pack<Bf16Units, kProductColumns>,
    multiplyPanels<DotOfPairs>,
};

} // namespace shardonnx::rt::SHX_ISA
