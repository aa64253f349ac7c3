// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_grouped_gemm and its gradient: rows are read and written where they lie,
// in the order of their groups. 16-bit floats are brought to shared memory by
// asynchronous copies, two parts ahead, and multiplied by the tensor cores;
// kernels/GroupedGemmFloat.cu is for f32. The kernels are nvcc's, their launch
// is the C++ compiler's.

#include "../kernels/GroupedShapes.h"

#ifdef __CUDACC__

#include "../kernels/GroupedTile.cuh"
#include "../kernels/Mma.cuh"

namespace shardonnx::rt::cuda {
namespace {

constexpr int kTile = kGroupedTile, kDepth = kGroupedDepth;
constexpr int kStages = kGroupedStages, kThreads = kGroupedThreads;
// A warp has 64 × 32 elements of the tile.
constexpr int kWarpsAcross = 4, kOwnRows = 64, kOwnColumns = 32;

// An operand's parts: kTile × kDepth elements in lines along the sum (Along),
// or across it.
template <bool Along> struct Operand {
  static constexpr int kPitch =
      Along ? kGroupedAlongPitch : kGroupedAcrossPitch;
  static constexpr int kPacks = (Along ? kDepth : kTile) / kPack; // of a line
  static constexpr int kEach = kTile * kDepth / kPack / kThreads; // of a thread

  static __device__ int line(int i) {
    return (int(threadIdx.x) + i * kThreads) / kPacks;
  }

  // Pack i of this thread: from `row`, null for zeros, whose columns end at
  // `end`; `any` is some address that may be read.
  template <bool Vectors>
  static __device__ void load(uint16_t *part, int i, const uint16_t *row,
                              int first, int end, const uint16_t *any) {
    const int column = (int(threadIdx.x) + i * kThreads) % kPacks * kPack;
    uint16_t *to = part + line(i) * kPitch + column;
    const int at = first + column;
    if constexpr (Vectors) {
      const bool zero = !row || at >= end;
      copyAsync(to, zero ? any : row + at, zero);
    } else {
#pragma unroll 1
      for (int e = 0; e < kPack; ++e)
        to[e] = row && at + e < end ? row[at + e] : 0;
    }
  }

  // The left operand of mma: 16 rows from `row` on, 16 terms from `k` on.
  static __device__ void left(uint32_t (&x)[4], const uint16_t *part, int row,
                              int k) {
    if constexpr (Along)
      loadMatrices<false>(x, part + (row + lane() % 16) * kPitch + k +
                                 lane() / 16 * 8);
    else
      loadMatrices<true>(x, part + (k + lane() / 16 * 8 + lane() % 8) * kPitch +
                                row + lane() / 8 % 2 * 8);
  }
  // The right operands for twice 8 columns.
  static __device__ void right(uint32_t (&x)[4], const uint16_t *part,
                               int column, int k) {
    if constexpr (Along)
      loadMatrices<false>(
          x, part + (column + lane() / 16 * 8 + lane() % 8) * kPitch + k +
                 lane() / 8 % 2 * 8);
    else
      loadMatrices<true>(x, part + (k + lane() % 16) * kPitch + column +
                                lane() / 16 * 8);
  }
};

__device__ int warpRow() { return warp() / kWarpsAcross * kOwnRows; }
__device__ int warpColumn() { return warp() % kWarpsAcross * kOwnColumns; }

// A warp's part of the tile, each 16 × 8 elements as mma has them.
struct Sums {
  float x[kOwnRows / 16][kOwnColumns / 8][4] = {};

  template <int32_t Type, typename A, typename B>
  __device__ void add(const uint16_t *a, const uint16_t *b) {
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      uint32_t right[kOwnColumns / 16][4];
#pragma unroll
      for (int j = 0; j < kOwnColumns / 16; ++j)
        B::right(right[j], b, warpColumn() + 16 * j, k);
#pragma unroll
      for (int i = 0; i < kOwnRows / 16; ++i) {
        uint32_t left[4];
        A::left(left, a, warpRow() + 16 * i, k);
#pragma unroll
        for (int j = 0; j < kOwnColumns / 16; ++j) {
          multiply<Type>(x[i][2 * j], left, right[j][0], right[j][1]);
          multiply<Type>(x[i][2 * j + 1], left, right[j][2], right[j][3]);
        }
      }
    }
  }

