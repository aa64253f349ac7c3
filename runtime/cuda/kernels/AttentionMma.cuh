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

/// Four 8 × 8 matrices: lane l gives the address of row l % 8 of matrix l / 8.
template <bool Transposed>
__device__ void loadMatrices(uint32_t (&x)[4], const uint16_t *at) {
  uint32_t address = uint32_t(__cvta_generic_to_shared(at));
  if constexpr (Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
}

/// c (16 × 8) += a (16 × 16) · b (16 × 8)
template <int32_t Type>
__device__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                         uint32_t b1) {
  if constexpr (Type == SHX_BF16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <int32_t Type> __device__ uint32_t packed(float low, float high) {
  return uint32_t(Float<Type>::narrow(low)) |
         uint32_t(Float<Type>::narrow(high)) << 16;
}

__device__ inline int ownRow(int half) { return lane() / 4 + 8 * half; }
__device__ inline int ownColumn() { return lane() % 4 * 2; }

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
