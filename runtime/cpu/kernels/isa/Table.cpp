// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of this instruction set, and the row of cross-entropy.

#include "IsaKernels.h"

namespace shardonnx::rt {
namespace SHX_ISA {
namespace {

void add(const float *from, float *to, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    store(to + i, load(to + i) + load(from + i));
  for (; i < count; ++i)
    to[i] += from[i];
}

constexpr int kChains = 4; // none of which waits for the other

// Calls body(i, count, x, chain) for the logits in order, whole vectors first,
// then one padded with -infinity.
template <typename Body>
SHX_INLINE void forEachVector(const float *logits, int64_t classes,
                              float softcap, Body body) {
  auto cap = [softcap](Vec x) {
    return softcap > 0 ? softcap * hyperbolicTangent(x / softcap) : x;
  };
  int64_t i = 0;
  for (; i + kChains * kLanes <= classes; i += kChains * kLanes)
#pragma GCC unroll 4
    for (int chain = 0; chain < kChains; ++chain)
      body(i + chain * kLanes, kLanes, cap(load(logits + i + chain * kLanes)),
           chain);
  for (; i + kLanes <= classes; i += kLanes)
    body(i, kLanes, cap(load(logits + i)), 0);
  if (i == classes)
    return;
  Vec rest = splat(kMinusInfinity);
  for (int64_t x = 0; x < classes - i; ++x)
    rest[x] = logits[i + x];
  Vec capped = cap(rest);
  for (int64_t x = classes - i; x < kLanes; ++x)
    capped[x] = kMinusInfinity;
  body(i, classes - i, capped, 0);
}

} // namespace

double crossEntropyRow(const float *logits, int64_t classes, int64_t label,
                       float softcap, float seed, float *dlogits) {
  Vec peaks[kChains], sums[kChains];
  for (int chain = 0; chain < kChains; ++chain) {
    peaks[chain] = splat(kMinusInfinity);
    sums[chain] = Vec{};
  }
  forEachVector(logits, classes, softcap,
                [&](int64_t, int64_t, Vec x, int chain) {
                  peaks[chain] = maximum(peaks[chain], x);
                });
  float peak = maxLanes(
      maximum(maximum(peaks[0], peaks[1]), maximum(peaks[2], peaks[3])));
  // A label that is no class shows in the loss.
  bool known = label >= 0 && label < classes;
  float chosen = __builtin_nanf("");
  if (known)
    forEachVector(logits + label, 1, softcap,
                  [&](int64_t, int64_t, Vec x, int) { chosen = x[0]; });
  auto put = [dlogits](int64_t i, int64_t count, Vec values) {
    if (count == kLanes)
      return store(dlogits + i, values);
    for (int64_t j = 0; j < count; ++j)
      dlogits[i + j] = values[j];
  };
  // Exponentials are kept where their gradient needs nothing else.
  bool keep = dlogits && !(softcap > 0);
  forEachVector(logits, classes, softcap,
                [&](int64_t i, int64_t count, Vec x, int chain) {
                  Vec e = exponential(x - peak);
                  sums[chain] += e;
                  if (keep)
                    put(i, count, e);
                });
  float sum = sumLanes(sums[0] + sums[1] + (sums[2] + sums[3]));
  if (!dlogits)
    return double(peak) - double(chosen) + __builtin_log(double(sum));
  float factor = seed / sum;
  auto slopeOfCap = [softcap](auto x) {
    return 1.0f - (x / softcap) * (x / softcap);
  };
  if (keep)
    forEachVector(dlogits, classes, 0,
                  [&](int64_t i, int64_t count, Vec e, int) {
                    put(i, count, e * factor);
                  });
  else
    forEachVector(
        logits, classes, softcap, [&](int64_t i, int64_t count, Vec x, int) {
          put(i, count, exponential(x - peak) * factor * slopeOfCap(x));
        });
  if (known)
    dlogits[label] -= keep ? seed : seed * slopeOfCap(chosen);
  return double(peak) - double(chosen) + __builtin_log(double(sum));
}

extern const Kernels kernelTable;
const Kernels kernelTable = {widen,
                             narrow,
                             add,
                             transpose,
                             crossEntropyRow,
                             &attentionKernels,
                             nullptr,
                             &f32Product,
                             nullptr,
                             &depthwiseKernels};

} // namespace SHX_ISA
} // namespace shardonnx::rt
