// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of small tiles: the inner loops of attention. Rows of C come from
// broadcast elements of A, lanes of C from rows of B, so that a tile of C stays
// in registers for the whole depth, as in a GEMM.

#ifndef SHARDONNX_RUNTIME_CPU_ISA_TILEPRODUCT_H
#define SHARDONNX_RUNTIME_CPU_ISA_TILEPRODUCT_H

#include "Simd.h"

namespace shardonnx::rt::SHX_ISA {

/// Registers of C: kTileRows × kTileVectors, leaving room for a row of B and a
/// broadcast element.
constexpr int kTileVectors = 2;
constexpr int kTileRows = SHX_VECTOR_BYTES == 64 ? 12 : 6;
constexpr int64_t kTileLanes = kTileVectors * kLanes;

/// An operand A(row, depth) = data[row * rowStride + depth * depthStride], the
/// depth being counted in units (Multiply.h).
struct Broadcast {
  const float *data;
  int64_t rowStride, depthStride;
};

/// What becomes of the old C: overwritten by the product, or by the product
/// times `*factor`, added to, or each row multiplied by its element of `factor`
/// and then added to.
enum class Update { Write, WriteScaled, Add, ScaleRows };

template <typename Multiply, int Rows, int Vectors, Update How>
SHX_INLINE void productRows(float *c, int64_t cStride, Broadcast a,
                            const float *b, int64_t bStride, int64_t depth,
                            const float *factor) {
  Vec sum[Rows][Vectors];
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      if (How == Update::Write || How == Update::WriteScaled)
        sum[r][v] = Vec{};
      else if (How == Update::Add)
        sum[r][v] = load(c + r * cStride + v * kLanes);
      else
        sum[r][v] = load(c + r * cStride + v * kLanes) * factor[r];
    }
  // Four rows share a pointer, so that all of them find a register.
  constexpr int kPointers = (Rows + 3) / 4;
  const float *from[kPointers];
#pragma GCC unroll 3
  for (int i = 0; i < kPointers; ++i) {
    from[i] = a.data + 4 * i * a.rowStride;
    asm("" : "+r"(from[i]));
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vec row[Vectors];
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v)
      row[v] = load(b + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      Vec element = Multiply::broadcast(from[r / 4] + r % 4 * a.rowStride);
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v)
        sum[r][v] = Multiply::step(sum[r][v], element, row[v]);
    }
#pragma GCC unroll 3
    for (int i = 0; i < kPointers; ++i)
      from[i] += a.depthStride;
    b += bStride;
  }
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v)
      store(c + r * cStride + v * kLanes,
            How == Update::WriteScaled ? sum[r][v] * *factor : sum[r][v]);
}

template <typename Multiply, int Rows, int Vectors, Update How>
static void productRest(int64_t rows, float *c, int64_t cStride, Broadcast a,
                        const float *b, int64_t bStride, int64_t depth,
                        const float *factor) {
  if constexpr (Rows > 0) {
    if (rows == Rows)
      return productRows<Multiply, Rows, Vectors, How>(c, cStride, a, b,
                                                       bStride, depth, factor);
    productRest<Multiply, Rows - 1, Vectors, How>(rows, c, cStride, a, b,
                                                  bStride, depth, factor);
  }
}

/// C is rows × Vectors.
template <typename Multiply, Update How, int Vectors = kTileVectors>
static void product(int64_t rows, float *c, int64_t cStride, Broadcast a,
                    const float *b, int64_t bStride, int64_t depth,
                    const float *factor = nullptr) {
  while (rows >= kTileRows) {
    productRows<Multiply, kTileRows, Vectors, How>(c, cStride, a, b, bStride,
                                                   depth, factor);
    rows -= kTileRows;
    c += kTileRows * cStride;
    a.data += kTileRows * a.rowStride;
    if (How == Update::ScaleRows)
      factor += kTileRows;
  }
  productRest<Multiply, kTileRows - 1, Vectors, How>(rows, c, cStride, a, b,
                                                     bStride, depth, factor);
}

/// C is rows × columns; what is left of its last vector is written, too.
template <typename Multiply, Update How>
static void productOfColumns(int64_t rows, int64_t columns, float *c,
                             int64_t cStride, Broadcast a, const float *b,
                             int64_t bStride, int64_t depth,
                             const float *factor = nullptr) {
  int64_t x = 0;
  for (; columns - x > kLanes; x += kTileLanes)
    product<Multiply, How>(rows, c + x, cStride, a, b + x, bStride, depth,
                           factor);
  if (x < columns)
    product<Multiply, How, 1>(rows, c + x, cStride, a, b + x, bStride, depth,
                              factor);
}

/// Rows become columns, of four rows two in a vector.
SHX_INLINE void transposeFour(__m256 *r) {
  __m256 t[4] = {_mm256_unpacklo_ps(r[0], r[1]), _mm256_unpackhi_ps(r[0], r[1]),
                 _mm256_unpacklo_ps(r[2], r[3]),
                 _mm256_unpackhi_ps(r[2], r[3])};
  // Columns i and i + 4 of the vector.
  __m256 c[4] = {
      _mm256_shuffle_ps(t[0], t[2], 0x44), _mm256_shuffle_ps(t[0], t[2], 0xee),
      _mm256_shuffle_ps(t[1], t[3], 0x44), _mm256_shuffle_ps(t[1], t[3], 0xee)};
  r[0] = _mm256_permute2f128_ps(c[0], c[1], 0x20);
  r[1] = _mm256_permute2f128_ps(c[2], c[3], 0x20);
  r[2] = _mm256_permute2f128_ps(c[0], c[1], 0x31);
  r[3] = _mm256_permute2f128_ps(c[2], c[3], 0x31);
}

/// Rows become columns.
SHX_INLINE void transposeSquare(__m256 (&r)[8]) {
  __m256 t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    r[i] = t[i];
}

SHX_INLINE void transpose8(const float *from, int64_t fromStride, float *to,
                           int64_t toStride) {
  __m256 r[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    r[i] = _mm256_loadu_ps(from + i * fromStride);
  transposeSquare(r);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    _mm256_storeu_ps(to + i * toStride, r[i]);
}

SHX_INLINE void transposeBlock(int64_t rows, int64_t columns, const float *from,
                               int64_t fromStride, float *to,
                               int64_t toStride) {
  if (rows == 8 && columns == 8)
    return transpose8(from, fromStride, to, toStride);
  for (int64_t y = 0; y < rows; ++y)
    for (int64_t x = 0; x < columns; ++x)
      to[x * toStride + y] = from[y * fromStride + x];
}

/// to[j][i] = from[i][j] for a rows × columns matrix, in squares of a cache
/// line on both sides.
static inline __attribute__((unused)) void
transpose(int64_t rows, int64_t columns, const float *from, int64_t fromStride,
          float *to, int64_t toStride) {
  for (int64_t x = 0; x < columns; x += 16)
    for (int64_t y = 0; y < rows; y += 16)
      for (int64_t j = x; j < least(x + 16, columns); j += 8)
        for (int64_t i = y; i < least(y + 16, rows); i += 8)
          transposeBlock(least(8, rows - i), least(8, columns - j),
                         from + i * fromStride + j, fromStride,
                         to + j * toStride + i, toStride);
}

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_TILEPRODUCT_H
