// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See AxisGroup.h. A counter is written by its own rank alone and only grows;
// all ranks that see the same samples make the same calls in one order, so that
// each knows from its own turn how far the others must be.

#include "AxisGroup.h"
#include "ReduceKernels.h"
#include <algorithm>
#include <cstring>
#include <vector>

namespace shardonnx::rt {
namespace {

SplitPart partOf(const ShxAxisCollective &desc, int part) {
  return {desc.sections, static_cast<size_t>(desc.sectionCount), part,
          desc.parts, desc.zigzag != 0};
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
  bool all = desc.call == SHX_AXIS_ALL_REDUCE ||
             desc.call == SHX_AXIS_ALL_TO_ALL || desc.call == SHX_AXIS_SHIFT;
  return all ? whole : whole / desc.parts;
}

} // namespace

AxisGroup::Members AxisGroup::membersOf(const ShxAxisCollective &desc) const {
  const Topology &mesh = state.topology;
  auto axis = static_cast<MeshAxis>(desc.axis);
  int step = axis == MeshAxis::Tensor ? 1 : mesh.tensor;
  int part = placeOn(axis);
  return {state.rank - part * step, step, desc.parts, part};
}

void AxisGroup::run(const ShxAxisCollective &desc, const uint8_t *from,
                    uint8_t *to) {
  if (desc.call == SHX_AXIS_ALL_SLICE)
    slice(desc, from, to);
  else if (desc.call == SHX_AXIS_PART_PAD)
    pad(desc, from, to);
  else if (desc.call == SHX_AXIS_PART_ROLL)
    roll(desc, from, to, membersOf(desc).part + 1);
  else if (desc.call == SHX_AXIS_PART_UNROLL)
    roll(desc, from, to, desc.parts - membersOf(desc).part - 1);
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
  partOf(desc, placeBehind(desc, membersOf(desc).part))
      .forRuns(desc.inner, 0, givenElements(desc), copy);
}

void AxisGroup::pad(const ShxAxisCollective &desc, const uint8_t *from,
                    uint8_t *to) {
  int64_t element = dtypeBytes(static_cast<ShxDType>(desc.dtype));
  int64_t elements = givenElements(desc);
  std::memset(to, 0, static_cast<size_t>(elements * desc.parts * element));
  auto copy = [&](int64_t at, int64_t whole, int64_t count) {
    std::memcpy(to + whole * element, from + at * element,
                static_cast<size_t>(count * element));
  };
  partOf(desc, placeBehind(desc, membersOf(desc).part))
      .forRuns(desc.inner, 0, elements, copy);
}

// The dimension is one section.
void AxisGroup::roll(const ShxAxisCollective &desc, const uint8_t *from,
                     uint8_t *to, int first) {
  int64_t row = desc.sections[0] * desc.inner *
                dtypeBytes(static_cast<ShxDType>(desc.dtype));
  int64_t before = row / desc.parts * (first % desc.parts);
  for (int64_t o = 0; o < desc.outer; ++o, from += row, to += row) {
    std::memcpy(to, from + before, static_cast<size_t>(row - before));
    std::memcpy(to + (row - before), from, static_cast<size_t>(before));
  }
}

void AxisGroup::await(const Members &members, Counter RankBlock::*counter,
                      uint64_t value) {
  control.wait(Activity::Mesh, 0, /*spin=*/true, [&] {
    for (int i = 0; i < members.count; ++i)
      if ((control.block(members.at(i)).*counter)
              .load(std::memory_order_acquire) < value)
        return false;
    return true;
  });
}

// A piece is given into the half of the buffer from which all ranks have taken
// the one before the last, whichever axis that was of.
void AxisGroup::exchange(const ShxAxisCollective &desc, const uint8_t *from,
                         uint8_t *to) {
  TraceSpan span(trace, TraceRow::Waiting, "mesh axis");
  int64_t element = dtypeBytes(static_cast<ShxDType>(desc.dtype));
  // Of each rank's part there is a piece, where it is sums that are kept.
  int64_t pieces = scatters(desc) ? desc.parts : 1;
  int64_t elements = givenElements(desc), step = pieceBytes / element / pieces;
  Members members = membersOf(desc);
  uint64_t number =
      control.issue(Activity::Mesh, 0, elements * element * pieces);
  control.recorder.begin(number);
  RankBlock &mine = control.block(state.rank);
  for (int64_t begin = 0; begin < elements; begin += step) {
    int64_t count = std::min(step, elements - begin);
    ++turn;
    Members &half = readers[turn % 2];
    if (turn > 2)
      await(half, &RankBlock::meshDone, turn - 2);
    half = members;
    give(desc, begin, count, from);
    control.publish(mine.meshReady, turn);
    await(members, &RankBlock::meshReady, turn);
    take(desc, begin, count, to);
    control.publish(mine.meshDone, turn);
  }
  control.recorder.end(number);
}

void AxisGroup::give(const ShxAxisCollective &desc, int64_t begin,
                     int64_t count, const uint8_t *from) {
  int64_t element = dtypeBytes(static_cast<ShxDType>(desc.dtype));
  uint8_t *piece =
      state.meshBuffer(state.rank) + int64_t(turn % 2) * pieceBytes;
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
  Members members = membersOf(desc);
  if (desc.call == SHX_AXIS_ALL_TO_ALL)
    return takePart(desc, members, begin, count, to);
  auto dtype = static_cast<ShxDType>(desc.dtype);
  int64_t element = dtypeBytes(dtype);
  if (desc.call == SHX_AXIS_SHIFT)
    return copySlice(to + begin * element,
                     given(members.at(placeBehind(desc, members.part))),
                     count * element, /*parallel=*/true);
  if (desc.call == SHX_AXIS_ALL_REDUCE || scatters(desc)) {
    int64_t share = scatters(desc) ? members.part * count * element : 0;
    std::vector<const void *> sources;
    for (int i = 0; i < members.count; ++i)
      sources.push_back(given(members.at(i)) + share);
    return sumAlike(to + begin * element, sources.data(), sources.size(), count,
                    dtype, /*parallel=*/true);
  }
  for (int i = 0; i < members.count; ++i) {
    auto copy = [&](int64_t at, int64_t whole, int64_t length) {
      std::memcpy(to + whole * element,
                  given(members.at(i)) + (at - begin) * element,
                  static_cast<size_t>(length * element));
    };
    partOf(desc, i).forRuns(desc.inner, begin, begin + count, copy);
  }
}

// Of a piece of what each rank gives this rank's part, which is the giver's
// part of the result.
void AxisGroup::takePart(const ShxAxisCollective &desc, const Members &members,
                         int64_t begin, int64_t count, uint8_t *to) {
  int64_t element = dtypeBytes(static_cast<ShxDType>(desc.dtype));
  SplitPart mine = partOf(desc, members.part);
  int64_t first = mine.countBefore(desc.inner, begin);
  int64_t last = mine.countBefore(desc.inner, begin + count);
  for (int i = 0; i < members.count; ++i) {
    SplitPart theirs(desc.joinedSections,
                     static_cast<size_t>(desc.joinedSectionCount), i,
                     desc.parts);
    const uint8_t *source = given(members.at(i));
    mine.forRuns(
        desc.inner, first, last, [&](int64_t at, int64_t whole, int64_t run) {
          auto copy = [&](int64_t part, int64_t joined, int64_t length) {
            std::memcpy(to + joined * element,
                        source + (whole + part - at - begin) * element,
                        static_cast<size_t>(length * element));
          };
          theirs.forRuns(desc.joinedInner, at, at + run, copy);
        });
  }
}

} // namespace shardonnx::rt
