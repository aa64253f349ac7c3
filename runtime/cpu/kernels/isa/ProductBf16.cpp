// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products of bf16 by AVX512-BF16. A row of A that lies is pairs
// already.

#include "ProductTile.h"

namespace shardonnx::rt::SHX_ISA {
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
    multiplyRowsOfA<DotOfPairs>,
    kLanes,
    true,
};

} // namespace shardonnx::rt::SHX_ISA
