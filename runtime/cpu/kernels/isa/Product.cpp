// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products in f32: operands in other float types are widened as they
// are packed.

#include "IsaKernels.h"
#include "ProductTile.h"

namespace shardonnx::rt::SHX_ISA {
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
