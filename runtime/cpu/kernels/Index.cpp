// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_gather and shx_scatter. What is scattered to one element arrives in the
// order of the positions, however the work is cut: among positions that never
// meet, among columns of a row, or else by the element that is written.

#include "Matrix.h"
#include "OutsideIndex.h"
#include "shardonnx/runtime/IndexABI.h"

#include <algorithm>
#include <cstring>

namespace shardonnx::rt {
namespace {

constexpr int64_t kGrain = 1 << 13; // elements

int64_t elementBytes(int32_t dtype) {
  constexpr int64_t bytes[] = {4, 2, 2, 8, 4, 1};
  return bytes[dtype];
}

// The positions of a call: outer ones one by one, the innermost as a row when
// data and values are contiguous along it.
class Positions {
public:
  Positions(const ShxIndexing &desc, const void *indices)
      : d(desc), indices(indices) {
    for (int32_t axis = 0; axis < d.rank; ++axis)
      empty = empty || d.dims[axis] == 0;
    outerRank = d.rank;
    int32_t last = d.rank - 1;
    if (last >= 0 && d.indexStride[last] == 0 && d.dataStride[last] == 1 &&
        d.valueStride[last] == 1) {
      outerRank = last;
      row = d.dims[last];
    }
    // Positions that differ along a free axis never meet.
    for (int32_t axis = 0; axis < outerRank; ++axis)
      if (d.dataStride[axis] != 0)
        order[freeRank++] = axis;
    int32_t at = freeRank;
    for (int32_t axis = 0; axis < outerRank; ++axis)
      if (d.dataStride[axis] == 0)
        order[at++] = axis;
    for (int32_t i = 0; i < outerRank; ++i)
      (i < freeRank ? free : meeting) *= d.dims[order[i]];
  }

  struct Place {
    int64_t data, value;
    int64_t first; // coordinate along the first indexed axis
  };

  // Where the row of a free and a meeting position lies; false if an index is
  // outside.
  bool place(int64_t freeAt, int64_t meetingAt, Place &result,
             OutsideIndex &outside) const {
    int64_t index = 0;
    result = {0, 0, 0};
    auto walk = [&](int64_t at, int32_t begin, int32_t end) {
      for (int32_t i = end - 1; i >= begin; --i) {
        int32_t axis = order[i];
        int64_t here = at % d.dims[axis];
        at /= d.dims[axis];
        result.data += here * d.dataStride[axis];
        result.value += here * d.valueStride[axis];
        index += here * d.indexStride[axis];
      }
    };
    walk(freeAt, 0, freeRank);
    walk(meetingAt, freeRank, outerRank);
    for (int32_t c = 0; c < d.components; ++c) {
      int64_t at = outside.within(
          indexAt(d.indexDtype, indices, index + c * d.componentStride),
          d.indexedSize[c]);
      if (at < 0)
        return false;
      if (c == 0)
        result.first = at;
      result.data += at * d.indexedStride[c];
    }
    return true;
  }

  int64_t free = 1, meeting = 1, row = 1;
  bool empty = false;

private:
  const ShxIndexing &d;
  const void *indices;
  int32_t order[SHX_MAX_RANK];
  int32_t freeRank = 0, outerRank = 0;
};

template <typename T> void combine(int32_t reduction, T value, T &to) {
  switch (reduction) {
  case SHX_REDUCE_NONE:
    to = value;
    return;
  case SHX_REDUCE_ADD:
    to = T(to + value);
    return;
  case SHX_REDUCE_MUL:
    to = T(to * value);
    return;
  case SHX_REDUCE_MIN: // a NaN stays
    to = value < to || isNotANumber(value) ? value : to;
    return;
  default:
    to = value > to || isNotANumber(value) ? value : to;
    return;
  }
}

// Integers wrap: they are combined as unsigned, but compared as signed.
template <typename T, typename Wrapping>
void combineIntegers(int32_t reduction, const void *from, void *to,
                     int64_t count) {
  const T *values = static_cast<const T *>(from);
  T *data = static_cast<T *>(to);
  bool wraps = reduction == SHX_REDUCE_ADD || reduction == SHX_REDUCE_MUL;
  for (int64_t i = 0; i < count; ++i) {
    if (!wraps) {
      combine(reduction, values[i], data[i]);
      continue;
    }
    Wrapping sum = static_cast<Wrapping>(data[i]);
    combine(reduction, static_cast<Wrapping>(values[i]), sum);
    data[i] = static_cast<T>(sum);
  }
}

void combineFloats(int32_t reduction, const float *from, float *to,
                   int64_t count) {
  if (reduction == SHX_REDUCE_ADD)
    return kernels().add(from, to, count);
  for (int64_t i = 0; i < count; ++i)
    combine(reduction, from[i], to[i]);
}

// 16 bits: in f32, rounded after each value.
void combineHalves(int32_t dtype, int32_t reduction, const char *from, char *to,
                   int64_t count) {
  constexpr int64_t kBlock = 256;
  float values[kBlock], data[kBlock];
  for (int64_t i = 0; i < count; i += kBlock) {
    int64_t n = std::min(kBlock, count - i);
    kernels().widen(dtype, from + 2 * i, values, n);
    kernels().widen(dtype, to + 2 * i, data, n);
    combineFloats(reduction, values, data, n);
    kernels().narrow(dtype, data, to + 2 * i, n);
  }
}

void combineRow(const ShxIndexing &d, const char *from, char *to,
                int64_t count) {
  if (d.reduction == SHX_REDUCE_NONE) {
    std::memcpy(to, from, size_t(count * elementBytes(d.dtype)));
    return;
  }
  switch (d.dtype) {
  case SHX_F32:
    return combineFloats(d.reduction, reinterpret_cast<const float *>(from),
                         reinterpret_cast<float *>(to), count);
  case SHX_I64:
    return combineIntegers<int64_t, uint64_t>(d.reduction, from, to, count);
  case SHX_I32:
    return combineIntegers<int32_t, uint32_t>(d.reduction, from, to, count);
  case SHX_I1: // sum: or; product: and
    for (int64_t i = 0; i < count; ++i)
      if (d.reduction == SHX_REDUCE_ADD || d.reduction == SHX_REDUCE_MAX)
        to[i] = char(to[i] | from[i]);
      else
        to[i] = char(to[i] & from[i]);
    return;
  default:
    return combineHalves(d.dtype, d.reduction, from, to, count);
  }
}

class Scatter {
public:
  Scatter(const ShxIndexing &desc, const void *indices, const void *values,
          void *data)
      : d(desc), positions(desc, indices),
        values(static_cast<const char *>(values)),
        data(static_cast<char *>(data)), bytes(elementBytes(desc.dtype)) {}

