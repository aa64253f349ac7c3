// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention forward without a score matrix (Dao et al., "FlashAttention",
// 2022): a block owns 64 queries of a head and visits their keys 64 at a time,
// the softmax kept as a running peak and sum of each query.

#include "AttentionTile.cuh"

namespace shardonnx::rt::cuda {
namespace {

// The peak and the sum of exponents of this thread's rows. The sum is over
// this thread's columns alone until the end.
struct Softmax {
  float peak[kOwnRows], sum[kOwnRows];

  __device__ Softmax() {
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      peak[r] = minusInfinity();
      sum[r] = 0;
    }
  }

  // The 16 threads of a row are half a warp.
  static __device__ float overRow(float x, bool add) {
#pragma unroll
    for (int step = 8; step > 0; step /= 2) {
      float other = __shfl_xor_sync(kAllLanes, x, step);
      x = add ? x + other : fmaxf(x, other);
    }
    return x;
  }

  // Scores become exp(score - peak); returns what older sums shrink by.
  template <int Columns>
  __device__ float visit(int r, float (&scores)[kOwnRows][Columns]) {
    float top = scores[r][0];
#pragma unroll
    for (int c = 1; c < Columns; ++c)
      top = fmaxf(top, scores[r][c]);
    float older = peak[r];
    peak[r] = fmaxf(older, overRow(top, false));
    // A query that has seen no key yet: subtract 0, not infinity.
    float base = peak[r] == minusInfinity() ? 0 : peak[r];
    float shrink = expf(older - base);
    sum[r] *= shrink;
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      scores[r][c] = expf(scores[r][c] - base);
      sum[r] += scores[r][c];
    }
    return shrink;
  }
};

template <int32_t Type, int Dim>
__device__ void forward(const AttentionArgs &a) {
  constexpr int kKeys = kRows;
  extern __shared__ float4 memory[];
  float *queries = reinterpret_cast<float *>(memory);
  float *tile = queries + kRows * kPitch<Dim>; // keys, then their values
  float *weights = tile + kKeys * kPitch<Dim>;

  const ShxAttention &d = a.desc;
  const int64_t heads = d.batch * d.heads;
  // Late queries see most keys when causal: they go first.
  const int64_t tiles = (d.seqQ + kRows - 1) / kRows;
  const int64_t first = (tiles - 1 - blockIdx.x / heads) * kRows;
  const int64_t batch = blockIdx.x % heads / d.heads;
  const int64_t head = blockIdx.x % d.heads;
  const int64_t kvHead = head * d.kvHeads / d.heads;
  const int64_t last = min(first + kRows, d.seqQ);
  const int headDim = int(d.headDim), depth = (headDim + 3) / 4 * 4;
  const bool vectors = a.vectors;

  loadTile<Type, kRows, Dim>(
      queries, typed<Type>(a.q, rowOffset(d.qStride, batch, first, head)),
      d.qStride[1], last - first, headDim, vectors);
  const Scoring scoring(a, batch, head);
  Softmax softmax;
  RowTile<Dim> output;
  output.clear();

  const int end = scoring.visible(int(last) - 1).end;
  for (int key = scoring.visible(int(first)).begin; key < end; key += kKeys) {
    const int keys = min(kKeys, end - key);
    __syncthreads(); // the tile's values are read
    loadTile<Type, kKeys, Dim>(
        tile, typed<Type>(a.k, rowOffset(d.kStride, batch, key, kvHead)),
        d.kStride[1], keys, headDim, vectors);
    __syncthreads();
    float scores[kOwnRows][kKeys / 16];
    dotTile<Dim, kKeys>(queries, tile, depth, scores);
    const bool plain =
        scoring.plain(int(first), int(first) + kRows, key, key + kKeys);
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      const int row = rowGroup() * kOwnRows + r;
#pragma unroll
      for (int c = 0; c < kKeys / 16; ++c) {
        const int column = c * 16 + columnGroup();
        float slope;
        if (plain)
          scores[r][c] *= d.scale;
        else if (first + row < d.seqQ && column < keys)
          scores[r][c] = scoring.score(scores[r][c], int(first) + row,
                                       key + column, slope);
        else
          scores[r][c] = minusInfinity();
      }
      output.scaleRow(r, softmax.visit(r, scores));
#pragma unroll
      for (int c = 0; c < kKeys / 16; ++c)
        weights[row * kPitch<kKeys> + c * 16 + columnGroup()] = scores[r][c];
    }
    __syncthreads(); // the tile's keys are read
    loadTile<Type, kKeys, Dim>(
        tile, typed<Type>(a.v, rowOffset(d.vStride, batch, key, kvHead)),
        d.vStride[1], keys, headDim, vectors);
    __syncthreads();
    output.template addProduct<kKeys>(weights, tile);
  }

#pragma unroll
  for (int r = 0; r < kOwnRows; ++r) {
    const int64_t query = first + rowGroup() * kOwnRows + r;
    const float sum = Softmax::overRow(softmax.sum[r], true);
    output.scaleRow(r, sum == 0 ? resultOfNothing(d) : 1 / sum);
    if (query < d.seqQ && columnGroup() == 0)
      a.lse[lseOffset(d, batch, head, query)] =
          sum == 0 ? lseOfNothing(d) : softmax.peak[r] + logf(sum);
  }
  output.template store<Type>(
      typed<Type>(a.out, rowOffset(d.outStride, batch, first, head)),
      d.outStride[1], last - first, headDim, vectors);
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

#define SHX_KERNEL(name, type, dim)                                            \
  extern "C" __global__ void __launch_bounds__(kAttentionThreads, 1)           \
      shx_k_attention_##name(const __grid_constant__ AttentionArgs args) {     \
    forward<type, dim>(args);                                                  \
  }
SHX_FOR_ATTENTION(SHX_KERNEL)
