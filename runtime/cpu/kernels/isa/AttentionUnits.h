// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How attention holds the operands of its products: in f32 whatever the dtype,
// or, where the file is compiled with SHX_BF16_PAIRS and the operands are bf16,
// as pairs. Then probabilities and the gradients of scores, which are computed
// in f32, are rounded to bf16 as operands, and all sums stay f32.

#ifndef SHARDONNX_RUNTIME_CPU_ISA_ATTENTIONUNITS_H
#define SHARDONNX_RUNTIME_CPU_ISA_ATTENTIONUNITS_H

#include "Multiply.h"
#include "ProductPack.h"

namespace shardonnx::rt::SHX_ISA {

#if defined(SHX_BF16_PAIRS)
using Multiply = DotOfPairs;
using Units = Bf16Units;
#else
using Multiply = FusedMultiplyAdd;
using Units = F32Units;
#endif
constexpr bool kPairs = Units::kDepth == 2;

SHX_INLINE int64_t unitsOf(int64_t elements) {
  return (elements + Units::kDepth - 1) / Units::kDepth;
}

/// Some rows of an operand, which lie `stride` elements apart.
struct Rows {
  int32_t dtype;
  const void *data;
  int64_t stride, count, dim;

  const void *row(int64_t i) const {
    return elementAt(dtype, data, i * stride);
  }
};

/// A row of f32, which is too short for a call.
SHX_INLINE void copyRow(const float *from, float *to, int64_t count) {
  int64_t x = 0;
  for (; x + kLanes <= count; x += kLanes)
    store(to + x, load(from + x));
  for (; x < count; ++x)
    to[x] = from[x];
}
SHX_INLINE void widenRow(const Rows &from, int64_t row, float *to) {
  if (from.dtype == SHX_F32)
    copyRow(static_cast<const float *>(from.row(row)), to, from.dim);
  else
    widen(from.dtype, from.row(row), to, from.dim);
}

SHX_INLINE void narrowRow(int32_t dtype, const float *from, void *to,
                          int64_t count) {
  if (dtype == SHX_F32)
    copyRow(from, static_cast<float *>(to), count);
  else
    narrow(dtype, from, to, count);
}

/// [row][unit]: a unit joins neighbours in a row.
static inline __attribute__((unused)) void packRows(const Rows &from,
                                                    float *to) {
  int64_t units = unitsOf(from.dim);
  for (int64_t i = 0; i < from.count; ++i) {
    float *row = to + i * units;
    if (!kPairs) {
      widenRow(from, i, row);
      continue;
    }
    row[units - 1] = 0;
    __builtin_memcpy(row, from.row(i), size_t(from.dim) * 2);
  }
}

/// [unit][width]: a unit joins the elements of neighbouring rows, zeros beyond
/// the dim.
static inline __attribute__((unused)) void
packColumns(const Rows &from, float *to, int64_t width) {
  ProductOperand columns = {from.data, from.dtype, 1, from.stride};
  for (int64_t unit = 0; unit < unitsOf(from.count); ++unit) {
    float *row = to + unit * width;
    int64_t x = 0;
    if (!kPairs) {
      widenRow(from, unit, row);
      x = from.dim;
    } else if (unit * 2 + 1 < from.count) {
      for (; x + 8 <= from.dim; x += 8)
        _mm256_storeu_ps(row + x,
                         Bf16Units::alongLines<SHX_BF16>(
                             elementAt(SHX_BF16, from.row(unit * 2), x),
                             elementAt(SHX_BF16, from.row(unit * 2 + 1), x)));
    }
    for (; x < width; ++x)
      row[x] = x < from.dim
                   ? unitAt<Units>(columns, from.dim, from.count, x, unit)
                   : 0;
  }
}

/// Groups of kTileLanes rows, zeros where there are no more:
/// [group][unit][lane], a unit joining neighbours in a row.
static inline __attribute__((unused)) void packLanes(const Rows &from,
                                                     float *to) {
  int64_t whole = 0;
  if (from.dtype == SHX_F32 && from.dim % 8 == 0)
    whole = from.count / kTileLanes * kTileLanes;
  const auto *data = static_cast<const float *>(from.data);
  for (int64_t i = 0; i < whole; i += 8)
    for (int64_t x = 0; x < from.dim; x += 8)
      transpose8(data + i * from.stride + x, from.stride,
                 to + (i / kTileLanes * from.dim + x) * kTileLanes +
                     i % kTileLanes,
                 kTileLanes);
  pack<Units, kTileLanes>({from.row(whole), from.dtype, from.stride, 1},
                          from.count - whole, from.dim, to + whole * from.dim,
                          unitsOf(from.dim) * kTileLanes * 4);
}

/// bf16 of two vectors: the units of `first` before those of `second`.
SHX_INLINE Vec joinNeighbours(Vec first, Vec second) {
#if defined(__AVX512BF16__)
  return (Vec)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
#else
  uint16_t halves[2 * kLanes];
  for (int64_t i = 0; i < kLanes; ++i) {
    halves[i] = toBf16(first[i]);
    halves[kLanes + i] = toBf16(second[i]);
  }
  Vec units;
  __builtin_memcpy(&units, halves, sizeof(units));
  return units;
#endif
}

/// A unit joins the same lane of both.
SHX_INLINE Vec joinLanes(Vec earlier, Vec later) {
#if defined(__AVX512BF16__)
  alignas(64) constexpr uint16_t kOrder[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return (Vec)_mm512_permutexvar_epi16(_mm512_load_si512(kOrder),
                                       (__m512i)joinNeighbours(earlier, later));
#else
  Vec units;
  for (int64_t i = 0; i < kLanes; ++i)
    units[i] =
        bitsToFloat(uint32_t(toBf16(later[i])) << 16 | toBf16(earlier[i]));
  return units;
#endif
}

/// Turns `count` rows of f32, kTileLanes each, into units that join
/// neighbouring rows; they may be written over the rows.
SHX_INLINE void joinRows(int64_t count, const float *rows, int64_t stride,
                         float *to) {
  if (!kPairs)
    return;
  for (int64_t j = 0; j < count; j += 2)
    for (int v = 0; v < kTileVectors; ++v) {
      const float *row = rows + j * stride + v * kLanes;
      Vec later = j + 1 < count ? load(row + stride) : Vec{};
      store(to + j / 2 * kTileLanes + v * kLanes, joinLanes(load(row), later));
    }
}

/// Turns the lanes of `count` rows of f32 into units that join neighbours,
/// from `to` on in rows as far apart.
SHX_INLINE void joinInRows(int64_t count, const float *rows, int64_t stride,
                           float *to) {
  static_assert(kTileVectors == 2, "one vector of units");
  if (!kPairs)
    return;
  for (int64_t j = 0; j < count; ++j)
    store(to + j * stride, joinNeighbours(load(rows + j * stride),
                                          load(rows + j * stride + kLanes)));
}

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_ATTENTIONUNITS_H
