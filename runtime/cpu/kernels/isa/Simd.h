// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vectors of f32 at the width of the instruction set this file is compiled
// for. Every file under isa/ is compiled once per set, so all of it has
// internal linkage: a shared inline function could be picked by the linker
// from the copy that the running CPU cannot execute.

#ifndef SHARDONNX_RUNTIME_CPU_ISA_SIMD_H
#define SHARDONNX_RUNTIME_CPU_ISA_SIMD_H

#include <immintrin.h>
#include <stdint.h>

/// Wide vectors without AVX-512 are for tests: the compiler splits them.
#if defined(__AVX512F__) || defined(SHX_WIDE_VECTORS)
#define SHX_VECTOR_BYTES 64
#else
#define SHX_VECTOR_BYTES 32
#endif
#define SHX_INLINE static inline __attribute__((always_inline, unused))

namespace shardonnx::rt::SHX_ISA {

typedef float Vec __attribute__((vector_size(SHX_VECTOR_BYTES)));
typedef int32_t VecI __attribute__((vector_size(SHX_VECTOR_BYTES)));
typedef float VecMemory
    __attribute__((vector_size(SHX_VECTOR_BYTES), aligned(4), may_alias));

constexpr int64_t kLanes = SHX_VECTOR_BYTES / 4;

SHX_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
SHX_INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
SHX_INLINE int64_t roundUp(int64_t a, int64_t to) {
  return (a + to - 1) / to * to;
}

SHX_INLINE Vec load(const float *p) {
  return *reinterpret_cast<const VecMemory *>(p);
}
SHX_INLINE void store(float *p, Vec v) {
  *reinterpret_cast<VecMemory *>(p) = v;
}
SHX_INLINE Vec splat(float x) { return x - Vec{}; }
SHX_INLINE VecI splatInt(int32_t x) { return x - VecI{}; }

/// When either operand is NaN these return b, as the instruction does: with a
/// constant first, NaN goes through a clamp instead of disappearing in it.
SHX_INLINE Vec maximum(Vec a, Vec b) {
#if defined(__AVX512F__)
  return (Vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif SHX_VECTOR_BYTES == 32
  return (Vec)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return a > b ? a : b;
#endif
}
SHX_INLINE Vec minimum(Vec a, Vec b) {
#if defined(__AVX512F__)
  return (Vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif SHX_VECTOR_BYTES == 32
  return (Vec)_mm256_min_ps((__m256)a, (__m256)b);
#else
  return a < b ? a : b;
#endif
}

/// 0, 1, 2, … in the lanes.
SHX_INLINE VecI laneIndex() {
  VecI v;
  for (int i = 0; i < kLanes; ++i)
    v[i] = i;
  return v;
}

SHX_INLINE float sumLanes(Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  for (int64_t step = kLanes / 2; step > 0; step /= 2)
    for (int64_t i = 0; i < step; ++i)
      lanes[i] += lanes[i + step];
  return lanes[0];
}
SHX_INLINE float maxLanes(Vec v) {
  float lanes[kLanes];
  store(lanes, v);
  float m = lanes[0];
  for (int64_t i = 1; i < kLanes; ++i)
    m = lanes[i] > m ? lanes[i] : m;
  return m;
}

/// e^x within 2 ulp for x ≤ 88; 0 where it would be below the normal numbers;
/// NaN for NaN. Reduction by ln 2 in two parts, then the polynomial of degree 6
/// nearest in relative error (3e-9) on [-ln 2/2, ln 2/2].
SHX_INLINE Vec exponential(Vec x) {
  // At the lower end 2^n has no bits set, which makes the result 0.
  Vec y = minimum(splat(88.37f), maximum(splat(-88.029f), x));
  // Adding kWhole leaves n + 127 in the low bits of a float.
  constexpr float kWhole = 12582912.0f + 127;
  Vec shifted = y * 1.44269504088896341f + kWhole;
  Vec n = shifted - kWhole;
  Vec r = y - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  Vec p = splat(1.3814539989e-3f);
  p = p * r + 8.3687452461e-3f;
  p = p * r + 4.1668390797e-2f;
  p = p * r + 1.6666520398e-1f;
  p = p * r + 4.9999993432e-1f;
  p = p * (r * r) + (r + 1.0f);
  return p * (Vec)((VecI)shifted << 23);
}

/// ln x within 2 ulp for positive normal x; NaN for NaN and infinity.
SHX_INLINE Vec logarithm(Vec x) {
  // x = m * 2^e with m between the roots of 1/2 and of 2.
  constexpr int32_t kRootOfHalf = 0x3f3504f3;
  VecI e = ((VecI)x - kRootOfHalf) >> 23;
  Vec m = (Vec)((VecI)x - (e << 23)) - 1.0f;
  Vec n = __builtin_convertvector(e, Vec), z = m * m;
  Vec p = splat(7.0376836292e-2f);
  p = p * m + -1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m + -1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m + -1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m + -2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  p = p * m * z + n * -2.12194440e-4f - 0.5f * z;
  return m + p + n * 0.693359375f + x * 0.0f;
}

/// tanh: a polynomial near 0, where 1 - 2/(e^2x + 1) would cancel.
SHX_INLINE Vec hyperbolicTangent(Vec x) {
  Vec magnitude = maximum(x, -x);
  Vec z = x * x;
  Vec p = splat(-5.70498872745e-3f);
  p = p * z + 2.06390887954e-2f;
  p = p * z + -5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z + -3.33332819422e-1f;
  Vec near = p * z * x + x;
  Vec far =
      1.0f -
      2.0f / (exponential(minimum(splat(20.0f), 2.0f * magnitude)) + 1.0f);
  far = x < 0.0f ? -far : far;
  return magnitude < 0.625f ? near : far;
}

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_SIMD_H
