// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Float conversions and the small helpers of the tiles that need them.

#ifndef SHARDONNX_RUNTIME_CPU_ISA_CONVERT_H
#define SHARDONNX_RUNTIME_CPU_ISA_CONVERT_H

#include "Simd.h"
#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt::SHX_ISA {

SHX_INLINE float bitsToFloat(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}
SHX_INLINE uint32_t floatToBits(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  return bits;
}

/// Round to nearest even; a NaN stays one (its top mantissa bit is set).
SHX_INLINE uint16_t toBf16(float value) {
  uint32_t bits = floatToBits(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

SHX_INLINE void widenBf16(const uint16_t *from, float *to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m128i half =
        _mm_loadu_si128(reinterpret_cast<const __m128i_u *>(from + i));
    __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
    _mm256_storeu_ps(to + i, _mm256_castsi256_ps(bits));
  }
  for (; i < count; ++i)
    to[i] = bitsToFloat(uint32_t(from[i]) << 16);
}

SHX_INLINE void narrowBf16(const float *from, uint16_t *to, int64_t count) {
  int64_t i = 0;
  const __m256i half = _mm256_set1_epi32(0x7fff), one = _mm256_set1_epi32(1);
  const __m256i quiet = _mm256_set1_epi32(0x400000);
  for (; i + 8 <= count; i += 8) {
    __m256 value = _mm256_loadu_ps(from + i);
    __m256i bits = _mm256_castps_si256(value);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(half, odd));
    __m256i isNan =
        _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    rounded = _mm256_blendv_epi8(rounded, _mm256_or_si256(bits, quiet), isNan);
    rounded = _mm256_srli_epi32(rounded, 16);
    __m256i packed =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(rounded, rounded), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i_u *>(to + i),
                     _mm256_castsi256_si128(packed));
  }
  for (; i < count; ++i)
    to[i] = toBf16(from[i]);
}

SHX_INLINE void widenF16(const uint16_t *from, float *to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(
                         reinterpret_cast<const __m128i_u *>(from + i))));
  for (; i < count; ++i)
    to[i] = _cvtsh_ss(from[i]);
}

SHX_INLINE void narrowF16(const float *from, uint16_t *to, int64_t count) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i_u *>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
  for (; i < count; ++i)
    to[i] = _cvtss_sh(from[i], 0);
}

static inline __attribute__((unused)) void
widen(int32_t dtype, const void *from, float *to, int64_t count) {
  if (dtype == SHX_F32)
    __builtin_memcpy(to, from, size_t(count) * 4);
  else if (dtype == SHX_BF16)
    widenBf16(static_cast<const uint16_t *>(from), to, count);
  else
    widenF16(static_cast<const uint16_t *>(from), to, count);
}

static inline __attribute__((unused)) void
narrow(int32_t dtype, const float *from, void *to, int64_t count) {
  if (dtype == SHX_F32)
    __builtin_memcpy(to, from, size_t(count) * 4);
  else if (dtype == SHX_BF16)
    narrowBf16(from, static_cast<uint16_t *>(to), count);
  else
    narrowF16(from, static_cast<uint16_t *>(to), count);
}

/// The element at `index` of an array of a float type.
SHX_INLINE const void *elementAt(int32_t dtype, const void *base,
                                 int64_t index) {
  return static_cast<const char *>(base) + index * (dtype == SHX_F32 ? 4 : 2);
}
SHX_INLINE void *elementAt(int32_t dtype, void *base, int64_t index) {
  return static_cast<char *>(base) + index * (dtype == SHX_F32 ? 4 : 2);
}

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_CONVERT_H
