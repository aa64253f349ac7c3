// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_unpack: a thread decodes eight elements, which have one scale but in
// int8, whose rows may end among them. The kernels are nvcc's, their launch is
// the C++ compiler's.

#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Packing.h"

namespace shardonnx::rt::cuda {
constexpr int kUnpackThreads = 256;
constexpr int kUnpacked = 8; // elements of a thread

// What the host knows of the weight.
struct UnpackPlan {
  PackedLayout layout;
  int64_t elements, columns, mean; // which f32 is the mean of the scales
  int32_t packing;
};
} // namespace shardonnx::rt::cuda

#ifdef __CUDACC__

#include "../kernels/Device.cuh"

namespace shardonnx::rt::cuda {
namespace {

__constant__ NF4Table nf4Table = NF4Table();
__constant__ DynamicMap dynamicMap = DynamicMap();

__device__ float scaleAt(const UnpackPlan &p, const uint8_t *packed,
                         int64_t index) {
  return reinterpret_cast<const float *>(packed + p.layout.scales)[index];
}

// A block's, in two roundings as on the host.
__device__ float blockScale(const UnpackPlan &p, const uint8_t *packed,
                            int64_t block) {
  float part = dynamicMap.values[packed[p.layout.blockScales + block]];
  float group = scaleAt(p, packed, block / kPackedGroup);
  return __fadd_rn(__fmul_rn(part, group), scaleAt(p, packed, p.mean));
}

template <Packing Kind>
__device__ float decodeAt(const UnpackPlan &p, const uint8_t *packed,
                          const float *table, float scale, int64_t i) {
  if constexpr (Kind == Packing::BF16) {
    return Float<SHX_BF16>::widen(
        reinterpret_cast<const uint16_t *>(packed)[i]);
  } else if constexpr (Kind == Packing::Int8) {
    float row = scaleAt(p, packed, i / p.columns);
    return __fmul_rn(__fmul_rn(float(int8_t(packed[i])), row), kPackedInt8Step);
  } else {
    unsigned byte = packed[i / 2];
    return __fmul_rn(table[i % 2 ? byte & 15 : byte >> 4], scale);
  }
}

// Eight from `begin` on, which lie together.
template <Packing Kind>
__device__ Pack decodePack(const UnpackPlan &p, const uint8_t *packed,
                           const float *table, float scale, int64_t begin) {
  Pack pack;
  if constexpr (Kind == Packing::BF16) {
    pack =
        loadPack<SHX_BF16>(reinterpret_cast<const uint16_t *>(packed) + begin);
  } else if constexpr (Kind == Packing::NF4) {
    uint32_t word = *reinterpret_cast<const uint32_t *>(packed + begin / 2);
#pragma unroll
    for (int i = 0; i < kUnpacked; ++i)
      pack.x[i] =
          __fmul_rn(table[word >> (i % 2 ? 4 * i - 4 : 4 * i + 4) & 15], scale);
  } else {
    uint2 words = *reinterpret_cast<const uint2 *>(packed + begin);
    int64_t row = begin / p.columns;
    bool together = begin + kUnpacked <= (row + 1) * p.columns;
    scale = scaleAt(p, packed, row);
#pragma unroll
    for (int i = 0; i < kUnpacked; ++i) {
      uint32_t word = i < 4 ? words.x : words.y;
      if (!together)
        scale = scaleAt(p, packed, (begin + i) / p.columns);
      pack.x[i] =
          __fmul_rn(__fmul_rn(float(int8_t(word >> 8 * (i % 4))), scale),
                    kPackedInt8Step);
    }
  }
  return pack;
}

template <Packing Kind, int32_t Type>
__device__ void unpackTo(const UnpackPlan &p, const uint8_t *packed,
                         const float *table, Stored<Type> *to) {
  int64_t begin =
      (int64_t(blockIdx.x) * kUnpackThreads + threadIdx.x) * kUnpacked;
  if (begin >= p.elements)
    return;
  float scale = 0;
  if constexpr (Kind == Packing::NF4)
    scale = blockScale(p, packed, begin / kPackedBlock);
  if (begin + kUnpacked <= p.elements)
    return storePack<Type>(to + begin,
                           decodePack<Kind>(p, packed, table, scale, begin));
  for (int64_t i = begin; i < p.elements; ++i)
    to[i] = Float<Type>::narrow(decodeAt<Kind>(p, packed, table, scale, i));
}

template <int32_t Type>
__device__ void unpack(const UnpackPlan &p, const void *from, void *to) {
  __shared__ float table[16];
  if (threadIdx.x < 16)
    table[threadIdx.x] = nf4Table.values[threadIdx.x];
  __syncthreads();
  auto *packed = static_cast<const uint8_t *>(from);
  auto *values = static_cast<Stored<Type> *>(to);
  if (Packing(p.packing) == Packing::NF4)
    unpackTo<Packing::NF4, Type>(p, packed, table, values);
  else if (Packing(p.packing) == Packing::Int8)
    unpackTo<Packing::Int8, Type>(p, packed, table, values);
  else
    unpackTo<Packing::BF16, Type>(p, packed, table, values);
}

} // namespace
} // namespace shardonnx::rt::cuda

#define SHX_UNPACK(suffix, Type)                                               \
  extern "C" __global__ void __launch_bounds__(                                \
      shardonnx::rt::cuda::kUnpackThreads)                                     \
      shx_k_unpack_##suffix(shardonnx::rt::cuda::UnpackPlan p,                 \
                            const void *packed, void *to) {                    \
    shardonnx::rt::cuda::unpack<Type>(p, packed, to);                          \
  }
SHX_FOR_FLOATS(SHX_UNPACK)

#else

#include "../launch/Launch.h"

using namespace shardonnx::rt::cuda;

void shx_unpack(ShxContext *ctx, const ShxUnpack *desc, const void *packed,
                void *to) {
  static constexpr const char *names[] = {
      "shx_k_unpack_f32", "shx_k_unpack_bf16", "shx_k_unpack_f16"};
  UnpackPlan plan = {
      shardonnx::packedLayout(static_cast<shardonnx::Packing>(desc->packing),
                              desc->rows, desc->columns),
      desc->rows * desc->columns, desc->columns,
      shardonnx::groupsOf(desc->rows * desc->columns), desc->packing};
  launch(contextOf(ctx), names[desc->dtype],
         blocksFor(plan.elements, kUnpackThreads * kUnpacked), kUnpackThreads,
         0, plan, packed, to);
}

#endif
