// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The masks of dropout as samples of independent coins: the share that is
// dropped, its spread between rows, and correlations between neighbours,
// rows, samples, ops and seeds; and numbers in [0, 1) by their moments. The
// bounds are five standard deviations.

#include "shardonnx/runtime/Random.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace shardonnx::random;

namespace {

constexpr int64_t kRows = 2048, kColumns = 1024;

bool dropped(uint64_t stream, int64_t row, int64_t column, double ratio) {
  uint64_t key = rowKey(stream, static_cast<uint64_t>(row));
  return elementBits(key, static_cast<uint32_t>(column)) < dropBelow(ratio);
}

TEST(Random, DropsItsShareOfElements) {
  for (double ratio : {0.01, 0.1, 0.5, 0.9})
    for (uint64_t seed : {0u, 1u, 12345u}) {
      uint64_t stream = streamKey(seed, 3);
      double total = 0, spread = 0;
      for (int64_t row = 0; row < kRows; ++row) {
        int64_t count = 0;
        for (int64_t column = 0; column < kColumns; ++column)
          count += dropped(stream, row, column, ratio);
        total += static_cast<double>(count);
        double off = static_cast<double>(count) - ratio * kColumns;
        spread += off * off;
      }
      // Counts of rows are binomial: their mean and their variance.
      double variance = kColumns * ratio * (1 - ratio);
      EXPECT_NEAR(total / kRows, ratio * kColumns,
                  5 * std::sqrt(variance / kRows));
      EXPECT_NEAR(spread / kRows / variance, 1,
                  5 * std::sqrt((2 + 1 / variance) / kRows));
    }
}

// How often two elements are dropped together, against independent coins.
template <typename Other>
void expectIndependent(const char *what, Other other) {
  constexpr double ratio = 0.3;
  uint64_t stream = streamKey(7, 0);
  double sum = 0, n = 0;
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t column = 0; column < kColumns; ++column, ++n)
      sum += (dropped(stream, row, column, ratio) - ratio) *
             (other(row, column, ratio) - ratio);
  EXPECT_NEAR(sum / n / (ratio * (1 - ratio)), 0, 5 / std::sqrt(n)) << what;
}

TEST(Random, NeighboursAreIndependent) {
  uint64_t stream = streamKey(7, 0);
  for (int64_t step : {1, 2, 3, 8, 64, 512, 1024})
    expectIndependent("columns", [&](int64_t row, int64_t column, double p) {
      return dropped(stream, row, column + step, p);
    });
  for (int64_t step : {1, 2, 16, 2048, 1 << 20})
    expectIndependent("rows", [&](int64_t row, int64_t column, double p) {
      return dropped(stream, row + step, column, p);
    });
  expectIndependent("diagonals", [&](int64_t row, int64_t column, double p) {
    return dropped(stream, row + 1, column + 1, p);
  });
  for (uint64_t op : {1, 2, 100})
    expectIndependent("ops", [&](int64_t row, int64_t column, double p) {
      return dropped(streamKey(7, op), row, column, p);
    });
  for (uint64_t seed : {0, 6, 8})
    expectIndependent("seeds", [&](int64_t row, int64_t column, double p) {
      return dropped(streamKey(seed, 0), row, column, p);
    });
}

TEST(Random, FractionsAreUniform) {
  EXPECT_EQ(fractionOf(0), 0);
  EXPECT_LT(fractionOf(UINT32_MAX), 1);
  uint64_t stream = streamKey(3, 1);
  double sums[4] = {}, n = kRows * kColumns;
  for (int64_t row = 0; row < kRows; ++row) {
    uint64_t key = rowKey(stream, static_cast<uint64_t>(row));
    for (uint32_t column = 0; column < kColumns; ++column) {
      double power = 1, u = fractionOf(elementBits(key, column));
      for (double &sum : sums)
        sum += power *= u;
    }
  }
  // E u^k = 1/(k+1), Var u^k = 1/(2k+1) - 1/(k+1)^2.
  for (int k = 1; k <= 4; ++k)
    EXPECT_NEAR(
        sums[k - 1] / n, 1.0 / (k + 1),
        5 * std::sqrt((1.0 / (2 * k + 1) - 1.0 / ((k + 1) * (k + 1))) / n))
        << k;
}

// Every bit of the input changes about half of the bits.
TEST(Random, Avalanche) {
  uint64_t stream = streamKey(1, 1);
  for (int bit = 0; bit < 32; ++bit) {
    double changed = 0;
    constexpr int kTrials = 4000;
    for (int trial = 0; trial < kTrials; ++trial) {
      uint64_t key = rowKey(stream, static_cast<uint64_t>(trial));
      uint32_t column = static_cast<uint32_t>(trial) * 77;
      changed += __builtin_popcount(elementBits(key, column) ^
                                    elementBits(key, column ^ (1u << bit)));
    }
    EXPECT_NEAR(changed / kTrials, 16, 0.5) << bit;
  }
}

} // namespace
