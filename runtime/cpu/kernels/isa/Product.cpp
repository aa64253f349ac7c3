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
  if (from.aDepth == 1)
    return multiplyRowsOfA<FusedMultiplyAdd>(rows, columns, depth, from, c,
                                             cStride, add);
  multiplyTiles<FusedMultiplyAdd>(rows, columns, RowsOfB{from.bDepth}, depth,
                                  from.a, from.aTile, from.b, c, cStride, add);
}

} // namespace

// A tile of AVX-512 is as fast with a panel of B from the second cache, and
// stores its sums less often the deeper it is; its rows of A are read often
// enough to be worth no packing. Smaller vectors want B in the first cache.
constexpr bool kWide = SHX_VECTOR_BYTES == 64;
constexpr int64_t kDepthBlock = kWide ? 512 : 192;

extern const ProductKernels f32Product;
const ProductKernels f32Product = {
    "f32",
    kProductRows,
    kProductColumns,
    F32Units::kDepth,
    kDepthBlock,
    4,
    pack<F32Units, kProductRows>,
    pack<F32Units, kProductColumns>,
    multiplyPanels<FusedMultiplyAdd>,
    multiplyOperands,
    kLanes,
    kWide,
};

} // namespace shardonnx::rt::SHX_ISA
