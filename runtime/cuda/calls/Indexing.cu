// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_gather and shx_scatter. What is scattered to one element arrives in the
// order of the positions, as on CPUs, and without atomics: positions that may
// meet are visited by one thread one after the other, or all of them by each
// warp, which takes those that go to its own part of the first indexed axis.
// The kernels are nvcc's, their launch is the C++ compiler's.

#include "../kernels/OutsideCells.h"
#include "shardonnx/runtime/IndexABI.h"

namespace shardonnx::rt::cuda {

constexpr int kIndexThreads = 256;

/// The positions of a call in three parts: along free axes, in which positions
/// never meet, along the others, and in a row whose elements are neighbours in
/// data and values. Rows are counted in units of 1 to 16 bytes, and so are all
/// strides of data and values.
struct IndexShape {
  ShxIndexing d;
  int32_t order[SHX_MAX_RANK]; // axes: the free ones first
  int32_t freeRank, outerRank;
  uint32_t free, meeting, row; // their product is below 2^31
  uint32_t owners;             // warps that share the positions of a free one
};

} // namespace shardonnx::rt::cuda

#ifdef __CUDACC__

#include "../kernels/Outside.cuh"

namespace shardonnx::rt::cuda {
namespace {

struct Place {
  int64_t data, value;
  int64_t first; // coordinate along the first indexed axis
};

__device__ uint32_t threadOfGrid() {
  return blockIdx.x * kIndexThreads + threadIdx.x;
}

// Adds what axes [begin, end) of the order contribute.
__device__ void walkAxes(const IndexShape &s, uint32_t at, int32_t begin,
                         int32_t end, Place &place, int64_t &index) {
#pragma unroll 1
  for (int32_t i = end - 1; i >= begin; --i) {
    const int32_t axis = s.order[i];
    const uint32_t size = uint32_t(s.d.dims[axis]), here = at % size;
    at /= size;
    place.data += here * s.d.dataStride[axis];
    place.value += here * s.d.valueStride[axis];
    index += here * s.d.indexStride[axis];
  }
}

// False if an index is outside.
__device__ bool findPlace(const IndexShape &s, const void *indices,
                          uint32_t freeAt, uint32_t meetingAt, Place &place,
                          const OutsideCells &outside) {
  int64_t index = 0;
  place = {0, 0, 0};
  walkAxes(s, freeAt, 0, s.freeRank, place, index);
  walkAxes(s, meetingAt, s.freeRank, s.outerRank, place, index);
#pragma unroll 1
  for (int32_t c = 0; c < s.d.components; ++c) {
    const int64_t at = placeOrNote(
        indexAt(s.d.indexDtype, indices, index + c * s.d.componentStride),
        s.d.indexedSize[c], outside);
    if (at < 0)
      return false;
    if (c == 0)
      place.first = at;
    place.data += at * s.d.indexedStride[c];
  }
  return true;
}

template <typename Unit>
__device__ void gather(const IndexShape &s, const void *data,
                       const void *indices, void *values,
                       const OutsideCells &outside) {
  const uint32_t at = threadOfGrid();
  if (at >= s.free * s.meeting * s.row)
    return;
  const uint32_t position = at / s.row, column = at % s.row;
  Place place;
  if (findPlace(s, indices, position / s.meeting, position % s.meeting, place,
                outside))
    static_cast<Unit *>(values)[place.value + column] =
        static_cast<const Unit *>(data)[place.data + column];
}

// NaN is kept.
template <typename T> __device__ T combined(int32_t reduction, T old, T value) {
  switch (reduction) {
  case SHX_REDUCE_NONE:
    return value;
  case SHX_REDUCE_ADD:
    return T(old + value);
  case SHX_REDUCE_MUL:
    return T(old * value);
  case SHX_REDUCE_MIN:
    return value < old || value != value ? value : old;
  default:
    return value > old || value != value ? value : old;
  }
}

// Sums and products wrap: they are of unsigned numbers.
template <typename T, typename Wrapping>
__device__ void combineIntegers(int32_t reduction, const void *values,
                                int64_t from, void *data, int64_t to) {
  const T value = static_cast<const T *>(values)[from];
  T &place = static_cast<T *>(data)[to];
  const bool wraps = reduction == SHX_REDUCE_ADD || reduction == SHX_REDUCE_MUL;
  place = wraps ? T(combined(reduction, Wrapping(place), Wrapping(value)))
                : combined(reduction, place, value);
}

// 16 bits: in f32, rounded after each value.
template <int32_t Type>
__device__ void combineFloats(int32_t reduction, const void *values,
                              int64_t from, void *data, int64_t to) {
  Stored<Type> *place = typed<Type>(data, to);
  const Stored<Type> value = *typed<Type>(values, from);
  *place =
      reduction == SHX_REDUCE_NONE
          ? value
          : Float<Type>::narrow(combined(reduction, Float<Type>::widen(*place),
                                         Float<Type>::widen(value)));
}

__device__ void combine(const ShxIndexing &d, const void *values, int64_t from,
                        void *data, int64_t to) {
  switch (d.dtype) {
  case SHX_F32:
    return combineFloats<SHX_F32>(d.reduction, values, from, data, to);
  case SHX_BF16:
    return combineFloats<SHX_BF16>(d.reduction, values, from, data, to);
  case SHX_F16:
    return combineFloats<SHX_F16>(d.reduction, values, from, data, to);
  case SHX_I64:
    return combineIntegers<int64_t, uint64_t>(d.reduction, values, from, data,
                                              to);
  case SHX_I32:
    return combineIntegers<int32_t, uint32_t>(d.reduction, values, from, data,
                                              to);
  default: // a sum is an or, a product an and
    const uint8_t value = static_cast<const uint8_t *>(values)[from];
    uint8_t &place = static_cast<uint8_t *>(data)[to];
    if (d.reduction == SHX_REDUCE_NONE)
      place = value;
    else if (d.reduction == SHX_REDUCE_ADD || d.reduction == SHX_REDUCE_MAX)
      place |= value;
    else
      place &= value;
  }
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

#define SHX_GATHER(bytes, Unit)                                                \
  extern "C" __global__ void __launch_bounds__(kIndexThreads)                  \
      shx_k_gather_##bytes(const __grid_constant__ IndexShape s,               \
                           const void *data, const void *indices,              \
                           void *values, OutsideCells outside) {               \
    gather<Unit>(s, data, indices, values, outside);                           \
  }
SHX_GATHER(1, uint8_t)
SHX_GATHER(2, uint16_t)
SHX_GATHER(4, uint32_t)
SHX_GATHER(8, uint64_t)
SHX_GATHER(16, uint4)

// A thread for each free position and column, the other positions in order.
extern "C" __global__ void __launch_bounds__(kIndexThreads)
    shx_k_scatter_columns(const __grid_constant__ IndexShape s,
                          const void *indices, const void *values, void *data,
                          OutsideCells outside) {
  const uint32_t at = threadOfGrid();
  if (at >= s.free * s.row)
    return;
  const uint32_t free = at / s.row, column = at % s.row;
  Place place;
  for (uint32_t m = 0; m < s.meeting; ++m)
    if (findPlace(s, indices, free, m, place, outside))
      combine(s.d, values, place.value + column, data, place.data + column);
}

// A warp for each free position and owner, which looks at 32 positions at once
// and takes those that are its own in order.
extern "C" __global__ void __launch_bounds__(kIndexThreads)
    shx_k_scatter_owners(const __grid_constant__ IndexShape s,
                         const void *indices, const void *values, void *data,
                         OutsideCells outside) {
  const uint32_t at = threadOfGrid() / kWarp;
  if (at >= s.free * s.owners)
    return;
  const uint32_t free = at / s.owners, owner = at % s.owners;
  for (uint32_t first = 0; first < s.meeting; first += kWarp) {
    const uint32_t m = first + lane();
    Place place{0, 0, 0};
    const bool mine = m < s.meeting &&
                      findPlace(s, indices, free, m, place, outside) &&
                      uint32_t(place.first) % s.owners == owner;
    unsigned left = __ballot_sync(kAllLanes, mine);
    while (left) {
      const int here = __ffs(int(left)) - 1;
      left &= left - 1;
      const int64_t to = __shfl_sync(kAllLanes, place.data, here);
      const int64_t from = __shfl_sync(kAllLanes, place.value, here);
      for (uint32_t column = lane(); column < s.row; column += kWarp)
        combine(s.d, values, from + column, data, to + column);
      __syncwarp();
    }
  }
}

#else

#include "../launch/KernelNames.h"
#include "../launch/Launch.h"
#include "../plan/ElementBytes.h"
#include <algorithm>

namespace shardonnx::rt::cuda {
namespace {

// One thread goes through so many positions that may meet; where there are
// more, and few threads, warps share them.
constexpr int64_t kMostMeeting = 256, kEnoughThreads = 1 << 14;
constexpr int64_t kMostOwners = 1 << 12;
constexpr double kMostPositions = 2147483647;

IndexShape shapeOf(const ShxIndexing &d) {
  IndexShape s{};
  s.d = d;
  int64_t free = 1, meeting = 1, row = 1;
  s.outerRank = d.rank;
  int32_t last = d.rank - 1;
  if (last >= 0 && d.indexStride[last] == 0 && d.dataStride[last] == 1 &&
      d.valueStride[last] == 1) {
    s.outerRank = last;
    row = d.dims[last];
  }
  for (int32_t axis = 0; axis < s.outerRank; ++axis)
    if (d.dataStride[axis] != 0) {
      s.order[s.freeRank++] = axis;
      free *= d.dims[axis];
    }
  int32_t at = s.freeRank;
  for (int32_t axis = 0; axis < s.outerRank; ++axis)
    if (d.dataStride[axis] == 0) {
      s.order[at++] = axis;
      meeting *= d.dims[axis];
    }
  if (double(free) * double(meeting) * double(row) > kMostPositions)
    fail(
        "a gather or scatter of more than 2^31 elements: take a smaller batch");
  s.free = uint32_t(free);
  s.meeting = uint32_t(meeting);
  s.row = uint32_t(row);
  s.owners = 1;
  return s;
}

// Whether rows consist of units of `elements`, and begin at multiples of them.
bool divides(const IndexShape &s, int64_t elements) {
  bool result = s.row % elements == 0;
  for (int32_t axis = 0; axis < s.outerRank; ++axis)
    result = result && s.d.dataStride[axis] % elements == 0 &&
             s.d.valueStride[axis] % elements == 0;
  for (int32_t c = 0; c < s.d.components; ++c)
    result = result && s.d.indexedStride[c] % elements == 0;
  return result;
}

void countInUnits(IndexShape &s, int64_t elements) {
  s.row /= uint32_t(elements);
  for (int32_t axis = 0; axis < s.outerRank; ++axis) {
    s.d.dataStride[axis] /= elements;
    s.d.valueStride[axis] /= elements;
  }
  for (int32_t c = 0; c < s.d.components; ++c)
    s.d.indexedStride[c] /= elements;
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

void shx_gather(ShxContext *ctx, const ShxIndexing *desc, const void *data,
                const void *indices, void *values, const char *what) {
  static constexpr const char *names[] = {"shx_k_gather_1", "shx_k_gather_2",
                                          "shx_k_gather_4", "shx_k_gather_8",
                                          "shx_k_gather_16"};
  IndexShape s = shapeOf(*desc);
  int64_t element = bytesOf(desc->dtype), unit = element;
  auto at =
      reinterpret_cast<uintptr_t>(data) | reinterpret_cast<uintptr_t>(values);
  while (unit < 16 && at % (2 * uintptr_t(unit)) == 0 &&
         divides(s, 2 * unit / element))
    unit *= 2;
  countInUnits(s, unit / element);
  int level = 0;
  while ((1 << level) < unit)
    ++level;
  Context &context = contextOf(ctx);
  launch(context, names[level],
         blocksFor(int64_t(s.free) * s.meeting * s.row, kIndexThreads),
         kIndexThreads, 0, s, data, indices, values,
         outsideCells(context.cells.outside, what));
}

void shx_scatter(ShxContext *ctx, const ShxIndexing *desc, const void *indices,
                 const void *values, void *data, const char *what) {
  IndexShape s = shapeOf(*desc);
  Context &context = contextOf(ctx);
  OutsideCells outside = outsideCells(context.cells.outside, what);
  int64_t threads = int64_t(s.free) * s.row;
  if (s.meeting <= kMostMeeting || threads >= kEnoughThreads) {
    launch(context, "shx_k_scatter_columns", blocksFor(threads, kIndexThreads),
           kIndexThreads, 0, s, indices, values, data, outside);
    return;
  }
  s.owners = uint32_t(
      std::clamp<int64_t>(kMostOwners / s.free, 1, desc->indexedSize[0]));
  launch(context, "shx_k_scatter_owners",
         blocksFor(int64_t(s.free) * s.owners * 32, kIndexThreads),
         kIndexThreads, 0, s, indices, values, data, outside);
}

#endif
