// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_top_k: the largest of a line that is left, one after the other, found by
// a warp or, for long lines, by a block. Elements of all types are compared as
// unsigned numbers of the same order. The kernels are nvcc's, their launch is
// the C++ compiler's.

#include "shardonnx/runtime/IndexABI.h"

namespace shardonnx::rt::cuda {
constexpr int kTopKThreads = 256;
} // namespace shardonnx::rt::cuda

#ifdef __CUDACC__

#include "../kernels/Device.cuh"

namespace shardonnx::rt::cuda {
namespace {

using Key = unsigned long long;

// NaN is above infinity; zeros are equal.
__device__ Key keyOfFloat(float x) {
  if (x != x)
    return 0xffffffffu;
  const uint32_t bits = __float_as_uint(x == 0 ? 0.f : x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ Key keyOf(int32_t dtype, const void *from, int64_t at) {
  switch (dtype) {
  case SHX_F32:
    return keyOfFloat(typed<SHX_F32>(from)[at]);
  case SHX_BF16:
    return keyOfFloat(Float<SHX_BF16>::widen(typed<SHX_BF16>(from)[at]));
  case SHX_F16:
    return keyOfFloat(Float<SHX_F16>::widen(typed<SHX_F16>(from)[at]));
  case SHX_I64:
    return Key(static_cast<const int64_t *>(from)[at]) ^ (Key(1) << 63);
  case SHX_I32:
    return uint32_t(static_cast<const int32_t *>(from)[at]) ^ 0x80000000u;
  default:
    return static_cast<const uint8_t *>(from)[at];
  }
}

// `place` orders equal elements.
struct Candidate {
  Key key;
  int64_t place;
  __device__ bool before(const Candidate &other) const {
    return key > other.key || (key == other.key && place < other.place);
  }
};

constexpr int64_t kNowhere = INT64_MAX;

__device__ Candidate bestOfWarp(Candidate mine) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) {
    Candidate other{__shfl_xor_sync(kAllLanes, mine.key, step),
                    __shfl_xor_sync(kAllLanes, mine.place, step)};
    if (other.before(mine))
      mine = other;
  }
  return mine;
}

// Of `Threads` threads: a warp or the block.
template <int Threads> __device__ Candidate bestOf(Candidate mine) {
  mine = bestOfWarp(mine);
  if constexpr (Threads > kWarp) {
    __shared__ Candidate best[Threads / kWarp];
    __syncthreads(); // the last round has read them
    if (lane() == 0)
      best[warp()] = mine;
    __syncthreads();
    mine = best[0];
#pragma unroll 1
    for (int w = 1; w < Threads / kWarp; ++w)
      if (best[w].before(mine))
        mine = best[w];
  }
  return mine;
}

__device__ void copyElement(int32_t dtype, void *to, int64_t at,
                            const void *from, int64_t source) {
  if (dtype == SHX_I64)
    static_cast<int64_t *>(to)[at] = static_cast<const int64_t *>(from)[source];
  else if (dtype == SHX_F32 || dtype == SHX_I32)
    static_cast<int32_t *>(to)[at] = static_cast<const int32_t *>(from)[source];
  else if (dtype == SHX_I1)
    static_cast<uint8_t *>(to)[at] = static_cast<const uint8_t *>(from)[source];
  else
    static_cast<uint16_t *>(to)[at] =
        static_cast<const uint16_t *>(from)[source];
}

template <int Threads>
__device__ void topK(const ShxTopK &d, int64_t lines, const void *from,
                     void *values, int64_t *indices) {
  const int thread = int(threadIdx.x) % Threads;
  uint32_t line = blockIdx.x * (kTopKThreads / Threads) + threadIdx.x / Threads;
  if (line >= lines)
    return;
  int64_t source = 0, value = 0, index = 0;
#pragma unroll 1
  for (int32_t axis = d.rank - 1; axis >= 0; --axis) {
    const uint32_t size = uint32_t(d.dims[axis]), here = line % size;
    line /= size;
    source += here * d.fromStride[axis];
    value += here * d.valueStride[axis];
    index += here * d.indexStride[axis];
  }
  const Key flip = d.smallest ? ~Key(0) : Key(0);
  Candidate last{~Key(0), -kNowhere};
  for (int64_t i = 0; i < d.k; ++i) {
    Candidate best{0, kNowhere};
#pragma unroll 1
    for (int64_t at = thread; at < d.size; at += Threads) {
      const Key key = keyOf(d.dtype, from, source + at * d.fromAxisStride);
      const Candidate here{key ^ flip, d.lastFirst ? -at : at};
      if (last.before(here) && here.before(best))
        best = here;
    }
    last = bestOf<Threads>(best);
    if (thread != 0)
      continue;
    const int64_t at = d.lastFirst ? -last.place : last.place;
    indices[index + i * d.indexAxisStride] = at;
    copyElement(d.dtype, values, value + i * d.valueAxisStride, from,
                source + at * d.fromAxisStride);
  }
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

#define SHX_TOP_K(suffix, Threads)                                             \
  extern "C" __global__ void __launch_bounds__(kTopKThreads)                   \
      shx_k_top_k_##suffix(const __grid_constant__ ShxTopK d, int64_t lines,   \
                           const void *from, void *values, int64_t *indices) { \
    topK<Threads>(d, lines, from, values, indices);                            \
  }
SHX_TOP_K(warp, kWarp)
SHX_TOP_K(block, kTopKThreads)

#else

#include "../launch/Launch.h"

using namespace shardonnx::rt::cuda;

// Longer lines get a block each.
static constexpr int64_t kWarpLine = 1024;

void shx_top_k(ShxContext *ctx, const ShxTopK *desc, const void *from,
               void *values, int64_t *indices) {
  int64_t lines = 1;
  for (int32_t axis = 0; axis < desc->rank; ++axis)
    lines *= desc->dims[axis];
  bool warps = desc->size <= kWarpLine;
  launch(contextOf(ctx), warps ? "shx_k_top_k_warp" : "shx_k_top_k_block",
         warps ? blocksFor(lines, kTopKThreads / 32) : lines, kTopKThreads, 0,
         *desc, lines, from, values, indices);
}

#endif
