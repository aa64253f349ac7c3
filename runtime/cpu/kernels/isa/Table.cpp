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

// The logits in order, whole vectors first, then one padded with -infinity.
template <typename Body>
SHX_INLINE void forEachVector(const float *logits, int64_t classes,
                              float softcap, Body body) {
  auto cap = [softcap](Vec x) {
    return softcap > 0 ? softcap * hyperbolicTangent(x / softcap) : x;
  };
  int64_t i = 0;
  for (; i + kLanes <= classes; i += kLanes)
    body(i, kLanes, cap(load(logits + i)));
  if (i == classes)
    return;
  Vec rest = splat(kMinusInfinity);
  for (int64_t x = 0; x < classes - i; ++x)
    rest[x] = logits[i + x];
  Vec capped = cap(rest);
  for (int64_t x = classes - i; x < kLanes; ++x)
    capped[x] = kMinusInfinity;
  body(i, classes - i, capped);
}

} // namespace

double crossEntropyRow(const float *logits, int64_t classes, int64_t label,
                       float softcap, float seed, float *dlogits) {
  Vec peaks = splat(kMinusInfinity), sums[2] = {};
  forEachVector(logits, classes, softcap,
                [&](int64_t, int64_t, Vec x) { peaks = maximum(peaks, x); });
  // A label that is no class shows in the loss.
  float peak = maxLanes(peaks),
        chosen = label >= 0 && label < classes ? 0 : __builtin_nanf("");
  auto put = [dlogits](int64_t i, int64_t count, Vec values) {
    if (count == kLanes)
      return store(dlogits + i, values);
    for (int64_t j = 0; j < count; ++j)
      dlogits[i + j] = values[j];
  };
  // Exponentials are kept where their gradient needs nothing else.
  bool keep = dlogits && !(softcap > 0);
  forEachVector(logits, classes, softcap, [&](int64_t i, int64_t count, Vec x) {
    Vec e = exponential(x - peak);
    sums[i / kLanes % 2] += e;
    if (label >= i && label < i + count)
      chosen = x[label - i];
    if (keep)
      put(i, count, e);
  });
  float sum = sumLanes(sums[0] + sums[1]);
  if (dlogits) {
    float factor = seed / sum;
    forEachVector(keep ? dlogits : logits, classes, softcap,
                  [&](int64_t i, int64_t count, Vec x) {
                    Vec slope = (keep ? x : exponential(x - peak)) * factor;
                    if (label >= i && label < i + count)
                      slope[label - i] -= seed;
                    if (softcap > 0)
                      slope *= 1.0f - (x / softcap) * (x / softcap);
                    put(i, count, slope);
                  });
  }
  return double(peak) - double(chosen) + __builtin_log(double(sum));
}

extern const Kernels kernelTable;
const Kernels kernelTable = {widen,     narrow,          add,
                             transpose, crossEntropyRow, &attentionKernels,
                             nullptr,   &f32Product,     nullptr};

} // namespace SHX_ISA
} // namespace shardonnx::rt
