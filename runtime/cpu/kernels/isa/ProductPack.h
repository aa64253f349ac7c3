// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packing the operands of a matrix product into panels, whatever their float
// type and whichever way they lie. A unit is 32 bits: one f32, or two bf16 that
// follow each other in depth. Units move eight at a time, eight lines being
// transposed in registers where the operand is contiguous along its depth.

#ifndef SHARDONNX_RUNTIME_CPU_ISA_PRODUCTPACK_H
#define SHARDONNX_RUNTIME_CPU_ISA_PRODUCTPACK_H

#include "../Kernels.h"
#include "Convert.h"
#include "TileProduct.h"

namespace shardonnx::rt::SHX_ISA {

/// A unit is one element, widened.
struct F32Units {
  static constexpr int64_t kDepth = 1;

  /// Eight units from here on, contiguous along the depth.
  template <int32_t DType> SHX_INLINE __m256 alongDepth(const void *p) {
    if constexpr (DType == SHX_F32)
      return _mm256_loadu_ps(static_cast<const float *>(p));
    __m128i half = _mm_loadu_si128(static_cast<const __m128i_u *>(p));
    if constexpr (DType == SHX_BF16)
      return _mm256_castsi256_ps(
          _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
    return _mm256_cvtph_ps(half);
  }
  /// Eight units of neighbouring lines.
  template <int32_t DType>
  SHX_INLINE __m256 alongLines(const void *p, const void *) {
    return alongDepth<DType>(p);
  }
};

SHX_INLINE float elementValue(int32_t dtype, const void *base, int64_t index) {
  float value;
  widen(dtype, elementAt(dtype, base, index), &value, 1);
  return value;
}

/// A unit is two elements in bf16, the earlier one in the lower half.
struct Bf16Units {
  static constexpr int64_t kDepth = 2;

  SHX_INLINE __m256i round(__m256 value) {
    __m256i bits = _mm256_castps_si256(value);
    __m256i odd =
        _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(
        bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256 isNan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(isNan));
  }
  SHX_INLINE __m256 join(__m256i earlier, __m256i later) {
    return _mm256_castsi256_ps(
        _mm256_blend_epi16(_mm256_srli_epi32(earlier, 16), later, 0xaa));
  }

  template <int32_t DType> SHX_INLINE __m256 alongDepth(const void *p) {
    if constexpr (DType == SHX_BF16)
      return _mm256_loadu_ps(static_cast<const float *>(p));
    const float *from = static_cast<const float *>(p);
    __m256i low = round(_mm256_loadu_ps(from)),
            high = round(_mm256_loadu_ps(from + 8));
    // Packing works on halves of the vectors, hence the permutation.
    __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(low, 16),
                                         _mm256_srli_epi32(high, 16));
    return _mm256_castsi256_ps(_mm256_permute4x64_epi64(packed, 0xd8));
  }
  template <int32_t DType>
  SHX_INLINE __m256 alongLines(const void *p, const void *next) {
    if constexpr (DType == SHX_BF16) {
      auto wide = [](const void *from) {
        return _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(
                                     static_cast<const __m128i_u *>(from))),
                                 16);
      };
      return join(wide(p), wide(next));
    }
    return join(round(_mm256_loadu_ps(static_cast<const float *>(p))),
                round(_mm256_loadu_ps(static_cast<const float *>(next))));
  }
};

/// Rows of depth that are on their way from memory while one is packed.
constexpr int64_t kRowsAhead = 8;

/// One unit; zeros beyond the ends.
template <typename Units>
SHX_INLINE float unitAt(const ProductOperand &from, int64_t lines,
                        int64_t depth, int64_t line, int64_t unit) {
  uint32_t bits = 0;
  for (int64_t i = 0; i < Units::kDepth; ++i) {
    int64_t at = unit * Units::kDepth + i;
    if (line >= lines || at >= depth)
      break;
    float value = elementValue(from.dtype, from.data,
                               line * from.lineStride + at * from.depthStride);
    if (Units::kDepth == 1)
      return value;
    bits |= uint32_t(toBf16(value)) << (16 * i);
  }
  return bitsToFloat(bits);
}

/// Lines [line, line + 8) at one unit of depth, into panels of `Width` lines.
template <int64_t Width>
SHX_INLINE void storeLines(char *to, int64_t panelBytes, int64_t line,
                           int64_t unit, __m256 values) {
  auto at = [&](int64_t l) {
    return reinterpret_cast<float *>(to + l / Width * panelBytes) +
           unit * Width + l % Width;
  };
  if constexpr (Width % 8 == 0) {
    _mm256_storeu_ps(at(line), values);
  } else {
    static_assert(Width == 4, "a panel has whole vectors of lines, or half");
    _mm_storeu_ps(at(line), _mm256_castps256_ps128(values));
    _mm_storeu_ps(at(line + 4), _mm256_extractf128_ps(values, 1));
  }
}