  // visit(row of the tile, column, the values there and beside it)
  template <typename Visit> __device__ void each(Visit visit) const {
#pragma unroll
    for (int i = 0; i < kOwnRows / 16; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int j = 0; j < kOwnColumns / 8; ++j)
          visit(warpRow() + 16 * i + ownRow(half),
                warpColumn() + 8 * j + ownColumn(), x[i][j][2 * half],
                x[i][j][2 * half + 1]);
  }

  // Row r of the tile to rowAt(r), null for none, whose columns end at `end`:
  // 16 bytes at a time, by way of shared memory.
  template <int32_t Type, bool Vectors, typename RowAt>
  __device__ void store(uint16_t *shared, int first, int end,
                        RowAt rowAt) const {
    constexpr int kPitch = kGroupedAcrossPitch;
    awaitCopies<0>();
    __syncthreads(); // the last parts are read
    each([&](int row, int column, float low, float high) {
      *reinterpret_cast<uint32_t *>(shared + row * kPitch + column) =
          Float<Type>::narrowTwo(low, high);
    });
    __syncthreads();
    for (int i = int(threadIdx.x); i < kTile * kTile / kPack; i += kThreads) {
      const int row = i / (kTile / kPack), column = i % (kTile / kPack) * kPack;
      const uint16_t *from = shared + row * kPitch + column;
      uint16_t *to = rowAt(row);
      const int at = first + column;
      if (!to || at >= end)
        continue;
      if constexpr (Vectors)
        *reinterpret_cast<uint4 *>(to + at) =
            *reinterpret_cast<const uint4 *>(from);
      else
        for (int e = 0; e < kPack && at + e < end; ++e)
          to[at + e] = from[e];
    }
  }
};

// load(part of a, part of b, k) starts the copies of the terms from k on.
template <int32_t Type, typename A, typename B, typename Load>
__device__ void multiplyParts(Sums &sums, uint16_t *shared, int terms,
                              Load load) {
  auto partA = [&](int i) { return shared + i % kStages * (2 * kGroupedPart); };
  const int parts = (terms + kDepth - 1) / kDepth;
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < parts)
      load(partA(i), partA(i) + kGroupedPart, i * kDepth);
    closeCopies();
  }
  for (int i = 0; i < parts; ++i) {
    awaitCopies<kStages - 2>();
    __syncthreads(); // this part is there, the one before is read
    const int next = i + kStages - 1;
    if (next < parts)
      load(partA(next), partA(next) + kGroupedPart, next * kDepth);
    closeCopies();
    sums.add<Type, A, B>(partA(i), partA(i) + kGroupedPart);
  }
}

template <int32_t Type, bool Transposed, bool Vectors>
__device__ void product(const ShxGroupedGemm &d, const uint16_t *a,
                        const uint16_t *matrices, const int32_t *list,
                        uint16_t *out) {
  extern __shared__ uint4 memory[];
  uint16_t *shared = reinterpret_cast<uint16_t *>(memory);
  using A = Operand<true>;
  using B = Operand<Transposed>;
  const Routes routes(d, list);
  const int depth = int(d.depth), width = int(d.width);
  // Neighbours share rows; the matrix stays in the cache.
  const int columns = (width + kTile - 1) / kTile;
  const int first = int(blockIdx.x) % columns * kTile;
  GroupedRows rows;
  if (!findRows<kTile>(routes, d.groups, int(blockIdx.x) / columns, rows))
    return;
  const uint16_t *matrix = matrices + rows.group * d.depth * d.width;
  const uint16_t *mine[A::kEach];
#pragma unroll
  for (int i = 0; i < A::kEach; ++i) {
    const int at = rows.begin + A::line(i);
    mine[i] = at < rows.end ? a + routes.order[at] * d.lda : nullptr;
  }
  Sums sums;
  multiplyParts<Type, A, B>(
      sums, shared, depth, [&](uint16_t *left, uint16_t *right, int k) {
#pragma unroll
        for (int i = 0; i < A::kEach; ++i)
          A::template load<Vectors>(left, i, mine[i], k, depth, a);
#pragma unroll
        for (int i = 0; i < B::kEach; ++i) {
          const int line = (Transposed ? first : k) + B::line(i);
          const int lines = Transposed ? width : depth;
          const int length = Transposed ? depth : width;
          B::template load<Vectors>(
              right, i,
              line < lines ? matrix + int64_t(line) * length : nullptr,
              Transposed ? k : first, length, matrix);
        }
      });
  sums.store<Type, Vectors>(shared, first, width, [&](int row) -> uint16_t * {
    const int at = rows.begin + row;
    return at < rows.end ? out + routes.order[at] * d.ldc : nullptr;
  });
}

