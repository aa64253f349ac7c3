// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the runtime's CUDA kernels share: floats of any type in memory and f32
// in registers, 16 bytes at a time; sums over a block in an order that does
// not depend on the run.

#ifndef SHARDONNX_RUNTIME_CUDA_KERNELS_DEVICE_CUH
#define SHARDONNX_RUNTIME_CUDA_KERNELS_DEVICE_CUH

#include "shardonnx/runtime/ABI.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace shardonnx::rt::cuda {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarp = 32;

template <int32_t Type> struct Float;
template <> struct Float<SHX_F32> {
  using Stored = float;
  static __device__ float widen(float x) { return x; }
  static __device__ float narrow(float x) { return x; }
};
template <> struct Float<SHX_BF16> {
  using Stored = uint16_t;
  static __device__ float widen(uint16_t x) {
    return __uint_as_float(uint32_t(x) << 16);
  }
  static __device__ uint16_t narrow(float x) {
    return __bfloat16_as_ushort(__float2bfloat16_rn(x));
  }
  static __device__ uint32_t narrowTwo(float low, float high) {
    uint32_t result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
  }
};
template <> struct Float<SHX_F16> {
  using Stored = uint16_t;
  static __device__ float widen(uint16_t x) {
    return __half2float(__ushort_as_half(x));
  }
  static __device__ uint16_t narrow(float x) {
    return __half_as_ushort(__float2half_rn(x));
  }
  static __device__ uint32_t narrowTwo(float low, float high) {
    uint32_t result;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
  }
};

template <int32_t Type> using Stored = typename Float<Type>::Stored;

template <int32_t Type>
__device__ const Stored<Type> *typed(const void *from, int64_t at = 0) {
  return static_cast<const Stored<Type> *>(from) + at;
}
template <int32_t Type>
__device__ Stored<Type> *typed(void *from, int64_t at = 0) {
  return static_cast<Stored<Type> *>(from) + at;
}

/// Values that a thread loads or stores at once: 16 bytes of 16-bit floats, 32
/// bytes of f32.
constexpr int kPack = 8;
struct Pack {
  float x[kPack];
};

/// `from` is a multiple of 16 bytes.
template <int32_t Type> __device__ Pack loadPack(const Stored<Type> *from) {
  Pack pack;
  if constexpr (Type == SHX_F32) {
    float4 low = *reinterpret_cast<const float4 *>(from);
    float4 high = *reinterpret_cast<const float4 *>(from + 4);
    pack = {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
  } else {
    uint4 bits = *reinterpret_cast<const uint4 *>(from);
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pack.x[2 * i] = Float<Type>::widen(uint16_t(words[i] & 0xffff));
      pack.x[2 * i + 1] = Float<Type>::widen(uint16_t(words[i] >> 16));
    }
  }
  return pack;
}

template <int32_t Type>
__device__ void storePack(Stored<Type> *to, const Pack &pack) {
  if constexpr (Type == SHX_F32) {
    float4 *to4 = reinterpret_cast<float4 *>(to);
    to4[0] = make_float4(pack.x[0], pack.x[1], pack.x[2], pack.x[3]);
    to4[1] = make_float4(pack.x[4], pack.x[5], pack.x[6], pack.x[7]);
  } else {
    uint32_t words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = Float<Type>::narrowTwo(pack.x[2 * i], pack.x[2 * i + 1]);
    *reinterpret_cast<uint4 *>(to) =
        make_uint4(words[0], words[1], words[2], words[3]);
  }
}

__device__ inline int64_t indexAt(int32_t dtype, const void *ids, int64_t i) {
  return dtype == SHX_I64 ? static_cast<const int64_t *>(ids)[i]
                          : int64_t(static_cast<const int32_t *>(ids)[i]);
}

/// The place of an index, which counts from the end of its axis when negative;
/// -1 when it is outside. The first such one of a step is kept in `outside`
/// (Cells), which may be null.
__device__ inline int64_t placeWithin(int64_t index, int64_t size,
                                      int64_t *outside) {
  int64_t place = index < 0 ? index + size : index;
  if (place >= 0 && place < size)
    return place;
  auto *found = reinterpret_cast<unsigned long long *>(outside);
  if (found && atomicCAS(found, 0ull, 1ull) == 0) {
    outside[1] = index;
    outside[2] = size;
  }
  return -1;
}

__device__ inline int lane() { return int(threadIdx.x % kWarp); }
__device__ inline int warp() { return int(threadIdx.x / kWarp); }
__device__ inline unsigned lanesBelow() { return (1u << lane()) - 1; }

/// Every lane has the result, added as a tree.
template <typename T> __device__ T warpSum(T value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2)
    value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

/// The sum of the values of all threads of the block, in thread 0. `shared`
/// holds one value per warp; blockDim is a multiple of 32.
template <typename T> __device__ T blockSum(T value, T *shared) {
  value = warpSum(value);
  if (lane() == 0)
    shared[warp()] = value;
  __syncthreads();
  T sum = 0;
  if (warp() == 0)
    sum = warpSum(lane() < int(blockDim.x / kWarp) ? shared[lane()] : T(0));
  return sum;
}

/// The sum of the values of the lanes up to this one.
template <typename T> __device__ T warpSumThrough(T value) {
#pragma unroll
  for (int step = 1; step < kWarp; step *= 2) {
    T below = __shfl_up_sync(kAllLanes, value, step);
    value += lane() >= step ? below : T(0);
  }
  return value;
}

/// The sum of the values of the threads of the block before this one. `shared`
/// as for blockSum.
template <typename T> __device__ T blockSumBefore(T value, T *shared) {
  T through = warpSumThrough(value);
  if (lane() == kWarp - 1)
    shared[warp()] = through;
  __syncthreads();
  T before = through - value;
  for (int w = 0; w < warp(); ++w)
    before += shared[w];
  return before;
}

} // namespace shardonnx::rt::cuda

/// KERNEL for each type of one float operand, and for each pair that programs
/// have: a kernel's name ends in the types' names.
#define SHX_FOR_FLOATS(KERNEL)                                                 \
  KERNEL(f32, SHX_F32)                                                         \
  KERNEL(bf16, SHX_BF16)                                                       \
  KERNEL(f16, SHX_F16)
#define SHX_FOR_FLOAT_PAIRS(KERNEL)                                            \
  KERNEL(f32_f32, SHX_F32, SHX_F32)                                            \
  KERNEL(f32_bf16, SHX_F32, SHX_BF16)                                          \
  KERNEL(f32_f16, SHX_F32, SHX_F16)                                            \
  KERNEL(bf16_f32, SHX_BF16, SHX_F32)                                          \
  KERNEL(bf16_bf16, SHX_BF16, SHX_BF16)                                        \
  KERNEL(f16_f32, SHX_F16, SHX_F32)                                            \
  KERNEL(f16_f16, SHX_F16, SHX_F16)

#endif // SHARDONNX_RUNTIME_CUDA_KERNELS_DEVICE_CUH
