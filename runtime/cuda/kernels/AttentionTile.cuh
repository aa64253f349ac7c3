// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What attention's kernels share: which keys a query sees, tiles in shared
// memory, and the two products of a tile. 256 threads are 16 rows of 16: a
// thread owns four adjacent rows of a tile of 64, and of the columns every
// 16th (scores) or four adjacent ones in every 64 (head dim). All arithmetic
// is f32.

#ifndef SHARDONNX_RUNTIME_CUDA_KERNELS_ATTENTIONTILE_CUH
#define SHARDONNX_RUNTIME_CUDA_KERNELS_ATTENTIONTILE_CUH

#include "AttentionArgs.h"
#include "Device.cuh"

namespace shardonnx::rt::cuda {

constexpr int kRows = kAttentionRows;
constexpr int kOwnRows = 4;
/// Device code has the plan's constants, not its functions.
template <int Columns> constexpr int kPitch = attentionPitch(Columns);

__device__ inline float minusInfinity() { return __int_as_float(0xff800000); }
/// What a query gets all of whose scores are minus infinity.
__device__ inline float resultOfNothing(const ShxAttention &d) {
  return d.flags & SHX_ATTENTION_UNGUARDED ? __int_as_float(0x7fffffff) : 0;
}
__device__ inline float lseOfNothing(const ShxAttention &d) {
  return d.flags & SHX_ATTENTION_UNGUARDED ? __int_as_float(0x7fffffff)
                                           : minusInfinity();
}

__device__ inline int rowGroup() { return int(threadIdx.x) / 16; }
__device__ inline int columnGroup() { return int(threadIdx.x) % 16; }

/// Which keys a query of a batch element sees; both ends never fall as the
/// query rises.
struct KeyRange {
  int begin, end;
};
struct Visible {
  const ShxAttention &d;
  const int32_t *firstKeys; // of each query, where the caller gives them