template <bool Vectors>
__device__ void storePair(float *to, int column, int end, float low,
                          float high) {
  if constexpr (Vectors) {
    if (column < end)
      *reinterpret_cast<float2 *>(to + column) = make_float2(low, high);
  } else {
    if (column < end)
      to[column] = low;
    if (column + 1 < end)
      to[column + 1] = high;
  }
}

template <int32_t Out, int32_t Type, bool Vectors>
__device__ void gradient(const ShxGroupedGemm &d, const uint16_t *a,
                         const uint16_t *c, const int32_t *list,
                         Stored<Out> *matrices) {
  extern __shared__ uint4 memory[];
  uint16_t *shared = reinterpret_cast<uint16_t *>(memory);
  using Lines = Operand<false>;
  const Routes routes(d, list);
  const int depth = int(d.depth), width = int(d.width);
  const int columns = (width + kTile - 1) / kTile;
  const int tiles = columns * ((depth + kTile - 1) / kTile);
  const int group = int(blockIdx.x) / tiles;
  const int firstRow = int(blockIdx.x) % tiles / columns * kTile;
  const int firstColumn = int(blockIdx.x) % columns * kTile;
  const int begin = routes.begins[group], end = routes.begins[group + 1];
  Sums sums;
  multiplyParts<Type, Lines, Lines>(
      sums, shared, end - begin, [&](uint16_t *left, uint16_t *right, int k) {
#pragma unroll
        for (int i = 0; i < Lines::kEach; ++i) {
          const int at = begin + k + Lines::line(i);
          const int row = at < end ? routes.order[at] : -1;
          Lines::load<Vectors>(left, i, row < 0 ? nullptr : a + row * d.lda,
                               firstRow, depth, a);
          Lines::load<Vectors>(right, i, row < 0 ? nullptr : c + row * d.ldc,
                               firstColumn, width, c);
        }
      });
  Stored<Out> *matrix = matrices + group * d.depth * d.width;
  auto rowAt = [&](int row) {
    return firstRow + row < depth ? matrix + (firstRow + row) * d.width
                                  : nullptr;
  };
  if constexpr (Out == SHX_F32)
    sums.each([&](int row, int column, float low, float high) {
      if (float *to = rowAt(row))
        storePair<Vectors>(to, firstColumn + column, width, low, high);
    });
  else
    sums.store<Out, Vectors>(shared, firstColumn, width, rowAt);
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

// Twice: for rows that begin and end at multiples of 16 bytes, and for others.
#define SHX_PRODUCT(suffix, Type, Transposed, Vectors)                         \
  extern "C" __global__ void __launch_bounds__(kGroupedThreads, 2)             \
      shx_k_grouped_##suffix(const __grid_constant__ ShxGroupedGemm d,         \
                             const void *a, const void *matrices,              \
                             const int32_t *routes, void *out) {               \
    product<Type, Transposed, Vectors>(                                        \
        d, typed<Type>(a), typed<Type>(matrices), routes, typed<Type>(out));   \
  }
SHX_PRODUCT(plain_bf16, SHX_BF16, false, true)
SHX_PRODUCT(plain_f16, SHX_F16, false, true)
SHX_PRODUCT(transposed_bf16, SHX_BF16, true, true)
SHX_PRODUCT(transposed_f16, SHX_F16, true, true)
SHX_PRODUCT(plain_odd_bf16, SHX_BF16, false, false)
SHX_PRODUCT(plain_odd_f16, SHX_F16, false, false)
SHX_PRODUCT(transposed_odd_bf16, SHX_BF16, true, false)
SHX_PRODUCT(transposed_odd_f16, SHX_F16, true, false)

