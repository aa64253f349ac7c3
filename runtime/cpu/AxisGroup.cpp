// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See AxisGroup.h. A counter is written by its own rank alone and only grows;
// all ranks of a group make the same calls in one order, so that each knows
// from its own turn how far the others must be.

#include "AxisGroup.h"
#include "ReduceKernels.h"
#include <algorithm>
#include <cstring>
#include <vector>

namespace shardonnx::rt {
namespace {

SplitPart partOf(const ShxAxisCollective &desc, int part) {
  return {desc.sections, static_cast<size_t>(desc.sectionCount), part,
          desc.parts};
}

bool scatters(const ShxAxisCollective &desc) {
  return desc.call == SHX_AXIS_REDUCE_SCATTER;
}

// What pieces are cut of: of the whole in a sum, else of a part.
int64_t givenElements(const ShxAxisCollective &desc) {
  int64_t size = 0;
  for (int32_t s = 0; s < desc.sectionCount; ++s)
    size += desc.sections[s];
  int64_t whole = desc.outer * size * desc.inner;
  return desc.call == SHX_AXIS_ALL_REDUCE ? whole : whole / desc.parts;
}

} // namespace

void AxisGroup::run(const ShxAxisCollective &desc, const uint8_t *from,
                    uint8_t *to) {
  if (desc.call == SHX_AXIS_ALL_SLICE)
    slice(desc, from, to);
  else
    exchange(desc, from, to);
}

void AxisGroup::slice(const ShxAxisCollective &desc, const uint8_t *from,
                      uint8_t *to) {
  int64_t element = dtypeBytes(static_cast<ShxDType>(desc.dtype));
  auto copy = [&](int64_t at, int64_t whole, int64_t count) {
    std::memcpy(to + at * element, from + whole * element,
                static_cast<size_t>(count * element));
  };
  partOf(desc, part()).forRuns(desc.inner, 0, givenElements(desc), copy);
}

void AxisGroup::await(Counter RankBlock::*counter, uint64_t value) {
  int first = state.rank - part();
  control.wait(Activity::Mesh, 0, /*spin=*/true, [&] {
    for (int r = first; r < first + state.topology.tensor; ++r)
      if ((control.block(r).*counter).load(std::memory_order_acquire) < value)
        return false;
    return true;
  });
}

// A piece is given into the half of the buffer from which all ranks have taken
// the one before the last.
void AxisGroup::exchange(const ShxAxisCollective &desc, const uint8_t *from,
                         uint8_t *to) {
  TraceSpan span(trace, TraceRow::Waiting, "tensor axis");
  int64_t element = dtypeBytes(static_cast<ShxDType>(desc.dtype));
  // Of each rank's part there is a piece, where it is sums that are kept.
  int64_t pieces = scatters(desc) ? desc.parts : 1;
  int64_t elements = givenElements(desc), step = pieceBytes / element / pieces;
  uint64_t number =
      control.issue(Activity::Mesh, 0, elements * element * pieces);
  control.recorder.begin(number);
  RankBlock &mine = control.block(state.rank);
  for (int64_t begin = 0; begin < elements; begin += step) {
    int64_t count = std::min(step, elements - begin);
    ++turn;
    if (turn > 2)
      await(&RankBlock::meshDone, turn - 2);
    give(desc, begin, count, from);
    control.publish(mine.meshReady, turn);
    await(&RankBlock::meshReady, turn);
    take(desc, begin, count, to);
    control.publish(mine.meshDone, turn);
  }
  control.recorder.end(number);
}

void AxisGroup::give(const ShxAxisCollective &desc, int64_t begin,
                     int64_t count, const uint8_t *from) {
  int64_t element = dtypeBytes(static_cast<ShxDType>(desc.dtype));
  uint8_t *piece = state.meshBuffer(part()) + int64_t(turn % 2) * pieceBytes;
  if (!scatters(desc))
    return copySlice(piece, from + begin * element, count * element,
                     /*parallel=*/true);
  for (int r = 0; r < desc.parts; ++r) {
    uint8_t *share = piece + r * count * element;
    auto copy = [&](int64_t at, int64_t whole, int64_t length) {
      copySlice(share + (at - begin) * element, from + whole * element,
                length * element, /*parallel=*/true);
    };
    partOf(desc, r).forRuns(desc.inner, begin, begin + count, copy);
  }
}

void AxisGroup::take(const ShxAxisCollective &desc, int64_t begin,
                     int64_t count, uint8_t *to) {
  auto dtype = static_cast<ShxDType>(desc.dtype);
  int64_t element = dtypeBytes(dtype);
  if (desc.call == SHX_AXIS_ALL_REDUCE || scatters(desc)) {
    int64_t share = scatters(desc) ? part() * count * element : 0;
    std::vector<const void *> sources;
    for (int r = 0; r < desc.parts; ++r)
      sources.push_back(given(r) + share);
    return sumAlike(to + begin * element, sources.data(), sources.size(), count,
                    dtype, /*parallel=*/true);
  }
  for (int r = 0; r < desc.parts; ++r) {
    auto copy = [&](int64_t at, int64_t whole, int64_t length) {
      std::memcpy(to + whole * element, given(r) + (at - begin) * element,
                  static_cast<size_t>(length * element));
    };
    partOf(desc, r).forRuns(desc.inner, begin, begin + count, copy);
  }
}

} // namespace shardonnx::rt
