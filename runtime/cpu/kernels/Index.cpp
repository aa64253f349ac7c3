// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_gather and shx_scatter. What is scattered to one element arrives in the
// order of the positions, however the work is cut: among positions that never
// meet, among columns of a row, or else by the element that is written.

#include "../../support/Half.h"
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

// The positions of a call: outer ones in runs along one axis, the innermost as
// a row when data and values are contiguous along it.
class Positions {
public:
  // Positions are visited in row-major order, or with the axes first along
  // which they never meet.
  enum class Order { RowMajor, FreeFirst };

  Positions(const ShxIndexing &desc, const void *indices, Order wanted)
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
    int32_t at = 0;
    for (int32_t axis = 0; axis < outerRank; ++axis)
      if (wanted == Order::RowMajor || d.dataStride[axis] != 0) {
        order[at++] = axis;
        free *= d.dims[axis];
      }
    for (int32_t axis = 0; axis < outerRank && at < outerRank; ++axis)
      if (d.dataStride[axis] == 0) {
        order[at++] = axis;
        meeting *= d.dims[axis];
      }
  }

  struct Place {
    int64_t data, value;
    int64_t first; // coordinate along the first indexed axis
  };

  // visit(place) for where the rows of the positions [begin, end) lie, whose
  // number is that of the free position times `meeting` and of the meeting one;
  // none for an index that is outside.
  template <typename Visit>
  void visit(int64_t begin, int64_t end, OutsideIndex &outside,
             Visit visitPlace) const {
    int64_t length = outerRank > 0 ? d.dims[order[outerRank - 1]] : 1;
    while (begin < end) {
      int64_t skipped = begin % length;
      int64_t count = std::min(length - skipped, end - begin);
      visitRun(runAt(begin / length, skipped), count, outside, visitPlace);
      begin += count;
    }
  }

  int64_t free = 1, meeting = 1, row = 1;
  bool empty = false;

private:
  // Positions along the innermost axis: the first one, and how far apart they
  // are.
  struct Run {
    int64_t data, value, index;
    int64_t dataStep, valueStep, indexStep;
  };

  Run runAt(int64_t at, int64_t skipped) const {
    Run run{};
    for (int32_t i = outerRank - 1; i >= 0; --i) {
      int32_t axis = order[i];
      int64_t here = skipped;
      if (i == outerRank - 1) {
        run.dataStep = d.dataStride[axis];
        run.valueStep = d.valueStride[axis];
        run.indexStep = d.indexStride[axis];
      } else {
        here = at % d.dims[axis];
        at /= d.dims[axis];
      }
      run.data += here * d.dataStride[axis];
      run.value += here * d.valueStride[axis];
      run.index += here * d.indexStride[axis];
    }
    return run;
  }

  template <typename Visit>
  void visitRun(const Run &run, int64_t count, OutsideIndex &outside,
                Visit visitPlace) const {
    const int32_t components = d.components, dtype = d.indexDtype;
    const int64_t size = d.indexedSize[0], stride = d.indexedStride[0];
    for (int64_t i = 0; i < count; ++i) {
      int64_t index = run.index + i * run.indexStep;
      Place place{};
      place.first = outside.within(indexAt(dtype, indices, index), size);
      place.data = run.data + i * run.dataStep + place.first * stride;
      place.value = run.value + i * run.valueStep;
      bool inside = place.first >= 0;
      for (int32_t c = 1; c < components; ++c) {
        int64_t here = outside.within(
            indexAt(dtype, indices, index + c * d.componentStride),
            d.indexedSize[c]);
        place.data += here * d.indexedStride[c];
        inside = inside && here >= 0;
      }
      if (inside)
        visitPlace(place);
    }
  }

  const ShxIndexing &d;
  const void *indices;
  int32_t order[SHX_MAX_RANK];
  int32_t outerRank = 0;
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

// Calls work(T{}) for a type of so many bytes.
template <typename Work> void ofBytes(int64_t bytes, Work work) {
  switch (bytes) {
  case 8:
    return work(uint64_t{});
  case 4:
    return work(uint32_t{});
  case 2:
    return work(uint16_t{});
  default:
    return work(uint8_t{});
  }
}

