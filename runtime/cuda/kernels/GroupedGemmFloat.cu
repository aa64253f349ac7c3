// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Grouped products of f32: register tiles of 4 × 4, summed in the order of the
// terms. Those of 16-bit floats are in ../calls/GroupedGemm.cu.

#include "GroupedTile.cuh"

namespace shardonnx::rt::cuda {
namespace {

constexpr int kTile = kGroupedFloatTile, kDepth = kGroupedFloatDepth;
constexpr int kPitch = kTile + 4;
constexpr int kEach = 4; // elements that a thread brings of a part

struct Part {
  float x[kDepth][kPitch];
};

// What a thread brings of an operand's next part: four neighbours of a line. A
// line lies along the sum (Along), or across it.
template <bool Along> struct Piece {
  float x[kEach];

  static __device__ int line() {
    return int(threadIdx.x) / ((Along ? kDepth : kTile) / kEach);
  }
  static __device__ int column() {
    return int(threadIdx.x) % ((Along ? kDepth : kTile) / kEach) * kEach;
  }

  // From `row`, null for zeros, whose columns end at `end`.
  template <bool Vectors>
  __device__ void load(const float *row, int64_t first, int64_t end) {
    int64_t at = first + column();
    if constexpr (Vectors) {
      float4 four = make_float4(0, 0, 0, 0);
      if (row && at < end)
        four = *reinterpret_cast<const float4 *>(row + at);
      x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
    } else {
#pragma unroll
      for (int e = 0; e < kEach; ++e)
        x[e] = row && at + e < end ? row[at + e] : 0.f;
    }
  }
  __device__ void store(Part &part) const {
#pragma unroll
    for (int e = 0; e < kEach; ++e)
      if constexpr (Along)
        part.x[column() + e][line()] = x[e];
      else
        part.x[line()][column() + e] = x[e];
  }
};

// Sixteen times as many threads as rows of four: this one's elements.
__device__ int ownRow() { return int(threadIdx.x) / 16 * 4; }
__device__ int ownColumn() { return int(threadIdx.x) % 16 * 4; }

struct Sums {
  float x[4][4] = {};
  __device__ void add(const Part &a, const Part &b) {
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float4 rows = *reinterpret_cast<const float4 *>(&a.x[k][ownRow()]);
      float4 columns = *reinterpret_cast<const float4 *>(&b.x[k][ownColumn()]);
      const float left[4] = {rows.x, rows.y, rows.z, rows.w};
      const float right[4] = {columns.x, columns.y, columns.z, columns.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          x[i][j] = fmaf(left[i], right[j], x[i][j]);
    }
  }
  template <int32_t Type>
  __device__ void store(int i, Stored<Type> *row, int64_t first,
                        int64_t end) const {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (first + ownColumn() + j < end)
        row[first + ownColumn() + j] = Float<Type>::narrow(x[i][j]);
  }
};

// `load(k)` fills the pieces with the terms from k on.
template <bool AlongA, bool AlongB, typename Load>
__device__ void multiply(Sums &sums, Piece<AlongA> &a, Piece<AlongB> &b,
                         int64_t terms, Load load) {
  __shared__ Part partA, partB;
  load(0);
  for (int64_t k = 0; k < terms; k += kDepth) {
    __syncthreads();
    a.store(partA);
    b.store(partB);
    __syncthreads();
    if (k + kDepth < terms)
      load(k + kDepth);
    sums.add(partA, partB);
  }
}

template <bool Transposed, bool Vectors>
__device__ void product(const ShxGroupedGemm &d, const float *a,
                        const float *matrices, const int32_t *list,
                        float *out) {
  const Routes routes(d, list);
  const int64_t columns = (d.width + kTile - 1) / kTile;
  const int64_t first = blockIdx.x % columns * kTile;
  GroupedRows rows;
  if (!findRows<kTile>(routes, d.groups, int(blockIdx.x / columns), rows))
    return;
  matrices += rows.group * d.depth * d.width;
  Piece<true> left;
  Piece<Transposed> right;
  const int mine = rows.begin + left.line();
  const float *row = mine < rows.end ? a + routes.order[mine] * d.lda : nullptr;
  Sums sums;
  multiply(sums, left, right, d.depth, [&](int64_t k) {
    left.template load<Vectors>(row, k, d.depth);
    if constexpr (Transposed) {
      const int64_t line = first + right.line();
      right.template load<Vectors>(
          line < d.width ? matrices + line * d.depth : nullptr, k, d.depth);
    } else {
      const int64_t line = k + right.line();
      right.template load<Vectors>(
          line < d.depth ? matrices + line * d.width : nullptr, first, d.width);
    }
  });
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (rows.begin + ownRow() + i < rows.end)
      sums.store<SHX_F32>(i,
                          out + routes.order[rows.begin + ownRow() + i] * d.ldc,
                          first, d.width);
}

template <int32_t Type, bool Vectors>
__device__ void gradient(const ShxGroupedGemm &d, const float *a,
                         const float *c, const int32_t *list,
                         Stored<Type> *matrices) {
  const Routes routes(d, list);
  const int64_t columns = (d.width + kTile - 1) / kTile;
  const int64_t tiles = columns * ((d.depth + kTile - 1) / kTile);
  const int64_t group = blockIdx.x / tiles;
  const int64_t firstRow = blockIdx.x % tiles / columns * kTile;
  const int64_t firstColumn = blockIdx.x % columns * kTile;
  const int begin = routes.begins[group], end = routes.begins[group + 1];
  Piece<false> left, right;
  Sums sums;
  multiply(sums, left, right, end - begin, [&](int64_t k) {
    const int at = begin + int(k) + left.line();
    const int64_t row = at < end ? routes.order[at] : -1;
    left.template load<Vectors>(row < 0 ? nullptr : a + row * d.lda, firstRow,
                                d.depth);
    right.template load<Vectors>(row < 0 ? nullptr : c + row * d.ldc,
                                 firstColumn, d.width);
  });
  matrices += group * d.depth * d.width;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t row = firstRow + ownRow() + i;
    if (row < d.depth)
      sums.store<Type>(i, matrices + row * d.width, firstColumn, d.width);
  }
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

// Twice: for rows that begin and end at multiples of 16 bytes, and for others.
#define SHX_PRODUCT(suffix, Transposed, Vectors)                               \
  extern "C" __global__ void __launch_bounds__(kGroupedThreads)                \
      shx_k_grouped_##suffix##_f32(const __grid_constant__ ShxGroupedGemm d,   \
                                   const void *a, const void *matrices,        \
                                   const int32_t *routes, void *out) {         \
    product<Transposed, Vectors>(d, typed<SHX_F32>(a),                         \
                                 typed<SHX_F32>(matrices), routes,             \
                                 typed<SHX_F32>(out));                         \
  }
SHX_PRODUCT(plain, false, true)
SHX_PRODUCT(transposed, true, true)
SHX_PRODUCT(plain_odd, false, false)
SHX_PRODUCT(transposed_odd, true, false)

#define SHX_GRADIENT(suffix, Type)                                             \
  SHX_GRADIENT_OF(suffix, Type, true)                                          \
  SHX_GRADIENT_OF(odd_##suffix, Type, false)
#define SHX_GRADIENT_OF(suffix, Type, Vectors)                                 \
  extern "C" __global__ void __launch_bounds__(kGroupedThreads)                \
      shx_k_grouped_grad_##suffix##_f32(                                       \
          const __grid_constant__ ShxGroupedGemm d, const void *a,             \
          const void *c, const int32_t *routes, void *matrices) {              \
    gradient<Type, Vectors>(d, typed<SHX_F32>(a), typed<SHX_F32>(c), routes,   \
                            typed<Type>(matrices));                            \
  }
SHX_FOR_FLOATS(SHX_GRADIENT)
