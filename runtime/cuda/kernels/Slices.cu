// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Work on owned slices: masters to parameters, reduced gradients to f32, the
// gradient norm, the sum of losses. Every sum has a fixed order.

#include "Device.cuh"
#include "Shapes.h"
#include "shardonnx/runtime/GatherCodes.h"

namespace shardonnx::rt::cuda {
namespace {

__device__ bool packed(const void *address) {
  return (reinterpret_cast<uintptr_t>(address) & 15) == 0;
}

// body.pack(i) or body.one(i) for all of [0, count).
template <typename Body>
__device__ void forEach(int64_t count, bool packs, Body body) {
  int64_t first = int64_t(blockIdx.x) * kSliceThreads + threadIdx.x;
  int64_t step = int64_t(gridDim.x) * kSliceThreads;
  int64_t whole = packs ? count / kPack : 0;
#pragma unroll 2
  for (int64_t i = first; i < whole; i += step)
    body.pack(i * kPack);
  for (int64_t i = whole * kPack + first; i < count; i += step)
    body.one(i);
}

template <int32_t To> struct CastSlice {
  const float *from;
  Stored<To> *to;
  __device__ void pack(int64_t i) const {
    storePack<To>(to + i, loadPack<SHX_F32>(from + i));
  }
  __device__ void one(int64_t i) const { to[i] = Float<To>::narrow(from[i]); }
};

// to[i] (+)= Σ from[s · stride + i] over slices s, in their order.
template <int32_t From> struct SumSlices {
  const Stored<From> *from;
  float *to;
  int64_t stride;
  int32_t slices;
  bool accumulate;
  __device__ void pack(int64_t i) const {
    Pack sum = accumulate ? loadPack<SHX_F32>(to + i) : Pack{};
    for (int32_t s = 0; s < slices; ++s) {
      Pack slice = loadPack<From>(from + s * stride + i);
#pragma unroll
      for (int j = 0; j < kPack; ++j)
        sum.x[j] += slice.x[j];
    }
    storePack<SHX_F32>(to + i, sum);
  }
  __device__ void one(int64_t i) const {
    float sum = accumulate ? to[i] : 0.f;
    for (int32_t s = 0; s < slices; ++s)
      sum += Float<From>::widen(from[s * stride + i]);
    to[i] = sum;
  }
};

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

#define SHX_CAST_SLICE(suffix, To)                                             \
  extern "C" __global__ void __launch_bounds__(kSliceThreads)                  \
      shx_k_cast_slice_##suffix(const float *from, void *to, int64_t count) {  \
    forEach(count, packed(from) && packed(to),                                 \
            CastSlice<To>{from, typed<To>(to)});                               \
  }
SHX_FOR_FLOATS(SHX_CAST_SLICE)

// stride is a multiple of 8 or there is one slice.
#define SHX_SUM_SLICES(suffix, From)                                           \
  extern "C" __global__ void __launch_bounds__(kSliceThreads)                  \
      shx_k_sum_slices_##suffix(const void *from, float *to, int64_t count,    \
                                int64_t stride, int32_t slices,                \
                                int32_t accumulate) {                          \
    bool packs =                                                               \
        packed(from) && packed(to) && (slices == 1 || stride % kPack == 0);    \
    forEach(count, packs,                                                      \
            SumSlices<From>{typed<From>(from), to, stride, slices,             \
                            accumulate != 0});                                 \
  }
SHX_FOR_FLOATS(SHX_SUM_SLICES)

// to[i] (+)= from[i], and sums[b] = Σ to² over the b-th kSquaresChunk elements.
template <int32_t From>
__device__ void sumAndSquares(const Stored<From> *from, float *to, double *sums,
                              int64_t count, bool accumulate) {
  __shared__ double shared[kWarp];
  int64_t begin = blockIdx.x * kSquaresChunk;
  int64_t length = min(kSquaresChunk, count - begin);
  from += begin;
  to += begin;
  double sum = 0;
  auto add = [&sum](float value) { sum += double(value) * double(value); };
  int64_t whole = packed(from) && packed(to) ? length / kPack : 0;
#pragma unroll 2
  for (int64_t i = threadIdx.x; i < whole; i += kSliceThreads) {
    Pack pack = loadPack<From>(from + i * kPack);
    if (accumulate) {
      Pack before = loadPack<SHX_F32>(to + i * kPack);
#pragma unroll
      for (int j = 0; j < kPack; ++j)
        pack.x[j] += before.x[j];
    }
    storePack<SHX_F32>(to + i * kPack, pack);
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      add(pack.x[j]);
  }
  for (int64_t i = whole * kPack + threadIdx.x; i < length;
       i += kSliceThreads) {
    float value = Float<From>::widen(from[i]);
    to[i] = accumulate ? to[i] + value : value;
    add(to[i]);
  }
  sum = blockSum(sum, shared);
  if (threadIdx.x == 0)
    sums[blockIdx.x] = sum;
}