class Scatter {
public:
  Scatter(const ShxIndexing &desc, const void *indices, const void *values,
          void *data)
      : d(desc), positions(desc, indices, Positions::Order::FreeFirst),
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
                      if (positions.row == 1)
                        visitElements(begin, end);
                      else
                        visit(begin, end, 0, positions.row, 0,
                              d.indexedSize[0]);
                    });
    else if (positions.row >= rowGrain * threads)
      parallelRange(positions.row, rowGrain, [&](int64_t begin, int64_t end) {
        visit(0, positions.free, begin, end, 0, d.indexedSize[0]);
      });
    else
      parallelRange(d.indexedSize[0], 1, [&](int64_t begin, int64_t end) {
        visit(0, positions.free, 0, positions.row, begin, end);
      });
    outside.endProgramIfAny(what);
  }

private:
  static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

  // Of free positions: columns [begin, end) of the rows that go to [first,
  // last) of the first indexed axis.
  void visit(int64_t freeBegin, int64_t freeEnd, int64_t begin, int64_t end,
             int64_t first, int64_t last) {
    positions.visit(freeBegin * positions.meeting, freeEnd * positions.meeting,
                    outside, [&](const Positions::Place &place) {
                      if (place.first >= first && place.first < last)
                        combineRow(d, values + (place.value + begin) * bytes,
                                   data + (place.data + begin) * bytes,
                                   end - begin);
                    });
  }

  // Of free positions whose rows are one element: what gradients add and what
  // is only written is too short for a call.
  void visitElements(int64_t begin, int64_t end) {
    if (d.reduction == SHX_REDUCE_NONE)
      return ofBytes(bytes, [&](auto type) {
        using T = decltype(type);
        forElements<T>(begin, end, [](T value, T &to) { to = value; });
      });
    if (d.reduction == SHX_REDUCE_ADD && d.dtype == SHX_F32)
      return addElements<float>(begin, end);
    if (d.reduction == SHX_REDUCE_ADD && d.dtype == SHX_BF16)
      return addElements<BFloat16>(begin, end);
    if (d.reduction == SHX_REDUCE_ADD && d.dtype == SHX_F16)
      return addElements<Float16>(begin, end);
    visit(begin, end, 0, 1, 0, d.indexedSize[0]);
  }

  template <typename T> void addElements(int64_t begin, int64_t end) {
    forElements<T>(begin, end, [](T value, T &to) {
      to = fromFloat<T>(toFloat(to) + toFloat(value));
    });
  }

  template <typename T, typename Combine>
  void forElements(int64_t begin, int64_t end, Combine combineElement) {
    const T *from = reinterpret_cast<const T *>(values);
    T *to = reinterpret_cast<T *>(data);
    positions.visit(begin * positions.meeting, end * positions.meeting, outside,
                    [&](const Positions::Place &place) {
                      combineElement(from[place.value], to[place.data]);
                    });
  }

  const ShxIndexing &d;
  const Positions positions;
  const char *values;
  char *data;
  const int64_t bytes;
  OutsideIndex outside;
};

void gatherRows(const Positions &positions, int64_t bytes, const char *data,
                char *values, int64_t begin, int64_t end,
                OutsideIndex &outside) {
  if (positions.row == 1)
    return ofBytes(bytes, [&](auto type) {
      using T = decltype(type);
      const T *from = reinterpret_cast<const T *>(data);
      T *to = reinterpret_cast<T *>(values);
      positions.visit(begin, end, outside, [&](const Positions::Place &place) {
        to[place.value] = from[place.data];
      });
    });
  positions.visit(begin, end, outside, [&](const Positions::Place &place) {
    std::memcpy(values + place.value * bytes, data + place.data * bytes,
                size_t(positions.row * bytes));
  });
}

} // namespace
} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_gather(ShxContext *ctx, const ShxIndexing *desc, const void *data,
                const void *indices, void *values, const char *what) {
  TraceScope scope(ctx, "gather_elements");
  Positions positions(*desc, indices, Positions::Order::RowMajor);
  if (positions.empty)
    return;
  OutsideIndex outside;
  int64_t bytes = elementBytes(desc->dtype);
  int64_t grain = std::max<int64_t>(1, kGrain / positions.row);
  parallelRange(positions.free, grain, [&](int64_t begin, int64_t end) {
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
