// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The workspace of Newton-Schulz over a matrix in bf16, which is replaced in
// place (--optimizer=muon).

#ifndef SHARDONNX_RUNTIME_NEWTONSCHULZPLAN_H
#define SHARDONNX_RUNTIME_NEWTONSCHULZPLAN_H

#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/ProductPlan.h"
#include <algorithm>

namespace shardonnx {

constexpr int kNewtonSchulzSteps = 5;
// a, b and c of its polynomial, and what the norm is at least.
constexpr float kNewtonSchulzA = 3.4445F, kNewtonSchulzB = -4.7750F,
                kNewtonSchulzC = 2.0315F, kNewtonSchulzEpsilon = 1e-7F;

/// A matrix as the steps see it.
struct NewtonSchulzShape {
  int64_t least, most; // of rows and columns
  int64_t block;       // of the longer side, whose products are summed at once

  /// A block is a multiple of leastBlock with no more than `sums` sums, or one
  /// of leastBlock.
  constexpr NewtonSchulzShape(int64_t rows, int64_t columns, int64_t sums,
                              int64_t leastBlock)
      : least(std::min(rows, columns)), most(std::max(rows, columns)),
        block(std::min(
            most, leastBlock *
                      std::max<int64_t>(1, sums / leastBlock /
                                               std::max<int64_t>(least, 1)))) {}

  /// The most of what bytes(m, n, k, dtype of the result) gives for a product
  /// of the steps.
  template <typename Bytes>
  constexpr int64_t mostOfProducts(Bytes bytes) const {
    int64_t side = std::max<int64_t>(least, 1);
    return std::max({bytes(side, side, most, SHX_BF16),
                     bytes(std::min(block, side), side, side, SHX_F32),
                     bytes(block, side, side, SHX_F32),
                     bytes(side, block, side, SHX_F32)});
  }
};

/// Offsets in bytes; the Gram matrix is first.
struct NewtonSchulzPlan : NewtonSchulzShape {
  int64_t polynomial = 0, sums = 0, product = 0;
  int64_t bytes = 0;
};

constexpr NewtonSchulzPlan planNewtonSchulz(int64_t rows, int64_t columns) {
  // Sums in f32 that stay in the cache that cores share.
  constexpr int64_t kSums = 1 << 20, kLeastBlock = 64, kBf16Bytes = 2;
  NewtonSchulzPlan plan{{rows, columns, kSums, kLeastBlock}};
  int64_t products =
      plan.mostOfProducts([](int64_t m, int64_t n, int64_t k, int32_t dtype) {
        return rt::planProduct(m, n, k, dtype).bytes;
      });
  int64_t square =
      alignTo(plan.least * plan.least * kBf16Bytes, kBufferAlignmentBytes);
  plan.polynomial = square;
  plan.sums = 2 * square;
  plan.product =
      plan.sums + alignTo(plan.block * plan.least * int64_t(sizeof(float)),
                          kBufferAlignmentBytes);
  plan.bytes = plan.product + alignTo(products, kBufferAlignmentBytes);
  return plan;
}

/// Of all its steps.
constexpr double newtonSchulzFlops(int64_t rows, int64_t columns) {
  auto least = static_cast<double>(std::min(rows, columns));
  auto most = static_cast<double>(std::max(rows, columns));
  return 2.0 * kNewtonSchulzSteps * least * least * (2 * most + least);
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_NEWTONSCHULZPLAN_H
