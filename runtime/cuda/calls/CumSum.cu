// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_cumsum: a block a line, which it scans a piece after the other. The
// kernels are nvcc's, their launch is the C++ compiler's.

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt::cuda {
constexpr int kCumSumThreads = 256;
} // namespace shardonnx::rt::cuda

#ifdef __CUDACC__

#include "../kernels/Device.cuh"

namespace shardonnx::rt::cuda {
namespace {

// What elements are summed as: floats in f32, integers so that they wrap.
template <int32_t Type> struct Element : Float<Type> {
  using Sum = float;
};
template <> struct Element<SHX_I64> {
  using Stored = int64_t;
  using Sum = unsigned long long;
  static __device__ Sum widen(Stored x) { return Sum(x); }
  static __device__ Stored narrow(Sum x) { return Stored(x); }
};
template <> struct Element<SHX_I32> {
  using Stored = int32_t;
  using Sum = unsigned;
  static __device__ Sum widen(Stored x) { return Sum(x); }
  static __device__ Stored narrow(Sum x) { return Stored(x); }
};

// The sum of the lanes up to this one.
template <typename Sum> __device__ Sum warpScan(Sum value) {
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    Sum below = __shfl_up_sync(kAllLanes, value, step);
    if (lane() >= step)
      value += below;
  }
  return value;
}

// An element is read and written by one thread: from and to may be one buffer.
template <int32_t Type>
__device__ void cumSum(const ShxCumSum &d, const void *from, void *to) {
  using Traits = Element<Type>;
  using Sum = typename Traits::Sum;
  constexpr int kWarps = kCumSumThreads / kWarp;
  __shared__ Sum sums[kWarps];
  auto *x = static_cast<const typename Traits::Stored *>(from);
  auto *y = static_cast<typename Traits::Stored *>(to);
  int64_t line = blockIdx.x;
  for (int32_t axis = d.rank - 1; axis >= 0; --axis) {
    int64_t here = line % d.dims[axis];
    line /= d.dims[axis];
    x += here * d.fromStride[axis];
    y += here * d.toStride[axis];
  }
  Sum before = 0; // of the pieces before
  for (int64_t begin = 0; begin < d.size; begin += kCumSumThreads) {
    int64_t i = begin + threadIdx.x;
    int64_t at = d.reverse ? d.size - 1 - i : i;
    Sum value = i < d.size ? Traits::widen(x[at * d.fromAxisStride]) : Sum(0);
    Sum sum = warpScan(value);
    if (lane() == kWarp - 1)
      sums[warp()] = sum;
    if (d.exclusive) {
      sum = __shfl_up_sync(kAllLanes, sum, 1);
      sum = lane() == 0 ? Sum(0) : sum;
    }
    __syncthreads();
    Sum lower = 0;
    for (int w = 0; w < kWarps; ++w) {
      if (w == warp())
        lower = before;
      before += sums[w];
    }
    if (i < d.size)
      y[at * d.toAxisStride] = Traits::narrow(lower + sum);
    __syncthreads();
  }
}

} // namespace
} // namespace shardonnx::rt::cuda

#define SHX_CUMSUM(suffix, Type)                                               \
  extern "C" __global__ void __launch_bounds__(                                \
      shardonnx::rt::cuda::kCumSumThreads)                                     \
      shx_k_cumsum_##suffix(ShxCumSum d, const void *from, void *to) {         \
    shardonnx::rt::cuda::cumSum<Type>(d, from, to);                            \
  }
SHX_FOR_FLOATS(SHX_CUMSUM)
SHX_CUMSUM(i64, SHX_I64)
SHX_CUMSUM(i32, SHX_I32)

#else

#include "../launch/Launch.h"

using namespace shardonnx::rt::cuda;

void shx_cumsum(ShxContext *ctx, const ShxCumSum *desc, const void *from,
                void *to) {
  static constexpr const char *names[] = {
      "shx_k_cumsum_f32", "shx_k_cumsum_bf16", "shx_k_cumsum_f16",
      "shx_k_cumsum_i64", "shx_k_cumsum_i32"};
  int64_t lines = 1;
  for (int32_t axis = 0; axis < desc->rank; ++axis)
    lines *= desc->dims[axis];
  launch(contextOf(ctx), names[desc->dtype], lines, kCumSumThreads, 0, *desc,
         from, to);
}

#endif
