// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two inner loops of depthwise convolutions: places summed over the
// kernel's elements, and elements summed over places.

#include "IsaKernels.h"
#include "shardonnx/runtime/DepthwisePlan.h"

namespace shardonnx::rt::SHX_ISA {
namespace {

// As many vectors of places as hide the latency of a multiply-add.
constexpr int kVectors = 8;

template <int Vectors>
SHX_INLINE void sumBlock(const float *from, const int64_t *offsets,
                         const float *weights, int64_t taps, float *to) {
  Vec sums[Vectors];
#pragma GCC unroll 8
  for (int v = 0; v < Vectors; ++v)
    sums[v] = Vec{};
  for (int64_t t = 0; t < taps; ++t) {
    Vec weight = splat(weights[t]);
    const float *at = from + offsets[t];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v)
      sums[v] += weight * load(at + v * kLanes);
  }
#pragma GCC unroll 8
  for (int v = 0; v < Vectors; ++v)
    store(to + v * kLanes, sums[v]);
}

void sumTaps(const float *from, const int64_t *offsets, const float *weights,
             int64_t taps, float *to, int64_t count) {
  int64_t vectors = roundUp(count, kLanes) / kLanes, v = 0;
  for (; v + kVectors <= vectors; v += kVectors)
    sumBlock<kVectors>(from + v * kLanes, offsets, weights, taps,
                       to + v * kLanes);
  for (; v + 4 <= vectors; v += 4)
    sumBlock<4>(from + v * kLanes, offsets, weights, taps, to + v * kLanes);
  for (; v + 2 <= vectors; v += 2)
    sumBlock<2>(from + v * kLanes, offsets, weights, taps, to + v * kLanes);
  if (v < vectors)
    sumBlock<1>(from + v * kLanes, offsets, weights, taps, to + v * kLanes);
}

template <int Taps>
SHX_INLINE void addProducts(const float *grad, const float *from,
                            const int64_t *offsets, int64_t count,
                            float *sums) {
  Vec products[Taps];
#pragma GCC unroll 8
  for (int t = 0; t < Taps; ++t)
    products[t] = Vec{};
  for (int64_t i = 0; i < count; i += kLanes) {
    Vec g = load(grad + i);
#pragma GCC unroll 8
    for (int t = 0; t < Taps; ++t)
      products[t] += g * load(from + offsets[t] + i);
  }
#pragma GCC unroll 8
  for (int t = 0; t < Taps; ++t) {
    float *sum = sums + t * kDepthwiseLanes;
    store(sum, load(sum) + products[t]);
  }
}

void sumPlaces(const float *grad, const float *from, const int64_t *offsets,
               int64_t taps, int64_t count, float *sums) {
  int64_t t = 0;
  for (; t + kVectors <= taps; t += kVectors)
    addProducts<kVectors>(grad, from, offsets + t, count,
                          sums + t * kDepthwiseLanes);
  for (; t + 4 <= taps; t += 4)
    addProducts<4>(grad, from, offsets + t, count, sums + t * kDepthwiseLanes);
  for (; t < taps; ++t)
    addProducts<1>(grad, from, offsets + t, count, sums + t * kDepthwiseLanes);
}

} // namespace

const DepthwiseKernels depthwiseKernels = {sumTaps, sumPlaces};

} // namespace shardonnx::rt::SHX_ISA
