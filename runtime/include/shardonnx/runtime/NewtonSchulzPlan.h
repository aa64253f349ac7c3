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

/// Offsets in bytes; the Gram matrix is first.
struct NewtonSchulzPlan {
  int64_t least, most; // of rows and columns
  int64_t block;       // of the longer side, whose products are summed at once
  int64_t polynomial, sums, product;
  int64_t bytes;
};

constexpr NewtonSchulzPlan planNewtonSchulz(int64_t rows, int64_t columns) {
  // Sums in f32 that stay in the cache that cores share.
  constexpr int64_t kSums = 1 << 20, kLeastBlock = 64, kBf16Bytes = 2;
  NewtonSchulzPlan plan{};
  plan.least = std::min(rows, columns);
  plan.most = std::max(rows, columns);
  int64_t least = std::max<int64_t>(plan.least, 1);
  int64_t steps = std::max<int64_t>(kSums / least / kLeastBlock, 1);
  plan.block = std::min(plan.most, steps * kLeastBlock);
  auto product = [](int64_t m, int64_t n, int64_t k, int32_t dtype) {
    return rt::planProduct(m, n, k, dtype).bytes;
  };
  int64_t products =
      std::max({product(least, least, plan.most, SHX_BF16),
                product(std::min(plan.block, least), least, least, SHX_F32),
                product(plan.block, least, least, SHX_F32),
                product(least, plan.block, least, SHX_F32)});
  int64_t square = alignTo(least * least * kBf16Bytes, kBufferAlignmentBytes);
  plan.polynomial = square;
  plan.sums = 2 * square;
  plan.product =
      plan.sums + alignTo(plan.block * least * int64_t(sizeof(float)),
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
