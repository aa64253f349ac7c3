// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's tiles of 16-bit floats for the tensor cores: mma.m16n8k16 with
// f32 sums. A warp has 16 rows of a tile of 64. In the result of a product a
// thread has, of rows lane/4 and lane/4 + 8, columns 2·(lane%4) and the next in
// every 8: the same places that the next product wants its left operand in.

#ifndef SHARDONNX_RUNTIME_CUDA_KERNELS_ATTENTIONMMA_CUH
#define SHARDONNX_RUNTIME_CUDA_KERNELS_ATTENTIONMMA_CUH

#include "AttentionTile.cuh"
#include "Mma.cuh"

namespace shardonnx::rt::cuda {

constexpr int kWarpRows = 16;
template <int Dim> constexpr int kHalfPitch = attentionHalfPitch(Dim);

/// Rows × Dim elements of shared memory = `count` rows of a strided operand;
/// what lies beyond them or beyond the head dim is zero.
template <int Rows, int Dim, int Threads>
__device__ void loadHalfTile(uint16_t *tile, const uint16_t *from,
                             int64_t stride, int64_t count, int headDim,
                             bool vectors) {
  constexpr int kQuads = Dim / 4;
  for (int i = int(threadIdx.x); i < Rows * kQuads; i += Threads) {
    int row = i / kQuads, column = i % kQuads * 4;
    uint2 bits = make_uint2(0, 0);
    if (row < count && column < headDim) {
      const uint16_t *at = from + row * stride + column;
      if (vectors) {
        bits = *reinterpret_cast<const uint2 *>(at);
      } else {
        uint32_t x[4];
#pragma unroll
        for (int e = 0; e < 4; ++e)
          x[e] = column + e < headDim ? at[e] : 0;
        bits = make_uint2(x[0] | x[1] << 16, x[2] | x[3] << 16);
      }
    }
    *reinterpret_cast<uint2 *>(tile + row * kHalfPitch<Dim> + column) = bits;
  }
}

/// The same without waiting, where rows begin at multiples of 16 bytes: behind
/// closeCopies() and awaitCopies() the tile is there. Else at once.
template <int Rows, int Dim, int Threads>
__device__ void startHalfTile(uint16_t *tile, const uint16_t *from,
                              int64_t stride, int64_t count, int headDim,
                              int vectors) {
  if (vectors != kAttentionPacks)
    return loadHalfTile<Rows, Dim, Threads>(tile, from, stride, count, headDim,
                                            vectors != 0);
  constexpr int kPacks = Dim / kPack;
#pragma unroll 4
  for (int i = int(threadIdx.x); i < Rows * kPacks; i += Threads) {
    const int row = i / kPacks, column = i % kPacks * kPack;
    const bool inside = row < count && column < headDim;
    copyAsync(tile + row * kHalfPitch<Dim> + column,
              inside ? from + row * stride + column : from, !inside);
  }
}

template <int32_t Type> __device__ uint32_t packed(float low, float high) {
  return uint32_t(Float<Type>::narrow(low)) |
         uint32_t(Float<Type>::narrow(high)) << 16;
}

/// This thread's part of a warp's 16 rows × Width.
template <int Width> struct Fragment {
  float x[Width / 8][4];

  __device__ void clear() {
#pragma unroll
    for (int n = 0; n < Width / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        x[n][e] = 0;
  }

  /// half 0: row lane/4; 1: 8 rows further.
  __device__ void scaleRow(int half, float factor) {
#pragma unroll
    for (int n = 0; n < Width / 8; ++n) {
      x[n][2 * half] *= factor;
      x[n][2 * half + 1] *= factor;
    }
  }

  /// x = rows (16 × depth) · columnsᵀ (Width × depth); depth is a multiple
  /// of 16.
  template <int32_t Type, int Dim>
  __device__ void dot(const uint16_t *rows, const uint16_t *columns,
                      int depth) {
    clear();
    const uint16_t *row =
        rows + lane() % 16 * kHalfPitch<Dim> + lane() / 16 * 8;
    const uint16_t *column = columns +
                             (lane() / 16 * 8 + lane() % 8) * kHalfPitch<Dim> +
                             lane() / 8 % 2 * 8;
    for (int k = 0; k < depth; k += 16) {
      uint32_t a[4];
      loadMatrices<false>(a, row + k);
#pragma unroll
      for (int n = 0; n < Width / 8; n += 2) {
        uint32_t b[4];
        loadMatrices<false>(b, column + n * 8 * kHalfPitch<Dim> + k);
        multiply<Type>(x[n], a, b[0], b[1]);
        multiply<Type>(x[n + 1], a, b[2], b[3]);
      }
    }
  }

  /// x += weights (16 × Depth, rounded to Type) · values (Depth × Width), the
  /// values being columns of rows of Dim.
  template <int32_t Type, int Dim, int Depth>
  __device__ void addProduct(const Fragment<Depth> &weights,
                             const uint16_t *values) {
    const uint16_t *value =
        values + lane() % 16 * kHalfPitch<Dim> + lane() / 16 * 8;
#pragma unroll
    for (int k = 0; k < Depth / 16; ++k) {
      const float (&low)[4] = weights.x[2 * k],
                  (&high)[4] = weights.x[2 * k + 1];
      const uint32_t a[4] = {
          packed<Type>(low[0], low[1]), packed<Type>(low[2], low[3]),
          packed<Type>(high[0], high[1]), packed<Type>(high[2], high[3])};
#pragma unroll
      for (int n = 0; n < Width / 8; n += 2) {
        uint32_t b[4];
        loadMatrices<true>(b, value + k * 16 * kHalfPitch<Dim> + n * 8);
        multiply<Type>(x[n], a, b[0], b[1]);
        multiply<Type>(x[n + 1], a, b[2], b[3]);
      }
    }
  }

  /// To the first `count` of 16 rows, from column `begin` of the head dim on.
  template <int32_t Type>
  __device__ void store(uint16_t *to, int64_t stride, int64_t count, int begin,
                        int headDim, bool vectors) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (ownRow(half) >= count)
        continue;
      uint16_t *row = to + ownRow(half) * stride;
#pragma unroll
      for (int n = 0; n < Width / 8; ++n) {
        const int column = begin + n * 8 + ownColumn();
        const float low = x[n][2 * half], high = x[n][2 * half + 1];
        if (vectors && column < headDim) {
          *reinterpret_cast<uint32_t *>(row + column) = packed<Type>(low, high);
        } else {
          if (column < headDim)
            row[column] = Float<Type>::narrow(low);
          if (column + 1 < headDim)
            row[column + 1] = Float<Type>::narrow(high);
        }
      }
    }
  }
};

} // namespace shardonnx::rt::cuda

/// KERNEL(name, type, dim) for each type and head dim that kernels exist for.
#define SHX_FOR_HALF_ATTENTION(KERNEL)                                         \
  KERNEL(bf16_64, SHX_BF16, 64)                                                \
  KERNEL(bf16_128, SHX_BF16, 128)                                              \
  KERNEL(bf16_256, SHX_BF16, 256)                                              \
  KERNEL(f16_64, SHX_F16, 64)                                                  \
  KERNEL(f16_128, SHX_F16, 128)                                                \
  KERNEL(f16_256, SHX_F16, 256)

#endif // SHARDONNX_RUNTIME_CUDA_KERNELS_ATTENTIONMMA_CUH
