// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_f8_cast: tiles of a matrix, read once, written as they are and
// transposed through shared memory. The kernels are nvcc's, their launch is the
// C++ compiler's.

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt::cuda {
constexpr int kF8Threads = 256;
constexpr int kF8Tile = 64; // rows and columns
} // namespace shardonnx::rt::cuda

#ifdef __CUDACC__

#include "../kernels/Device.cuh"

namespace shardonnx::rt::cuda {
namespace {

constexpr int kF8Stride = kF8Tile + 4; // of a tile's rows: other banks
constexpr int kF8Packs = kF8Tile / kPack, kF8Run = 16;

#if __CUDA_ARCH__ < 890
// A format: mantissa bits, the exponent's bias, and the largest number.
template <int32_t Type> struct F8Format;
template <> struct F8Format<SHX_F8E4M3> {
  static constexpr int kMantissa = 3, kBias = 7;
  static constexpr float kLargest = 448;
};
template <> struct F8Format<SHX_F8E5M2> {
  static constexpr int kMantissa = 2, kBias = 15;
  static constexpr float kLargest = 57344;
};

// To nearest even, at most the largest. The PTX that the driver compiles for
// other GPUs than Hopper has it.
template <int32_t Type> __device__ uint32_t roundByBits(float y) {
  using Format = F8Format<Type>;
  constexpr int kMantissa = Format::kMantissa, kShift = 23 - kMantissa;
  constexpr float kLeast = 2.0f / float(1 << Format::kBias); // normal number
  uint32_t sign = __float_as_uint(y) >> 24 & 0x80;
  float size = fabsf(y);
  if (isnan(y))
    return 0x7f;
  size = fminf(size, Format::kLargest);
  if (size < kLeast) // counts units of the smallest number
    return sign | uint32_t(__float2int_rn(size / kLeast * (1 << kMantissa)));
  uint32_t bits = __float_as_uint(size);
  bits += (1u << (kShift - 1)) - 1 + (bits >> kShift & 1);
  return sign |
         ((bits >> kShift) - (uint32_t(127 - Format::kBias) << kMantissa));
}
#endif

template <int32_t Type> __device__ uint32_t roundTwo(float low, float high) {
#if __CUDA_ARCH__ >= 890
  uint16_t result;
  if constexpr (Type == SHX_F8E4M3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
        : "=h"(result)
        : "f"(high), "f"(low));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;"
        : "=h"(result)
        : "f"(high), "f"(low));
  return result;
#else
  return roundByBits<Type>(low) | roundByBits<Type>(high) << 8;
#endif
}

// 1 / step, exactly: a power of two. Of an infinite one, an infinity.
__device__ float inverseOf(float step) {
  return __uint_as_float((254u << 23) - __float_as_uint(step));
}

template <int32_t From, int32_t Type>
__device__ void castTile(const ShxF8Cast &d, const void *x, const float *step,
                         uint8_t *rows, uint8_t *columns) {
  __shared__ uint32_t tile[kF8Tile * kF8Stride / 4];
  int64_t firstRow = int64_t(blockIdx.y) * kF8Tile;
  int64_t firstColumn = int64_t(blockIdx.x) * kF8Tile;
  int at = int(threadIdx.x) % kF8Packs * kPack;
  int64_t column = firstColumn + at;
  for (int r = int(threadIdx.x) / kF8Packs; r < kF8Tile;
       r += kF8Threads / kF8Packs) {
    int64_t row = firstRow + r;
    if (row >= d.rows || column >= d.columns)
      break;
    Pack pack = loadPack<From>(typed<From>(x, row * d.ldx + column));
    uint32_t words[2];
#pragma unroll
    for (int i = 0; i < kPack; i += 2) {
      const float *here = step + row * d.rowStep + (column + i) * d.columnStep;
      float low = pack.x[i] * inverseOf(here[0]);
      float high = pack.x[i + 1] * inverseOf(here[d.columnStep]);
      uint32_t two = roundTwo<Type>(low, high);
      words[i / 4] = i % 4 ? words[i / 4] | two << 16 : two;
    }
    if (rows)
      *reinterpret_cast<uint2 *>(rows + row * d.ldRows + column) =
          make_uint2(words[0], words[1]);
    tile[(r * kF8Stride + at) / 4] = words[0];
    tile[(r * kF8Stride + at) / 4 + 1] = words[1];
  }
  if (!columns)
    return;
  __syncthreads();
  auto *bytes = reinterpret_cast<const uint8_t *>(tile);
  int run = int(threadIdx.x) % (kF8Tile / kF8Run) * kF8Run;
  int c = int(threadIdx.x) / (kF8Tile / kF8Run);
  if (firstRow + run >= d.rows || firstColumn + c >= d.columns)
    return;
  uint32_t words[kF8Run / 4] = {};
#pragma unroll
  for (int i = 0; i < kF8Run; ++i)
    words[i / 4] |= uint32_t(bytes[(run + i) * kF8Stride + c]) << i % 4 * 8;
  *reinterpret_cast<uint4 *>(columns + (firstColumn + c) * d.ldColumns +
                             firstRow + run) =
      make_uint4(words[0], words[1], words[2], words[3]);
}

} // namespace
} // namespace shardonnx::rt::cuda

#define SHX_F8_CAST(suffix, From, Type)                                        \
  extern "C" __global__ void __launch_bounds__(                                \
      shardonnx::rt::cuda::kF8Threads)                                         \
      shx_k_f8_cast_##suffix(ShxF8Cast desc, const void *x, const float *step, \
                             uint8_t *rows, uint8_t *columns) {                \
    shardonnx::rt::cuda::castTile<From, Type>(desc, x, step, rows, columns);   \
  }
SHX_F8_CAST(f32_e4m3, SHX_F32, SHX_F8E4M3)
SHX_F8_CAST(f32_e5m2, SHX_F32, SHX_F8E5M2)
SHX_F8_CAST(bf16_e4m3, SHX_BF16, SHX_F8E4M3)
SHX_F8_CAST(bf16_e5m2, SHX_BF16, SHX_F8E5M2)

#else

#include "../launch/Launch.h"

using namespace shardonnx::rt::cuda;

void shx_f8_cast(ShxContext *ctx, const ShxF8Cast *desc, const void *x,
                 const float *step, void *rows, void *columns) {
  static constexpr const char *names[2][2] = {
      {"shx_k_f8_cast_f32_e4m3", "shx_k_f8_cast_f32_e5m2"},
      {"shx_k_f8_cast_bf16_e4m3", "shx_k_f8_cast_bf16_e5m2"}};
  Dim blocks(blocksFor(desc->columns, kF8Tile), blocksFor(desc->rows, kF8Tile));
  launch(contextOf(ctx),
         names[desc->dtypeX == SHX_BF16][desc->dtype == SHX_F8E5M2], blocks,
         kF8Threads, 0, *desc, x, step, static_cast<uint8_t *>(rows),
         static_cast<uint8_t *>(columns));
}

#endif