#define SHX_GRADIENT(suffix, Out, Type, Vectors)                               \
  extern "C" __global__ void __launch_bounds__(kGroupedThreads, 2)             \
      shx_k_grouped_grad_##suffix(const __grid_constant__ ShxGroupedGemm d,    \
                                  const void *a, const void *c,                \
                                  const int32_t *routes, void *matrices) {     \
    gradient<Out, Type, Vectors>(d, typed<Type>(a), typed<Type>(c), routes,    \
                                 typed<Out>(matrices));                        \
  }
SHX_GRADIENT(f32_bf16, SHX_F32, SHX_BF16, true)
SHX_GRADIENT(f32_f16, SHX_F32, SHX_F16, true)
SHX_GRADIENT(bf16_bf16, SHX_BF16, SHX_BF16, true)
SHX_GRADIENT(f16_f16, SHX_F16, SHX_F16, true)
SHX_GRADIENT(odd_f32_bf16, SHX_F32, SHX_BF16, false)
SHX_GRADIENT(odd_f32_f16, SHX_F32, SHX_F16, false)
SHX_GRADIENT(odd_bf16_bf16, SHX_BF16, SHX_BF16, false)
SHX_GRADIENT(odd_f16_f16, SHX_F16, SHX_F16, false)

#else

#include "../launch/KernelNames.h"
#include "../launch/Launch.h"

namespace shardonnx::rt::cuda {
namespace {

// Whether every line begins at a multiple of 16 bytes and ends at one.
template <typename... Pointers>
bool isPacked(const ShxGroupedGemm &d, const Pointers *...pointers) {
  return d.depth % 8 == 0 && d.width % 8 == 0 && d.lda % 8 == 0 &&
         d.ldc % 8 == 0 && aligned16(pointers...);
}

// f32 has smaller tiles, and they lie in static memory.
int64_t tileOf(int32_t dtype) {
  return dtype == SHX_F32 ? kGroupedFloatTile : kGroupedTile;
}
unsigned sharedBytesOf(int32_t dtype) {
  return dtype == SHX_F32 ? 0 : kGroupedSharedBytes;
}

void checkTypes(bool same) {
  if (!same)
    fail("no grouped product of operands of different types: compile the model "
         "with one --param-dtype");
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

void shx_grouped_gemm(ShxContext *ctx, const ShxGroupedGemm *desc,
                      const void *a, const void *matrices,
                      const int32_t *routes, void *out) {
  static constexpr KernelNames names[2][2] = {
      {SHX_KERNEL_NAMES("shx_k_grouped_plain_odd"),
       SHX_KERNEL_NAMES("shx_k_grouped_plain")},
      {SHX_KERNEL_NAMES("shx_k_grouped_transposed_odd"),
       SHX_KERNEL_NAMES("shx_k_grouped_transposed")}};
  const ShxGroupedGemm &d = *desc;
  checkTypes(d.dtypeA == d.dtypeMatrix && d.dtypeA == d.dtypeC);
  // Each group may leave a tile that is not full.
  int64_t tile = tileOf(d.dtypeA);
  int64_t tiles = d.rows / tile + (d.groups < d.rows ? d.groups : d.rows);
  const KernelNames &name =
      names[d.transposed != 0][isPacked(d, a, matrices, out)];
  launch(contextOf(ctx), name(d.dtypeA), tiles * blocksFor(d.width, tile),
         kGroupedThreads, sharedBytesOf(d.dtypeA), d, a, matrices, routes, out);
}

void shx_grouped_gemm_grad(ShxContext *ctx, const ShxGroupedGemm *desc,
                           const void *a, const void *c, const int32_t *routes,
                           void *matrices) {
  static constexpr KernelPairNames names[] = {
      SHX_KERNEL_PAIR_NAMES("shx_k_grouped_grad_odd"),
      SHX_KERNEL_PAIR_NAMES("shx_k_grouped_grad")};
  const ShxGroupedGemm &d = *desc;
  checkTypes(d.dtypeA == d.dtypeC);
  int64_t tile = tileOf(d.dtypeA);
  const KernelPairNames &name = names[isPacked(d, a, c, matrices)];
  launch(contextOf(ctx), name(d.dtypeMatrix, d.dtypeA),
         d.groups * blocksFor(d.depth, tile) * blocksFor(d.width, tile),
         kGroupedThreads, sharedBytesOf(d.dtypeA), d, a, c, routes, matrices);
}

#endif
