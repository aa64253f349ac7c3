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

/// How far apart what a tile reads lies: in panels, or where one operand is
/// read where it lies. Rows of B are then asked for before they are read: they
/// are too short for the CPU to see what comes next. So is the next panel of B
/// (nextPanel) where panels come from the cache that cores share into the
/// first.
struct PanelSteps {
  static constexpr bool nextPanel = SHX_VECTOR_BYTES == 32;
  static constexpr int64_t aLine = 1, aDepth = kProductRows,
                           bDepth = kProductColumns;
};
struct RowsOfA {
  static constexpr bool nextPanel = false;
  int64_t aLine;
  static constexpr int64_t aDepth = 1, bDepth = kProductColumns;
};
struct RowsOfB {
  static constexpr bool nextPanel = false;
  int64_t bDepth;
  static constexpr int64_t aLine = 1, aDepth = kProductRows;
};

template <int Vectors, typename Steps>
SHX_INLINE void prefetch(const Steps &, const float *) {}
template <int Vectors>
SHX_INLINE void prefetch(const RowsOfB &steps, const float *b) {
#pragma GCC unroll 3
  for (int v = 0; v < Vectors; ++v)
    __builtin_prefetch(b + kRowsAhead * steps.bDepth + v * kLanes);
}

/// Multiply::step(sum, a, b) adds the product of a unit of A, given by its
/// bits, with a vector of units of B.
template <typename Multiply, int Rows, int Vectors, typename Steps>
static void multiplyTile(int64_t columns, Steps steps, int64_t units,
                         const float *a, const float *b, float *c,
                         int64_t cStride, bool add) {
  Vec sum[Rows][Vectors] = {};
  // The tile of C comes from memory while the panels go by.
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v)
      __builtin_prefetch(c + r * cStride + v * kLanes, 1);
  // What counts the loop would take a multiply-add's place.
#pragma GCC unroll 4
  for (int64_t u = 0; u < units; ++u) {
    prefetch<Vectors>(steps, b);
    Vec row[Vectors];
#pragma GCC unroll 3
    for (int v = 0; v < Vectors; ++v)
      row[v] = load(b + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      Vec element = Multiply::broadcast(a + r * steps.aLine);
#pragma GCC unroll 3
      for (int v = 0; v < Vectors; ++v)
        sum[r][v] = Multiply::step(sum[r][v], element, row[v]);
    }
    a += steps.aDepth;
    b += steps.bDepth;
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

/// Of a panel of B, what comes to the second cache with each tile of A, so that
/// all of it is there when the tiles end: floats, in whole cache lines.
SHX_INLINE int64_t partOfPanel(int64_t rows, int64_t units) {
  constexpr int64_t kLine = 16;
  int64_t lines = units * kProductColumns / kLine;
  return roundUp(lines * kProductRows, rows) / rows * kLine;
}

SHX_INLINE void prefetchPart(const float *panel, int64_t floats) {
  for (int64_t i = 0; i < floats; i += 16)
    __builtin_prefetch(panel + i, 0, 2);
}

/// Tiles of all rows, of at most kProductColumns columns.
template <typename Multiply, typename Steps>
static void multiplyTiles(int64_t rows, int64_t columns, Steps steps,
                          int64_t units, const float *a, int64_t aTile,
                          const float *b, float *c, int64_t cStride, bool add) {
  const float *next = b + units * kProductColumns;
  const int64_t part = partOfPanel(rows, units);
  for (int64_t r = 0; r < rows; r += kProductRows) {
    if constexpr (Steps::nextPanel) {
      prefetchPart(next, part);
      next += part;
    }
    const float *left = a + r / kProductRows * aTile;
    float *to = c + r * cStride;
    if (rows - r >= kProductRows)
      multiplyVectors<Multiply, kProductRows>(columns, steps, units, left, b,
                                              to, cStride, add);
    else
      multiplyRest<Multiply, kProductRows - 1>(rows - r, columns, steps, units,
                                               left, b, to, cStride, add);
  }
}

template <typename Multiply>
static void multiplyPanels(int64_t rows, int64_t columns, int64_t depth,
                           const void *a, int64_t aPanelBytes, const void *b,
                           float *c, int64_t cStride, bool add) {
  int64_t units = (depth + Multiply::kDepth - 1) / Multiply::kDepth;
  multiplyTiles<Multiply>(rows, columns, PanelSteps{}, units,
                          static_cast<const float *>(a),
                          aPanelBytes / int64_t(sizeof(float)),
                          static_cast<const float *>(b), c, cStride, add);
}

/// Rows of A where they lie, by a panel of B.
template <typename Multiply>
static void multiplyRowsOfA(int64_t rows, int64_t columns, int64_t depth,
                            const StridedOperands &from, float *c,
                            int64_t cStride, bool add) {
  multiplyTiles<Multiply>(rows, columns, RowsOfA{from.aLine},
                          depth / Multiply::kDepth, from.a, from.aTile, from.b,
                          c, cStride, add);
}

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_PRODUCTTILE_H