  __device__ Visible(const AttentionArgs &args, int64_t batch)
      : d(args.desc), firstKeys(nullptr) {
    if (args.mask && d.maskDtype == SHX_I32)
      firstKeys =
          static_cast<const int32_t *>(args.mask) + batch * d.maskStride[0];
  }
  __device__ KeyRange operator()(int i) const {
    int64_t end = d.causal ? min(d.seqK, i + 1 + d.seqK - d.seqQ) : d.seqK;
    end = max(end, int64_t(0));
    int64_t begin = d.window > 0 ? max(int64_t(0), end - d.window) : 0;
    if (firstKeys)
      begin = max(begin, int64_t(firstKeys[i * d.maskStride[2]]));
    return {int(begin), int(end)};
  }
};

/// Where a query's log-sum-exp lies, and how far the next query's is.
__device__ inline int64_t lseOffset(const ShxAttention &d, int64_t batch,
                                    int64_t head, int64_t query) {
  return d.documents > 0 ? (batch * d.seqQ + query) * d.heads + head
                         : (batch * d.heads + head) * d.seqQ + query;
}
__device__ inline int64_t lseStride(const ShxAttention &d) {
  return d.documents > 0 ? d.heads : 1;
}

/// Which queries see some of the keys from `first` to `last`, if any.
struct QueryRange {
  int begin, end;
  __device__ QueryRange(const ShxAttention &d, const Visible &visible,
                        int64_t first, int64_t last) {
    begin = leastQuery(d, [&](int i) { return visible(i).end > first; });
    end = leastQuery(d, [&](int i) { return visible(i).begin >= last; });
  }

private:
  /// The first query for which it is true: it then is for all behind it.
  template <typename Predicate>
  static __device__ int leastQuery(const ShxAttention &d, Predicate isTrue) {
    int low = 0, high = int(d.seqQ);
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (isTrue(middle))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }
};

__device__ inline int64_t rowOffset(const int64_t *stride, int64_t batch,
                                    int64_t row, int64_t head) {
  return batch * stride[0] + row * stride[1] + head * stride[2];
}

template <int32_t Type>
__device__ float4 loadFour(const Stored<Type> *from, int count, bool vectors) {
  if (vectors) {
    if constexpr (Type == SHX_F32) {
      return *reinterpret_cast<const float4 *>(from);
    } else {
      uint2 bits = *reinterpret_cast<const uint2 *>(from);
      return make_float4(Float<Type>::widen(uint16_t(bits.x & 0xffff)),
                         Float<Type>::widen(uint16_t(bits.x >> 16)),
                         Float<Type>::widen(uint16_t(bits.y & 0xffff)),
                         Float<Type>::widen(uint16_t(bits.y >> 16)));
    }
  }
  float x[4];
#pragma unroll
  for (int e = 0; e < 4; ++e)
    x[e] = e < count ? Float<Type>::widen(from[e]) : 0;
  return make_float4(x[0], x[1], x[2], x[3]);
}

template <int32_t Type>
__device__ void storeFour(Stored<Type> *to, float4 x, int count, bool vectors) {
  const float values[4] = {x.x, x.y, x.z, x.w};
  if (vectors) {
    if constexpr (Type == SHX_F32) {
      *reinterpret_cast<float4 *>(to) = x;
    } else {
      uint32_t words[2];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        words[i] = uint32_t(Float<Type>::narrow(values[2 * i])) |
                   uint32_t(Float<Type>::narrow(values[2 * i + 1])) << 16;
      *reinterpret_cast<uint2 *>(to) = make_uint2(words[0], words[1]);
    }
    return;
  }
#pragma unroll
  for (int e = 0; e < 4; ++e)
    if (e < count)
      to[e] = Float<Type>::narrow(values[e]);
}

/// Rows × Dim floats of shared memory = `count` rows of a strided operand; what
/// lies beyond them or beyond the head dim is zero.
template <int32_t Type, int Rows, int Dim>
__device__ void loadTile(float *tile, const Stored<Type> *from, int64_t stride,
                         int64_t count, int headDim, bool vectors) {
  constexpr int kQuads = Dim / 4;
  for (int i = int(threadIdx.x); i < Rows * kQuads; i += kAttentionThreads) {
    int row = i / kQuads, column = i % kQuads * 4;
    float4 x = make_float4(0, 0, 0, 0);
    if (row < count && column < headDim)
      x = loadFour<Type>(from + row * stride + column, headDim - column,
                         vectors);
    *reinterpret_cast<float4 *>(tile + row * kPitch<Dim> + column) = x;
  }
}

__device__ inline float element(const float4 &x, int i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

/// sums[r][c] = row r · column c of this thread's, over `depth` elements, which
/// is a multiple of four.
template <int Dim, int Columns>
__device__ void dotTile(const float *rows, const float *columns, int depth,
                        float (&sums)[kOwnRows][Columns / 16]) {
  constexpr int kOwn = Columns / 16, kNext = kPitch<Dim>;
  const float *row = rows + rowGroup() * kOwnRows * kNext;
  const float *column = columns + columnGroup() * kNext;
#pragma unroll
  for (int r = 0; r < kOwnRows; ++r)
#pragma unroll
    for (int c = 0; c < kOwn; ++c)
      sums[r][c] = 0;
#pragma unroll 2
  for (int at = 0; at < depth; at += 4) {
    float4 a[kOwnRows], b[kOwn];
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
      a[r] = *reinterpret_cast<const float4 *>(row + r * kNext + at);
#pragma unroll
    for (int c = 0; c < kOwn; ++c)
      b[c] = *reinterpret_cast<const float4 *>(column + c * 16 * kNext + at);
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
#pragma unroll
      for (int c = 0; c < kOwn; ++c)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          sums[r][c] = fmaf(element(a[r], e), element(b[c], e), sums[r][c]);
  }
}

/// This thread's part of 64 rows × Dim.
template <int Dim> struct RowTile {
  float4 x[kOwnRows][Dim / 64];

  __device__ void clear() {
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
#pragma unroll
      for (int g = 0; g < Dim / 64; ++g)
        x[r][g] = make_float4(0, 0, 0, 0);
  }

  __device__ void scaleRow(int r, float factor) {
#pragma unroll
    for (int g = 0; g < Dim / 64; ++g) {
      x[r][g].x *= factor;
      x[r][g].y *= factor;
      x[r][g].z *= factor;
      x[r][g].w *= factor;
    }
  }

  /// x += weights (64 × Depth) · values (Depth × Dim).
  template <int Depth>
  __device__ void addProduct(const float *weights, const float *values) {
    constexpr int kNext = kPitch<Depth>;
    const float *weight = weights + rowGroup() * kOwnRows * kNext;
    const float *value = values + columnGroup() * 4;
#pragma unroll 2
    for (int at = 0; at < Depth; at += 4) {
      float4 w[kOwnRows];
#pragma unroll
      for (int r = 0; r < kOwnRows; ++r)
        w[r] = *reinterpret_cast<const float4 *>(weight + r * kNext + at);
#pragma unroll
      for (int e = 0; e < 4; ++e)
#pragma unroll
        for (int g = 0; g < Dim / 64; ++g) {
          float4 y = *reinterpret_cast<const float4 *>(
              value + (at + e) * kPitch<Dim> + g * 64);
#pragma unroll
          for (int r = 0; r < kOwnRows; ++r) {
            float factor = element(w[r], e);
            x[r][g].x = fmaf(factor, y.x, x[r][g].x);
            x[r][g].y = fmaf(factor, y.y, x[r][g].y);
            x[r][g].z = fmaf(factor, y.z, x[r][g].z);
            x[r][g].w = fmaf(factor, y.w, x[r][g].w);
          }
        }
    }
  }

  /// To `count` rows of a strided operand.
  template <int32_t Type>
  __device__ void store(Stored<Type> *to, int64_t stride, int64_t count,
                        int headDim, bool vectors) const {
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      int row = rowGroup() * kOwnRows + r;
      if (row >= count)
        continue;
#pragma unroll
      for (int g = 0; g < Dim / 64; ++g) {
        int column = g * 64 + columnGroup() * 4;
        if (column < headDim)
          storeFour<Type>(to + row * stride + column, x[r][g], headDim - column,
                          vectors);
      }
    }
  }
};

/// What is between a product q·k and the score that softmax sees.
struct Scoring {
  const ShxAttention &d;
  const Visible visible;
  const void *mask; // of the batch and head; null: none
  const float leastLse;