  void run(const char *what) {
    if (positions.empty)
      return;
    int64_t threads = omp_get_max_threads();
    const int64_t rowGrain = 64;
    int64_t work = positions.meeting * positions.row;
    if (positions.free >= threads || work < kGrain)
      parallelRange(positions.free, ceilDiv(kGrain, work),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t f = begin; f < end; ++f)
                        visit(f, 0, positions.row, 0, d.indexedSize[0]);
                    });
    else if (positions.row >= rowGrain * threads)
      parallelRange(positions.row, rowGrain, [&](int64_t begin, int64_t end) {
        for (int64_t f = 0; f < positions.free; ++f)
          visit(f, begin, end, 0, d.indexedSize[0]);
      });
    else
      parallelRange(d.indexedSize[0], 1, [&](int64_t begin, int64_t end) {
        for (int64_t f = 0; f < positions.free; ++f)
          visit(f, 0, positions.row, begin, end);
      });
    outside.endProgramIfAny(what);
  }

private:
  static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

  // Columns [begin, end) of the rows that go to [first, last) of the first
  // indexed axis.
  void visit(int64_t freeAt, int64_t begin, int64_t end, int64_t first,
             int64_t last) {
    Positions::Place place;
    for (int64_t m = 0; m < positions.meeting; ++m)
      if (positions.place(freeAt, m, place, outside) && place.first >= first &&
          place.first < last)
        combineRow(d, values + (place.value + begin) * bytes,
                   data + (place.data + begin) * bytes, end - begin);
  }

  const ShxIndexing &d;
  const Positions positions;
  const char *values;
  char *data;
  const int64_t bytes;
  OutsideIndex outside;
};

template <typename T>
void gatherElements(const Positions &positions, const char *data, char *values,
                    int64_t begin, int64_t end, OutsideIndex &outside) {
  Positions::Place place;
  for (int64_t at = begin; at < end; ++at)
    if (positions.place(at / positions.meeting, at % positions.meeting, place,
                        outside))
      reinterpret_cast<T *>(values)[place.value] =
          reinterpret_cast<const T *>(data)[place.data];
}

void gatherRows(const Positions &positions, int64_t bytes, const char *data,
                char *values, int64_t begin, int64_t end,
                OutsideIndex &outside) {
  if (positions.row == 1) {
    if (bytes == 8)
      return gatherElements<uint64_t>(positions, data, values, begin, end,
                                      outside);
    if (bytes == 4)
      return gatherElements<uint32_t>(positions, data, values, begin, end,
                                      outside);
    if (bytes == 2)
      return gatherElements<uint16_t>(positions, data, values, begin, end,
                                      outside);
    return gatherElements<uint8_t>(positions, data, values, begin, end,
                                   outside);
  }
  Positions::Place place;
  for (int64_t at = begin; at < end; ++at)
    if (positions.place(at / positions.meeting, at % positions.meeting, place,
                        outside))
      std::memcpy(values + place.value * bytes, data + place.data * bytes,
                  size_t(positions.row * bytes));
}

} // namespace
} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_gather(ShxContext *ctx, const ShxIndexing *desc, const void *data,
                const void *indices, void *values, const char *what) {
  TraceScope scope(ctx, "gather_elements");
  Positions positions(*desc, indices);
  if (positions.empty)
    return;
  OutsideIndex outside;
  int64_t bytes = elementBytes(desc->dtype);
  int64_t grain = std::max<int64_t>(1, kGrain / positions.row);
  parallelRange(positions.free * positions.meeting, grain,
                [&](int64_t begin, int64_t end) {
                  gatherRows(positions, bytes, static_cast<const char *>(data),
                             static_cast<char *>(values), begin, end, outside);
                });
  outside.endProgramIfAny(what);
}

void shx_scatter(ShxContext *ctx, const ShxIndexing *desc, const void *indices,
                 const void *values, void *data, const char *what) {
  TraceScope scope(ctx, "scatter");
  Scatter(*desc, indices, values, data).run(what);
}
