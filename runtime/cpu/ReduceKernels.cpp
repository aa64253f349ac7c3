// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled for more than one instruction set; the loader picks.

#include "ReduceKernels.h"
#include "../core/GatherImage.h"
#include "../support/Half.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include <algorithm>
#include <cstring>

#if defined(__GNUC__) && !defined(__clang__)
#define SHX_CLONES                                                             \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SHX_CLONES
#endif

namespace shardonnx::rt {
namespace {

// Small enough for the first cache, large enough for long runs of each source.
constexpr int64_t kChunk = 2048;

template <typename T>
[[gnu::always_inline]] inline void
sumChunk(float *__restrict out, const void *const *sources, size_t ranks,
         int64_t begin, int64_t count, bool accumulate) {
  float sum[kChunk];
  const T *first = static_cast<const T *>(sources[0]) + begin;
  if (accumulate)
    for (int64_t i = 0; i < count; ++i)
      sum[i] = out[begin + i] + toFloat(first[i]);
  else
    for (int64_t i = 0; i < count; ++i)
      sum[i] = toFloat(first[i]);
  for (size_t r = 1; r < ranks; ++r) {
    const T *next = static_cast<const T *>(sources[r]) + begin;
    for (int64_t i = 0; i < count; ++i)
      sum[i] += toFloat(next[i]);
  }
  std::memcpy(out + begin, sum, static_cast<size_t>(count) * sizeof(float));
}

template <typename T>
[[gnu::always_inline]] inline void sum(float *out, const void *const *sources,
                                       size_t ranks, int64_t count,
                                       bool accumulate) {
  for (int64_t begin = 0; begin < count; begin += kChunk)
    sumChunk<T>(out, sources, ranks, begin, std::min(kChunk, count - begin),
                accumulate);
}

SHX_CLONES void sumF32(float *out, const void *const *sources, size_t ranks,
                       int64_t count, bool accumulate) {
  sum<float>(out, sources, ranks, count, accumulate);
}
SHX_CLONES void sumBF16(float *out, const void *const *sources, size_t ranks,
                        int64_t count, bool accumulate) {
  sum<BFloat16>(out, sources, ranks, count, accumulate);
}
SHX_CLONES void sumF16(float *out, const void *const *sources, size_t ranks,
                       int64_t count, bool accumulate) {
  sum<Float16>(out, sources, ranks, count, accumulate);
}

SHX_CLONES void castBF16(BFloat16 *__restrict out, const float *__restrict in,
                         int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = fromFloat<BFloat16>(in[i]);
}
SHX_CLONES void castF16(Float16 *__restrict out, const float *__restrict in,
                        int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = fromFloat<Float16>(in[i]);
}

void sumRange(float *out, const void *const *sources, size_t ranks,
              int64_t count, ShxDType dtype, bool accumulate) {
  if (dtype == SHX_BF16)
    sumBF16(out, sources, ranks, count, accumulate);
  else if (dtype == SHX_F16)
    sumF16(out, sources, ranks, count, accumulate);
  else
    sumF32(out, sources, ranks, count, accumulate);
}

void castRange(void *out, ShxDType dtype, const float *in, int64_t count) {
  if (dtype == SHX_BF16)
    castBF16(static_cast<BFloat16 *>(out), in, count);
  else if (dtype == SHX_F16)
    castF16(static_cast<Float16 *>(out), in, count);
  else
    std::memcpy(out, in, static_cast<size_t>(count) * sizeof(float));
}

// What one thread does of a parallel call.
constexpr int64_t kShare = 64 * kChunk;

template <typename Body>
void forShares(int64_t count, bool parallel, Body body) {
#pragma omp parallel for schedule(static) if (parallel && count > kShare)
  for (int64_t begin = 0; begin < count; begin += kShare)
    body(begin, std::min(kShare, count - begin));
}

SHX_CLONES double squaresOf(const float *x, int64_t count) {
  constexpr int64_t kLanes = 32; // enough for the latency of an addition
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j)
      sums[j] += static_cast<double>(x[i + j]) * static_cast<double>(x[i + j]);
  double sum = 0;
  for (; i < count; ++i)
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (double lane : sums)
    sum += lane;
  return sum;
}

// What threads take in turn: fixed, so that the bits are the same with any
// number of them.
template <typename Body>
void forNormChunks(int64_t count, bool parallel, Body body) {
  int64_t chunks = normChunks(count);
#pragma omp parallel for schedule(static) if (parallel && chunks > 1)
  for (int64_t c = 0; c < chunks; ++c)
    body(c, c * kNormChunk, std::min(kNormChunk, count - c * kNormChunk));
}

} // namespace