/// Eight lines at eight units of depth, from one vector a line.
template <int64_t Width>
SHX_INLINE void storeSquare(char *to, int64_t panelBytes, int64_t line,
                            int64_t unit, __m256 (&lines)[8]) {
  if constexpr (Width % 8 == 0) {
    transposeSquare(lines);
    for (int64_t i = 0; i < 8; ++i)
      storeLines<Width>(to, panelBytes, line, unit + i, lines[i]);
  } else {
    // Two units of a panel of four lines are a whole vector.
    for (int64_t l = 0; l < 8; l += 4) {
      transposeFour(&lines[l]);
      auto *panel = reinterpret_cast<float *>(to + (line + l) / 4 * panelBytes);
      for (int64_t i = 0; i < 4; ++i)
        _mm256_storeu_ps(panel + (unit + 2 * i) * 4, lines[l + i]);
    }
  }
}

/// Lines [line, line + 8) at two units of depth that follow each other.
template <int64_t Width>
SHX_INLINE void storePair(char *to, int64_t panelBytes, int64_t line,
                          int64_t unit, __m256 first, __m256 second) {
  if constexpr (Width % 8 == 0) {
    storeLines<Width>(to, panelBytes, line, unit, first);
    storeLines<Width>(to, panelBytes, line, unit + 1, second);
  } else {
    char *panel = to + line / 4 * panelBytes;
    _mm256_storeu_ps(reinterpret_cast<float *>(panel) + unit * 4,
                     _mm256_permute2f128_ps(first, second, 0x20));
    _mm256_storeu_ps(reinterpret_cast<float *>(panel + panelBytes) + unit * 4,
                     _mm256_permute2f128_ps(first, second, 0x31));
  }
}

template <typename Units, int64_t Width, int64_t Step, int32_t DType>
static void packPanels(const ProductOperand &from, int64_t lines, int64_t depth,
                       char *to, int64_t panelBytes) {
  const char *data = static_cast<const char *>(from.data);
  constexpr int64_t kBytes = DType == SHX_F32 ? 4 : 2;
  int64_t units = roundUp((depth + Units::kDepth - 1) / Units::kDepth, Step);
  int64_t whole = depth / Units::kDepth; // units with no end in them
  // Panels of half a vector are written in pairs where there are two.
  int64_t padded = roundUp(lines, Width);
  auto rest = [&](int64_t line, int64_t unit) {
    if (Width % 8 == 0 && line >= lines)
      return storeLines<Width>(to, panelBytes, line, unit, _mm256_setzero_ps());
    for (int64_t l = line; l < least(line + 8, padded); ++l)
      reinterpret_cast<float *>(to + l / Width *
                                         panelBytes)[unit * Width + l % Width] =
          unitAt<Units>(from, lines, depth, l, unit);
  };
  if (from.depthStride == 1) {
    for (int64_t line = 0; line < padded; line += 8) {
      int64_t unit = 0;
      if (line + 8 <= lines)
        for (; unit + 8 <= whole; unit += 8) {
          __m256 square[8];
          for (int64_t i = 0; i < 8; ++i)
            square[i] = Units::template alongDepth<DType>(
                data +
                ((line + i) * from.lineStride + unit * Units::kDepth) * kBytes);
          storeSquare<Width>(to, panelBytes, line, unit, square);
        }
      for (; unit < units; ++unit)
        rest(line, unit);
    }
    return;
  }
  const int64_t apart = from.depthStride * kBytes;
  auto rowOf = [&](int64_t unit) {
    return data + unit * Units::kDepth * apart;
  };
  auto linesAt = [&](int64_t line, int64_t unit) {
    const char *row = rowOf(unit) + line * kBytes;
    return Units::template alongLines<DType>(row, row + apart);
  };
  for (int64_t unit = 0; unit < units; unit += 2) {
    // A piece of each row: too short for the CPU to see what comes next.
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t at = 0; at < lines * kBytes; at += 64)
        __builtin_prefetch(rowOf(unit + i) + kRowsAhead * apart + at);
    int64_t line = 0;
    if (unit + 2 <= whole)
      for (; line + 8 <= lines; line += 8)
        storePair<Width>(to, panelBytes, line, unit, linesAt(line, unit),
                         linesAt(line, unit + 1));
    for (; line < padded; line += 8)
      for (int64_t u = unit; u < least(unit + 2, units); ++u)
        rest(line, u);
  }
}

/// ProductKernels::packA and packB for panels that have, for each unit of
/// depth, those of all lines; `Step` units are a whole step of depth.
template <typename Units, int64_t Width, int64_t Step = 1>
static void pack(const ProductOperand &from, int64_t lines, int64_t depth,
                 void *to, int64_t panelBytes) {
  char *panels = static_cast<char *>(to);
  if (from.dtype == SHX_F32)
    packPanels<Units, Width, Step, SHX_F32>(from, lines, depth, panels,
                                            panelBytes);
  else if (from.dtype == SHX_BF16)
    packPanels<Units, Width, Step, SHX_BF16>(from, lines, depth, panels,
                                             panelBytes);
  else if constexpr (Units::kDepth == 1)
    packPanels<Units, Width, Step, SHX_F16>(from, lines, depth, panels,
                                            panelBytes);
}

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_PRODUCTPACK_H
