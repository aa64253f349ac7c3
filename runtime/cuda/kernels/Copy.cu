// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Strided copies: of units of 1 to 16 bytes as they are, of floats with
// conversion, of anything element by element, and transpositions through tiles
// in shared memory. Copy.cpp chooses.

#include "Device.cuh"
#include "Shapes.h"

namespace shardonnx::rt::cuda {
namespace {

__device__ uint32_t quotient(uint32_t x, const Divisor &d) {
  return (__umulhi(x, d.factor) + x) >> d.shift;
}

struct Place {
  int64_t src, dst;
};
// The outermost dim needs no division.
__device__ Place locate(const CopyShape &shape, uint32_t at) {
  Place place{0, 0};
#pragma unroll
  for (int d = 0; d < SHX_MAX_RANK; ++d) {
    if (d >= shape.rank)
      break;
    uint32_t rest = d + 1 < shape.rank ? quotient(at, shape.dims[d]) : 0;
    int64_t here = at - rest * shape.dims[d].value;
    place.src += here * shape.srcStride[d];
    place.dst += here * shape.dstStride[d];
    at = rest;
  }
  return place;
}

// All loads come before the stores, so that they are under way at once.
template <typename Unit>
__device__ void copyUnits(const CopyShape &shape, const Unit *__restrict__ src,
                          Unit *__restrict__ dst, int64_t count) {
  int64_t first =
      int64_t(blockIdx.x) * (kCopyThreads * kCopyEach) + threadIdx.x;
  Unit units[kCopyEach];
  int64_t to[kCopyEach];
#pragma unroll
  for (int k = 0; k < kCopyEach; ++k) {
    int64_t i = first + k * kCopyThreads;
    if (i >= count)
      continue;
    Place place = locate(shape, uint32_t(i));
    units[k] = src[place.src];
    to[k] = place.dst;
  }
#pragma unroll
  for (int k = 0; k < kCopyEach; ++k)
    if (first + k * kCopyThreads < count)
      dst[to[k]] = units[k];
}

__device__ Pack loadAny(int32_t dtype, const void *from, int64_t at) {
  switch (dtype) {
  case SHX_BF16:
    return loadPack<SHX_BF16>(typed<SHX_BF16>(from, at));
  case SHX_F16:
    return loadPack<SHX_F16>(typed<SHX_F16>(from, at));
  default:
    return loadPack<SHX_F32>(typed<SHX_F32>(from, at));
  }
}

__device__ void storeAny(int32_t dtype, void *to, int64_t at,
                         const Pack &pack) {
  switch (dtype) {
  case SHX_BF16:
    return storePack<SHX_BF16>(typed<SHX_BF16>(to, at), pack);
  case SHX_F16:
    return storePack<SHX_F16>(typed<SHX_F16>(to, at), pack);
  default:
    return storePack<SHX_F32>(typed<SHX_F32>(to, at), pack);
  }
}

// Integers of any size convert to floats through the nearest f32, as the CPU's
// copies do.
__device__ float floatElement(int32_t dtype, const void *from, int64_t at) {
  switch (dtype) {
  case SHX_BF16:
    return Float<SHX_BF16>::widen(*typed<SHX_BF16>(from, at));
  case SHX_F16:
    return Float<SHX_F16>::widen(*typed<SHX_F16>(from, at));
  case SHX_I64:
    return float(static_cast<const int64_t *>(from)[at]);
  case SHX_I32:
    return float(static_cast<const int32_t *>(from)[at]);
  case SHX_I1:
    return float(static_cast<const uint8_t *>(from)[at]);
  default:
    return static_cast<const float *>(from)[at];
  }
}

__device__ int64_t integerElement(int32_t dtype, const void *from, int64_t at) {
  switch (dtype) {
  case SHX_I64:
    return static_cast<const int64_t *>(from)[at];
  case SHX_I32:
    return static_cast<const int32_t *>(from)[at];
  case SHX_I1:
    return static_cast<const uint8_t *>(from)[at];
  default:
    return int64_t(floatElement(dtype, from, at));
  }
}

__device__ void copyElement(const CopyShape &shape, const void *src, void *dst,
                            Place place) {
  float value;
  switch (shape.dstDtype) {
  case SHX_I64:
    static_cast<int64_t *>(dst)[place.dst] =
        integerElement(shape.srcDtype, src, place.src);
    return;
  case SHX_I32:
    static_cast<int32_t *>(dst)[place.dst] =
        int32_t(integerElement(shape.srcDtype, src, place.src));
    return;
  case SHX_I1:
    static_cast<uint8_t *>(dst)[place.dst] =
        shape.srcDtype == SHX_I64
            ? integerElement(SHX_I64, src, place.src) != 0
            : floatElement(shape.srcDtype, src, place.src) != 0;
    return;
  default:
    value = floatElement(shape.srcDtype, src, place.src);
    if (shape.accumulate)
      value += floatElement(shape.dstDtype, dst, place.dst);
  }
  if (shape.dstDtype == SHX_F32)
    *typed<SHX_F32>(dst, place.dst) = value;
  else if (shape.dstDtype == SHX_BF16)
    *typed<SHX_BF16>(dst, place.dst) = Float<SHX_BF16>::narrow(value);
  else
    *typed<SHX_F16>(dst, place.dst) = Float<SHX_F16>::narrow(value);
}

// 16 bytes as elements; a union of both would be copied piecewise.
template <typename Element> struct Vector {
  static constexpr int kCount = 16 / sizeof(Element);
  Element x[kCount];
  __device__ void load(const Element *from) {
    uint4 bits = *reinterpret_cast<const uint4 *>(from);
    const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      x[j] = Element(words[j * 4 / kCount] >> (j * 32 / (kCount / 4)) % 32);
  }
  __device__ void store(Element *to) const {
    uint32_t words[4] = {};
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      words[j * 4 / kCount] |= uint32_t(x[j]) << (j * 32 / (kCount / 4)) % 32;
    // The compiler would break up an assignment here.
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(
                     __cvta_generic_to_global(to)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  }
};

// A tile of src[wide][tall] becomes one of dst[tall][wide]. A row of the tile
// in shared memory is 4 bytes longer, so that columns lie in different banks.
template <typename Element>
__device__ void transpose(const TransposeShape &shape,
                          const Element *__restrict__ src,
                          Element *__restrict__ dst) {
  constexpr int kVector = Vector<Element>::kCount;
  constexpr int kVectors = kTransposeTile / kVector; // of a row of the tile
  __shared__ Element tile[kTransposeTile][kTransposeTile + 4 / sizeof(Element)];
  uint32_t rows = quotient(blockIdx.x, shape.tilesWide);
  uint32_t outer = quotient(rows, shape.tilesTall);
  int64_t wide =
      int64_t(blockIdx.x - rows * shape.tilesWide.value) * kTransposeTile;
  int64_t tall = int64_t(rows - outer * shape.tilesTall.value) * kTransposeTile;
  Place place = locate(shape.outer, outer);
  src += place.src + wide * shape.wideStride + tall;
  dst += place.dst + tall * shape.tallStride + wide;
  int64_t wides = shape.wide - wide, talls = shape.tall - tall;
#pragma unroll
  for (int i = int(threadIdx.x); i < kTransposeTile * kVectors;
       i += kCopyThreads) {
    int w = i / kVectors, t = i % kVectors * kVector;
    if (w >= wides)
      continue;
    const Element *from = src + w * shape.wideStride + t;
    if (shape.vectors && t + kVector <= talls) {
      Vector<Element> vector;
      vector.load(from);
#pragma unroll
      for (int j = 0; j < kVector; ++j)
        tile[w][t + j] = vector.x[j];
    } else {
#pragma unroll 1
      for (int j = 0; j < kVector && t + j < talls; ++j)
        tile[w][t + j] = from[j];
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = int(threadIdx.x); i < kTransposeTile * kVectors;
       i += kCopyThreads) {
    int t = i / kVectors, w = i % kVectors * kVector;
    if (t >= talls)
      continue;
    Element *to = dst + t * shape.tallStride + w;
    if (shape.vectors && w + kVector <= wides) {
      Vector<Element> vector;
#pragma unroll
      for (int j = 0; j < kVector; ++j)
        vector.x[j] = tile[w + j][t];
      vector.store(to);
    } else {
#pragma unroll 1
      for (int j = 0; j < kVector && w + j < wides; ++j)
        to[j] = tile[w + j][t];
    }
  }
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

#define SHX_COPY(bytes, Unit)                                                  \
  extern "C" __global__ void __launch_bounds__(kCopyThreads)                   \
      shx_k_copy_##bytes(CopyShape shape, const void *src, void *dst,          \
                         int64_t count) {                                      \
    copyUnits(shape, static_cast<const Unit *>(src), static_cast<Unit *>(dst), \
              count);                                                          \
  }
SHX_COPY(1, uint8_t)
SHX_COPY(2, uint16_t)
SHX_COPY(4, uint32_t)
SHX_COPY(8, uint2)
SHX_COPY(16, uint4)

// Floats in packs: units are packs, strides are elements.
extern "C" __global__ void __launch_bounds__(kCopyThreads)
    shx_k_copy_packs(CopyShape shape, const void *src, void *dst,
                     int64_t count) {
  int64_t first =
      int64_t(blockIdx.x) * (kCopyThreads * kCopyEach) + threadIdx.x;
#pragma unroll 2
  for (int k = 0; k < kCopyEach; ++k) {
    int64_t i = first + k * kCopyThreads;
    if (i >= count)
      return;
    Place place = locate(shape, uint32_t(i));
    Pack pack = loadAny(shape.srcDtype, src, place.src);
    if (shape.accumulate) {
      Pack old = loadAny(shape.dstDtype, dst, place.dst);
#pragma unroll
      for (int j = 0; j < kPack; ++j)
        pack.x[j] += old.x[j];
    }
    storeAny(shape.dstDtype, dst, place.dst, pack);
  }
}

extern "C" __global__ void __launch_bounds__(kCopyThreads)
    shx_k_copy_elements(CopyShape shape, const void *src, void *dst,
                        int64_t count) {
  int64_t first =
      int64_t(blockIdx.x) * (kCopyThreads * kCopyEach) + threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < kCopyEach; ++k) {
    int64_t i = first + k * kCopyThreads;
    if (i < count)
      copyElement(shape, src, dst, locate(shape, uint32_t(i)));
  }
}

#define SHX_TRANSPOSE(bytes, Element)                                          \
  extern "C" __global__ void __launch_bounds__(kCopyThreads)                   \
      shx_k_transpose_##bytes(TransposeShape shape, const void *src,           \
                              void *dst) {                                     \
    transpose(shape, static_cast<const Element *>(src),                        \
              static_cast<Element *>(dst));                                    \
  }
SHX_TRANSPOSE(2, uint16_t)
SHX_TRANSPOSE(4, uint32_t)
