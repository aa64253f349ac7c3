// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The inner loop of matrix products for CPUs whose registers are vectors: a
// tile of C stays in registers while the panels of A and B go by.

#ifndef SHARDONNX_RUNTIME_CPU_ISA_PRODUCTTILE_H
#define SHARDONNX_RUNTIME_CPU_ISA_PRODUCTTILE_H

#include "Multiply.h"
#include "ProductPack.h"

namespace shardonnx::rt::SHX_ISA {

/// A tile of C: kProductRows × 3 vectors, beside a row of B and an element of
/// A.
constexpr int kProductRows = SHX_VECTOR_BYTES == 64 ? 8 : 4;
constexpr int kProductVectors = 3;
constexpr int64_t kProductColumns = kProductVectors * kLanes;

/// One row of C that ends within a vector.
SHX_INLINE void storePart(float *c, int64_t columns, Vec sum, bool add) {
  float lanes[kLanes];
  store(lanes, sum);
  for (int64_t i = 0; i < columns; ++i)
    c[i] = add ? c[i] + lanes[i] : lanes[i];
}

/// Multiply::step(sum, a, b) adds the product of a unit of A, given by its
/// bits, with a vector of units of B.
template <typename Multiply, int Rows, int Vectors>
static void multiplyTile(int64_t columns, int64_t units, const float *a,
                         const float *b, float *c, int64_t cStride, bool add) {
  Vec sum[Rows][Vectors] = {};
  // The tile of C comes from memory while the panels go by.
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v)
      __builtin_prefetch(c + r * cStride + v * kLanes, 1);
  // What counts the loop would take a multiply-add's place.
#pragma GCC unroll 4
  for (int64_t u = 0; u < units; ++u) {
    Vec row[Vectors];
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v)
      row[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      Vec element = Multiply::broadcast(a + r);
#pragma GCC unroll 3
      for (int v = 0; v < Vectors; ++v)
        sum[r][v] = Multiply::step(sum[r][v], element, row[v]);
    }
    a += kProductRows;
    b += kProductColumns;
  }
  auto storeSum = [&](int r, int v) {
    float *to = c + r * cStride + v * kLanes;
    store(to, add ? load(to) + sum[r][v] : sum[r][v]);
  };
  int64_t last = columns - (Vectors - 1) * kLanes; // of the last vector
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v + 1 < Vectors; ++v)
      storeSum(r, v);
    if (last >= kLanes)
      storeSum(r, Vectors - 1);
    else
      storePart(c + r * cStride + (Vectors - 1) * kLanes, last,
                sum[r][Vectors - 1], add);
  }
}

template <typename Multiply, int Rows, typename... Args>
SHX_INLINE void multiplyVectors(int64_t columns, Args... args) {
  static_assert(kProductVectors == 3, "as many cases");
  if (columns > 2 * kLanes)
    multiplyTile<Multiply, Rows, 3>(columns, args...);
  else if (columns > kLanes)
    multiplyTile<Multiply, Rows, 2>(columns, args...);
  else
    multiplyTile<Multiply, Rows, 1>(columns, args...);
}

template <typename Multiply, int Rows, typename... Args>
static void multiplyRest(int64_t rows, Args... args) {
  if constexpr (Rows > 0) {
    if (rows == Rows)
      return multiplyVectors<Multiply, Rows>(args...);
    multiplyRest<Multiply, Rows - 1>(rows, args...);
  }
}

template <typename Multiply>
static void multiplyPanels(int64_t rows, int64_t columns, int64_t depth,
                           const void *a, int64_t aPanelBytes, const void *b,
                           float *c, int64_t cStride, bool add) {
  int64_t units = (depth + Multiply::kDepth - 1) / Multiply::kDepth;
  const float *right = static_cast<const float *>(b);
  for (int64_t r = 0; r < rows; r += kProductRows) {
    const float *left = reinterpret_cast<const float *>(
        static_cast<const char *>(a) + r / kProductRows * aPanelBytes);
    float *to = c + r * cStride;
    if (rows - r >= kProductRows)
      multiplyVectors<Multiply, kProductRows>(columns, units, left, right, to,
                                              cStride, add);
    else
      multiplyRest<Multiply, kProductRows - 1>(rows - r, columns, units, left,
                                               right, to, cStride, add);
  }
}

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_PRODUCTTILE_H