#define SHX_SUM_AND_SQUARES(suffix, From)                                      \
  extern "C" __global__ void __launch_bounds__(kSliceThreads)                  \
      shx_k_sum_slices_and_squares_##suffix(const void *from, float *to,       \
                                            double *sums, int64_t count,       \
                                            int32_t accumulate) {              \
    sumAndSquares<From>(typed<From>(from), to, sums, count, accumulate != 0);  \
  }
SHX_FOR_FLOATS(SHX_SUM_AND_SQUARES)

// sums[b] = Σ x² over the b-th kSquaresChunk elements, in double.
extern "C" __global__ void __launch_bounds__(kSliceThreads)
    shx_k_squares(const float *x, double *sums, int64_t count) {
  __shared__ double shared[kWarp];
  int64_t begin = blockIdx.x * kSquaresChunk;
  int64_t length = min(kSquaresChunk, count - begin);
  const float *from = x + begin;
  double sum = 0;
  auto add = [&sum](float value) { sum += double(value) * double(value); };
  int64_t whole = packed(from) ? length / 4 : 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < whole; i += kSliceThreads) {
    float4 four = reinterpret_cast<const float4 *>(from)[i];
    add(four.x);
    add(four.y);
    add(four.z);
    add(four.w);
  }
  for (int64_t i = whole * 4 + threadIdx.x; i < length; i += kSliceThreads)
    add(from[i]);
  sum = blockSum(sum, shared);
  if (threadIdx.x == 0)
    sums[blockIdx.x] = sum;
}

// *largest = the larger of it and of |x|, as bits, whose order is that of what
// is never negative; NaN is beyond all. Few blocks find something larger than
// what is there, and only these wait for the others.
template <int32_t From>
__device__ void joinLargest(const Stored<From> *x, uint32_t *largest,
                            int64_t count, bool toBF16) {
  uint32_t mine = 0;
  auto take = [&mine](float value) {
    mine = max(mine, __float_as_uint(value) & 0x7fffffffu);
  };
  int64_t first = int64_t(blockIdx.x) * kSliceThreads + threadIdx.x;
  int64_t step = int64_t(gridDim.x) * kSliceThreads;
  int64_t whole = packed(x) ? count / kPack : 0;
#pragma unroll 2
  for (int64_t i = first; i < whole; i += step) {
    Pack pack = loadPack<From>(x + i * kPack);
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      take(pack.x[j]);
  }
  for (int64_t i = whole * kPack + first; i < count; i += step)
    take(Float<From>::widen(x[i]));
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    mine = max(mine, __shfl_xor_sync(kAllLanes, mine, distance));
  // The largest of what is rounded is the largest, rounded.
  if (toBF16)
    mine = __float_as_uint(
        Float<SHX_BF16>::widen(Float<SHX_BF16>::narrow(__uint_as_float(mine))));
  if (lane() == 0 && mine > *static_cast<volatile uint32_t *>(largest))
    atomicMax(largest, mine);
}

#define SHX_LARGEST(suffix, From)                                              \
  extern "C" __global__ void __launch_bounds__(kSliceThreads)                  \
      shx_k_largest_##suffix(const void *x, uint32_t *largest, int64_t count,  \
                             int32_t toBF16) {                                 \
    joinLargest<From>(typed<From>(x), largest, count, toBF16 != 0);            \
  }
SHX_FOR_FLOATS(SHX_LARGEST)

