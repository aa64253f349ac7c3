// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What Newton-Schulz is held against on any device: torch.optim.Muon's results
// (record.py), and the formulas in f64.

#ifndef SHARDONNX_TEST_UNIT_NEWTON_SCHULZ_REFERENCE_H
#define SHARDONNX_TEST_UNIT_NEWTON_SCHULZ_REFERENCE_H

#include "shardonnx/runtime/NewtonSchulzPlan.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <utility>
#include <vector>

namespace shardonnx::test::newton_schulz {

inline float valueAt(int64_t i) {
  return static_cast<float>((i * i * 37 + i * 11) % 101 - 50) / 64;
}

inline float wide(uint16_t bf16) {
  uint32_t bits = uint32_t(bf16) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// To nearest, ties to even; none of the tests' numbers is near the ends.
inline uint16_t narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Those of valueAt() are bf16; sums of their squares are exact in f64.
inline std::vector<uint16_t> matrixOf(int64_t rows, int64_t columns) {
  std::vector<uint16_t> matrix(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < matrix.size(); ++i)
    matrix[i] = narrow(valueAt(static_cast<int64_t>(i)));
  return matrix;
}

struct Recorded {
  int64_t rows, columns;
  std::vector<uint16_t> result;
};

inline const std::vector<Recorded> &recorded() {
  static const std::vector<Recorded> list = {
#include "recorded.inc"
  };
  return list;
}

using Matrix = std::vector<double>; // row-major

inline Matrix product(const Matrix &a, const Matrix &b, int64_t m, int64_t n,
                      int64_t k) {
  Matrix c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j)
        c[size_t(i * n + j)] += a[size_t(i * k + l)] * b[size_t(l * n + j)];
  return c;
}

inline Matrix transposed(const Matrix &a, int64_t m, int64_t n) {
  Matrix t(a.size());
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      t[size_t(j * m + i)] = a[size_t(i * n + j)];
  return t;
}

// Of m rows, no more than the n columns.
inline Matrix exact(Matrix x, int64_t m, int64_t n) {
  double squares = 0;
  for (double value : x)
    squares += value * value;
  for (double &value : x)
    value /= std::sqrt(squares);
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    Matrix gram = product(x, transposed(x, m, n), m, m, n);
    Matrix p = product(gram, gram, m, m, m);
    for (size_t i = 0; i < p.size(); ++i)
      p[i] = 2.0315 * p[i] - 4.7750 * gram[i];
    Matrix next = product(p, x, m, n, m);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = 3.4445 * x[i] + next[i];
  }
  return x;
}

// Of any shape.
inline Matrix exactly(int64_t rows, int64_t columns) {
  Matrix x;
  for (uint16_t value : matrixOf(rows, columns))
    x.push_back(wide(value));
  if (rows <= columns)
    return exact(std::move(x), rows, columns);
  return transposed(exact(transposed(x, rows, columns), columns, rows), columns,
                    rows);
}

inline double distance(const std::vector<uint16_t> &result, const Matrix &x) {
  EXPECT_EQ(result.size(), x.size());
  double squares = 0;
  for (size_t i = 0; i < x.size(); ++i)
    squares += std::pow(wide(result[i]) - x[i], 2);
  return std::sqrt(squares);
}

// Of what a device makes of the matrices of recorded(): how far all roundings
// to bf16 lead away from what is exact, the recorded result shows. Those of a
// device are of the same numbers: they lead elsewhere only where a sum in f32,
// taken in another order, is rounded to the other neighbour.
inline void expectAsRecorded(const Recorded &expected,
                             const std::vector<uint16_t> &result) {
  double rounding =
      distance(expected.result, exactly(expected.rows, expected.columns));
  Matrix theirs;
  for (uint16_t value : expected.result)
    theirs.push_back(wide(value));
  EXPECT_LT(distance(result, theirs), rounding)
      << expected.rows << "x" << expected.columns;
}

} // namespace shardonnx::test::newton_schulz

#endif // SHARDONNX_TEST_UNIT_NEWTON_SCHULZ_REFERENCE_H
