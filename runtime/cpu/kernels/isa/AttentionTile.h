// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What attention's forward and backward share: which keys a query sees, the
// scores of a tile with queries in the lanes and one row per key, and operands
// packed for its products.

#ifndef SHARDONNX_RUNTIME_CPU_ISA_ATTENTIONTILE_H
#define SHARDONNX_RUNTIME_CPU_ISA_ATTENTIONTILE_H

#include "../AttentionPlan.h"
#include "AttentionAhead.h"

namespace shardonnx::rt::SHX_ISA {

static_assert(kForwardLeast % kTileLanes == 0 && kQueryTile % kTileLanes == 0 &&
                  kWidestTile % kTileLanes == 0,
              "tiles hold whole groups of lanes");
static_assert(kForwardKeys % kTileRows == 0 && kKeyTile % kTileRows == 0,
              "tiles hold whole rows of products");

constexpr float kMinusInfinity = -__builtin_inff();

struct Range {
  int64_t begin, end;
};

/// The first keys of a batch element's queries, where the caller gives them.
SHX_INLINE const int32_t *firstKeysOf(const ShxAttention &d, const void *mask,
                                      int64_t batch) {
  if (!mask || d.maskDtype != SHX_I32)
    return nullptr;
  return static_cast<const int32_t *>(mask) + batch * d.maskStride[0];
}

/// The keys that query i sees; both ends never fall as i rises.
SHX_INLINE Range visibleKeys(const ShxAttention &d, const int32_t *firstKeys,
                             int64_t i) {
  int64_t end = d.causal ? least(d.seqK, i + 1 + d.seqK - d.seqQ) : d.seqK;
  end = most(end, 0);
  int64_t begin = d.window > 0 ? most(0, end - d.window) : 0;
  if (firstKeys)
    begin = most(begin, firstKeys[i * d.maskStride[2]]);
  return {begin, end};
}

/// Lanes [0, kTileLanes) of `row` where the query of the lane does not see key
/// j become `fill`. The ends are computed per lane as visibleKeys does;
/// `begins` has each lane's first key, null where none is given.
SHX_INLINE void hideKey(const ShxAttention &d, const int32_t *begins,
                        int64_t first, int64_t j, float *row, float fill) {
  for (int v = 0; v < kTileVectors; ++v) {
    VecI query = laneIndex() + splatInt(int32_t(first + v * kLanes));
    VecI end = splatInt(int32_t(d.seqK));
    if (d.causal)
      end = query + splatInt(int32_t(1 + d.seqK - d.seqQ));
    VecI key = splatInt(int32_t(j));
    VecI seen = key < end;
    if (d.window > 0)
      seen &= key >= end - splatInt(int32_t(least(d.window, d.seqK)));
    if (begins) {
      VecI begin;
      __builtin_memcpy(&begin, begins + v * kLanes, sizeof(begin));
      seen &= key >= begin;
    }
    Vec score = load(row + v * kLanes);
    store(row + v * kLanes, seen ? score : splat(fill));
  }
}

/// Adds the caller's mask, whose keys are contiguous: lane by lane.
static inline __attribute__((unused)) void
applyMask(const ShxAttention &d, const void *mask, int64_t batch, int64_t head,
          int64_t first, int64_t last, Range keys, float *scores,
          int64_t stride) {
  int64_t base = batch * d.maskStride[0] + head * d.maskStride[1];
  for (int64_t i = first; i < last; ++i) {
    int64_t at = base + i * d.maskStride[2];
    float *lane = scores + (i - first);
    if (d.maskDtype == SHX_F32) {
      const float *from = static_cast<const float *>(mask) + at;
      for (int64_t j = keys.begin; j < keys.end; ++j)
        lane[(j - keys.begin) * stride] += from[j];
    } else {
      const uint8_t *from = static_cast<const uint8_t *>(mask) + at;
      for (int64_t j = keys.begin; j < keys.end; ++j)
        if (!from[j])
          lane[(j - keys.begin) * stride] = kMinusInfinity;
    }
  }
}

/// What a group of lanes works on.
struct Group {
  int64_t batch, head;
  int64_t first, last; // queries
};

/// Of a group's `count` keys from `begin` on, those that queries of the first
/// vector of lanes see: the rest concerns the other vectors alone.
SHX_INLINE int64_t keysOfFirstLanes(const ShxAttention &d,
                                    const int32_t *firstKeys,
                                    const Group &group, int64_t begin,
                                    int64_t count) {
  int64_t query = least(group.first + kLanes, group.last) - 1;
  int64_t end = visibleKeys(d, firstKeys, query).end - begin;
  return most(0, least(end, count));
}

/// to[j][lane] = row j · query of the lane (units × kTileLanes), for `first`
/// rows in all lanes and for the rest up to `count` in all but the first
/// vector's.
template <Update How>
SHX_INLINE void multiplyRows(int64_t first, int64_t count, int64_t units,
                             const float *rows, const float *queries, float *to,
                             int64_t stride, Ahead &ahead,
                             const float *scale = nullptr) {
  static_assert(kTileVectors == 2, "one vector is left");
  for (int64_t j = 0; j < first; j += kTileRows) {
    product<Multiply, How>(least(kTileRows, first - j), to + j * stride, stride,
                           {rows + j * units, units, 1}, queries, kTileLanes,
                           units, scale);
    ahead.fetch();
  }
  product<Multiply, How, 1>(count - first, to + first * stride + kLanes, stride,
                            {rows + first * units, units, 1}, queries + kLanes,
                            kTileLanes, units, scale);
}

/// Caps `count` rows of scores. With `slope`, its elements are multiplied by
/// the derivative of the cap.
SHX_INLINE void capScores(const ShxAttention &d, int64_t count, float *scores,
                          int64_t stride, float *slope) {
  for (int64_t j = 0; j < count; ++j)
    for (int v = 0; v < kTileVectors; ++v) {
      int64_t at = j * stride + v * kLanes;
      Vec t = hyperbolicTangent(load(scores + at) / d.softcap);
      store(scores + at, d.softcap * t);
      if (slope)
        store(slope + at, load(slope + at) * (1.0f - t * t));
    }
}

/// Hides what the group's queries must not see.
SHX_INLINE void maskTile(const ShxAttention &d, const Group &group,
                         const void *mask, Range keys, float *scores,
                         int64_t stride) {
  const int32_t *firstKeys = firstKeysOf(d, mask, group.batch);
  int32_t begins[kTileLanes];
  if (firstKeys)
    for (int64_t l = 0; l < kTileLanes; ++l)
      begins[l] =
          firstKeys[least(group.first + l, group.last - 1) * d.maskStride[2]];
  else if (mask)
    applyMask(d, mask, group.batch, group.head, group.first, group.last, keys,
              scores, stride);
  // All of the group's queries see the keys from the begin of the last one's to
  // the end of the first one's.
  int64_t begin =
      least(visibleKeys(d, firstKeys, group.last - 1).begin, keys.end);
  int64_t end =
      most(visibleKeys(d, firstKeys, group.first).end, most(begin, keys.begin));
  auto hide = [&](int64_t from, int64_t to) {
    for (int64_t j = from; j < to; ++j)
      hideKey(d, firstKeys ? begins : nullptr, group.first, j,
              scores + (j - keys.begin) * stride, kMinusInfinity);
  };
  hide(keys.begin, begin);
  hide(end, keys.end);
}

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_ATTENTIONTILE_H
