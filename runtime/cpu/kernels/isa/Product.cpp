// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products in f32: operands in other float types are widened as they
// are packed.

#include "IsaKernels.h"
#include "ProductTile.h"

namespace shardonnx::rt::SHX_ISA {
namespace {

struct FusedMultiplyAdd {
  static constexpr int64_t kDepth = F32Units::kDepth;
  SHX_INLINE Vec broadcast(const float *unit) { return splat(*unit); }
  SHX_INLINE Vec step(Vec sum, Vec element, Vec row) {
    return sum + element * row;
  }
};

} // namespace

extern const ProductKernels f32Product;
const ProductKernels f32Product = {
    "f32",
    kProductRows,
    kProductColumns,
    F32Units::kDepth,
    192,
    4,
    pack<F32Units, kProductRows>,
    pack<F32Units, kProductColumns>,
    multiplyPanels<FusedMultiplyAdd>,
};

} // namespace shardonnx::rt::SHX_ISA