// steps[i][0] = nn.f8_step e4m3 of each largest value: the least power of two
// that 448 times is no less, at least that of 1e-12; what is not finite stays
// so.
extern "C" __global__ void __launch_bounds__(kSliceThreads)
    shx_k_f8_steps(const float *largest, float *steps, int64_t count) {
  int64_t i = int64_t(blockIdx.x) * kSliceThreads + threadIdx.x;
  if (i >= count)
    return;
  constexpr uint32_t kOne = 1u << 23, kExponent = 0x7f800000u;
  uint32_t bits = __float_as_uint(largest[i]);
  if (bits < kExponent) {
    // 448 is 1.75 times a power: a quarter more carries into the exponent.
    bits = __float_as_uint(fmaxf(largest[i], 1e-12f)) + (kOne / 4 - 1);
    bits = (bits & kExponent) - 8 * kOne;
  }
  steps[i * SHX_STEP_STRIDE] = __uint_as_float(bits);
}

namespace shardonnx::rt::cuda {
namespace {

// e4m3 of x in bf16 over the step, a power of two.
template <int32_t From> struct CastToCodes {
  const Stored<From> *from;
  uint8_t *to;
  float inverse;
  __device__ uint32_t code(float x) const {
    x = Float<SHX_BF16>::widen(Float<SHX_BF16>::narrow(x));
    return codeOfRounded(true, roundToCode(true, x, inverse));
  }
  __device__ void pack(int64_t i) const {
    Pack pack = loadPack<From>(from + i);
    uint32_t words[2] = {0, 0};
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      words[j / 4] |= code(pack.x[j]) << 8 * (j % 4);
    *reinterpret_cast<uint2 *>(to + i) = make_uint2(words[0], words[1]);
  }
  __device__ void one(int64_t i) const {
    to[i] = uint8_t(code(Float<From>::widen(from[i])));
  }
};

} // namespace
} // namespace shardonnx::rt::cuda

// A step that is not finite says what there is.
#define SHX_CAST_TO_CODES(suffix, From)                                        \
  extern "C" __global__ void __launch_bounds__(kSliceThreads)                  \
      shx_k_cast_to_codes_##suffix(const void *from, const float *step,        \
                                   uint8_t *to, int64_t count) {               \
    float inverse = shardonnx::gatherInverse(__float_as_uint(*step) >> 23);    \
    forEach(count, packed(from) && packed(to),                                 \
            CastToCodes<From>{typed<From>(from), to, inverse});                \
  }
SHX_FOR_FLOATS(SHX_CAST_TO_CODES)

// *sum = Σ values. One block.
extern "C" __global__ void __launch_bounds__(kFinishThreads)
    shx_k_sum_doubles(const double *values, int64_t count, double *sum) {
  __shared__ double shared[kWarp];
  double mine = 0;
  for (int64_t i = threadIdx.x; i < count; i += kFinishThreads)
    mine += values[i];
  mine = blockSum(mine, shared);
  if (threadIdx.x == 0)
    *sum = mine;
}

// From every rank's sum of squares of gradients that have the loss scale, whose
// inverse is in SHX_CLIP: the norm without it; times SHX_CLIP the factor that
// torch.nn.utils.clip_grad_norm_ takes, min(1, limit / (norm + 1e-6)), 1 when
// limit is 0; and whether to skip the step. Both arrays of scalars get the
// last two. One thread.
extern "C" __global__ void shx_k_norm_finish(const double *squares,
                                             int32_t ranks, double limit,
                                             double *norm, float *scalars,
                                             float *scalarsWithoutDecay) {
  double sum = 0;
  for (int32_t r = 0; r < ranks; ++r)
    sum += squares[r];
  double unscale = scalars[SHX_CLIP];
  double root = sqrt(sum) * unscale;
  double ratio = limit / (root + 1e-6);
  double factor = limit > 0 && ratio < 1 ? ratio : 1;
  *norm = root;
  scalars[SHX_CLIP] = scalarsWithoutDecay[SHX_CLIP] = float(factor * unscale);
  scalars[SHX_SKIP] = scalarsWithoutDecay[SHX_SKIP] = isfinite(root) ? 0 : 1;
}

// *sum += *loss, or = *loss. One thread.
extern "C" __global__ void shx_k_loss_add(const float *loss, double *sum,
                                          int32_t accumulate) {
  *sum = accumulate ? *sum + double(*loss) : double(*loss);
}