void squareSums(const float *x, int64_t count, double *squares, bool parallel) {
  forNormChunks(count, parallel, [&](int64_t c, int64_t begin, int64_t length) {
    squares[c] = squaresOf(x + begin, length);
  });
}

void sumSlicesAndSquares(float *out, const void *const *sources, size_t ranks,
                         int64_t count, ShxDType dtype, bool accumulate,
                         double *squares, bool parallel) {
  int64_t element = dtypeBytes(dtype);
  forNormChunks(count, parallel, [&](int64_t c, int64_t begin, int64_t length) {
    const void *parts[kMaxRanks];
    for (size_t r = 0; r < ranks; ++r)
      parts[r] = static_cast<const uint8_t *>(sources[r]) + begin * element;
    sumRange(out + begin, parts, ranks, length, dtype, accumulate);
    squares[c] = squaresOf(out + begin, length);
  });
}

void sumSlices(float *out, const void *const *sources, size_t ranks,
               int64_t count, ShxDType dtype, bool accumulate, bool parallel) {
  int64_t element = dtypeBytes(dtype);
  forShares(count, parallel, [&](int64_t begin, int64_t length) {
    const void *parts[kMaxRanks];
    for (size_t r = 0; r < ranks; ++r)
      parts[r] = static_cast<const uint8_t *>(sources[r]) + begin * element;
    sumRange(out + begin, parts, ranks, length, dtype, accumulate);
  });
}

void sumAlike(void *out, const void *const *sources, size_t ranks,
              int64_t count, ShxDType dtype, bool parallel) {
  int64_t element = dtypeBytes(dtype);
  forShares(count, parallel, [&](int64_t begin, int64_t length) {
    float sum[kChunk];
    const void *parts[kMaxRanks];
    for (int64_t at = begin; at < begin + length; at += kChunk) {
      int64_t n = std::min(kChunk, begin + length - at);
      for (size_t r = 0; r < ranks; ++r)
        parts[r] = static_cast<const uint8_t *>(sources[r]) + at * element;
      sumRange(sum, parts, ranks, n, dtype, /*accumulate=*/false);
      castRange(static_cast<uint8_t *>(out) + at * element, dtype, sum, n);
    }
  });
}

void castSlice(void *out, ShxDType dtype, const float *in, int64_t count,
               bool parallel) {
  int64_t element = dtypeBytes(dtype);
  forShares(count, parallel, [&](int64_t begin, int64_t length) {
    castRange(static_cast<uint8_t *>(out) + begin * element, dtype, in + begin,
              length);
  });
}

void roundSlice(void *out, const Manifest::Unit &unit, const void *in,
                int64_t count, bool parallel) {
  static_assert(kShare % kStateBlock == 0);
  forShares(count, parallel, [&](int64_t begin, int64_t length) {
    roundAsGathered(
        unit.gatherType, unit.masterType,
        static_cast<const uint8_t *>(in) + begin * dtypeBytes(unit.masterType),
        unit.paramType,
        static_cast<uint8_t *>(out) + begin * dtypeBytes(unit.paramType),
        length);
  });
}

void copySlice(void *out, const void *in, int64_t bytes, bool parallel) {
  forShares(bytes, parallel, [&](int64_t begin, int64_t length) {
    std::memcpy(static_cast<uint8_t *>(out) + begin,
                static_cast<const uint8_t *>(in) + begin,
                static_cast<size_t>(length));
  });
}

void poison(void *memory, int64_t bytes) {
  if (bytes > 0)
    std::memset(memory, 0xff, static_cast<size_t>(bytes));
}

} // namespace shardonnx::rt