  __device__ Scoring(const AttentionArgs &args, int64_t batch, int64_t head)
      : d(args.desc), visible(args, batch),
        mask(visible.firstKeys ? nullptr : args.mask), leastLse(args.leastLse) {
    if (!mask)
      return;
    int64_t at = batch * d.maskStride[0] + head * d.maskStride[1];
    mask =
        d.maskDtype == SHX_F32
            ? static_cast<const void *>(static_cast<const float *>(mask) + at)
            : static_cast<const uint8_t *>(mask) + at;
  }

  /// The score of a pair that is within the tensors; `slope` is the derivative
  /// by scale·q·k. Of a key that the query does not see it is minus infinity,
  /// or, `ByDefinition`, what the masks' number makes of it.
  template <bool ByDefinition = false>
  __device__ float score(float product, int query, int key,
                         float &slope) const {
    float x = product * d.scale;
    slope = 1;
    if (d.softcap > 0) {
      float t = tanhf(x / d.softcap);
      x = d.softcap * t;
      slope = 1 - t * t;
    }
    KeyRange range = visible(query);
    const int64_t at = query * d.maskStride[2] + key;
    const bool numbers = mask && d.maskDtype == SHX_F32;
    bool seen = key >= range.begin && key < range.end;
    if (seen && mask && !numbers)
      seen = static_cast<const uint8_t *>(mask)[at];
    if (!seen) {
      if (!ByDefinition || d.hidden == 0)
        return minusInfinity();
      const bool added = d.flags & SHX_ATTENTION_ADDED;
      x = added ? x + d.hidden : d.hidden;
      slope = added ? slope : 0;
    }
    return numbers ? x + static_cast<const float *>(mask)[at] : x;
  }

  /// Whether every pair of the tile is seen and its score is the product times
  /// the scale.
  __device__ bool plain(int query, int queryEnd, int key, int keyEnd) const {
    return !mask && d.softcap <= 0 && queryEnd <= d.seqQ &&
           keyEnd <= visible(query).end && key >= visible(queryEnd - 1).begin;
  }
};

} // namespace shardonnx::rt::cuda

/// KERNEL(name, type, dim) for each head dim that f32 kernels exist for.
#define SHX_FOR_ATTENTION(KERNEL)                                              \
  KERNEL(f32_64, SHX_F32, 64)                                                  \
  KERNEL(f32_128, SHX_F32, 128)                                                \
  KERNEL(f32_256, SHX_F32, 256)

#endif // SHARDONNX_RUNTIME_CUDA_KERNELS_ATTENTIONTILE_CUH
