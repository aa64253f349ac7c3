// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products in f32: operands in other float types are widened as they
// are packed. Of a product of few lines the other operand is used too seldom to
// be packed.

#include "IsaKernels.h"
#include "ProductTile.h"

namespace shardonnx::rt::SHX_ISA {
namespace {

void multiplyOperands(int64_t rows, int64_t columns, int64_t depth,
                      const StridedOperands &from, float *c, int64_t cStride,
                      bool add) {
  auto multiply = [&](auto steps) {
    multiplyTiles<FusedMultiplyAdd>(rows, columns, steps, depth, from.a,
                                    from.aTile, from.b, c, cStride, add);
  };
  if (from.aDepth == 1)
    multiply(RowsOfA{from.aLine});
  else
    multiply(RowsOfB{from.bDepth});
}

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
    multiplyOperands,
    kLanes,
};

} // namespace shardonnx::rt::SHX_ISA
