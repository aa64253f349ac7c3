// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention forward for 16-bit floats on the tensor cores, as in
// AttentionForward.cu: a warp owns 16 queries, four warps share the keys'
// tiles, of which the next ones are on their way while these are multiplied.

#include "AttentionMma.cuh"

namespace shardonnx::rt::cuda {
namespace {

constexpr int kThreads = 128;
template <int Dim> constexpr int kColumns = attentionColumns(Dim);

// The peak and the sum of exponents of this thread's two rows. The sum is over
// this thread's columns alone until the end.
struct Softmax {
  float peak[2] = {minusInfinity(), minusInfinity()}, sum[2] = {0, 0};

  // Four threads share a row.
  static __device__ float maxOfRow(float x) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
    return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
  }
  static __device__ float sumOfRow(float x) {
    x += __shfl_xor_sync(kAllLanes, x, 1);
    return x + __shfl_xor_sync(kAllLanes, x, 2);
  }

  // Scores become exp(score - peak); returns what older sums shrink by.
  template <int Columns>
  __device__ float visit(int half, Fragment<Columns> &scores) {
    float top = minusInfinity();
#pragma unroll
    for (int n = 0; n < Columns / 8; ++n)
      top = fmaxf(top, fmaxf(scores.x[n][2 * half], scores.x[n][2 * half + 1]));
    const float older = peak[half];
    peak[half] = fmaxf(older, maxOfRow(top));
    // A query that has seen no key yet: subtract 0, not infinity.
    const float base = peak[half] == minusInfinity() ? 0 : peak[half];
    const float shrink = __expf(older - base);
    sum[half] *= shrink;
#pragma unroll
    for (int n = 0; n < Columns / 8; ++n)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        scores.x[n][e] = __expf(scores.x[n][e] - base);
        sum[half] += scores.x[n][e];
      }
    return shrink;
  }
};

template <int32_t Type, int Dim>
__device__ void forward(const AttentionArgs &a) {
  constexpr int kKeys = kColumns<Dim>;
  extern __shared__ uint4 memory[];
  uint16_t *queries = reinterpret_cast<uint16_t *>(memory);
  constexpr int kTile = kKeys * kHalfPitch<Dim>;
  uint16_t *keyTile = queries + kRows * kHalfPitch<Dim>; // then the values'
  uint16_t *nextTile = keyTile + 2 * kTile;

  const ShxAttention &d = a.desc;
  const int64_t heads = d.batch * d.heads;
  // Late queries see most keys when causal: they go first.
  const int64_t tiles = (d.seqQ + kRows - 1) / kRows;
  const int64_t first = (tiles - 1 - blockIdx.x / heads) * kRows;
  const int64_t batch = blockIdx.x % heads / d.heads;
  const int64_t head = blockIdx.x % d.heads;
  const int64_t kvHead = head * d.kvHeads / d.heads;
  const int64_t last = min(first + kRows, d.seqQ);
  const int headDim = int(d.headDim), depth = (headDim + 15) / 16 * 16;
  const bool vectors = a.vectors;
  const int64_t own = first + warp() * kWarpRows; // this warp's first query

  loadHalfTile<kRows, Dim, kThreads>(
      queries, typed<Type>(a.q, rowOffset(d.qStride, batch, first, head)),
      d.qStride[1], last - first, headDim, vectors);
  const Scoring scoring(a, batch, head);
  Softmax softmax;
  Fragment<Dim> output;
  output.clear();

  const int begin = scoring.visible(int(first)).begin;
  const int end = scoring.visible(int(last) - 1).end;
  auto start = [&](uint16_t *tile, int key) {
    const int keys = min(kKeys, end - key);
    startHalfTile<kKeys, Dim, kThreads>(
        tile, typed<Type>(a.k, rowOffset(d.kStride, batch, key, kvHead)),
        d.kStride[1], keys, headDim, a.vectors);
    startHalfTile<kKeys, Dim, kThreads>(
        tile + kTile,
        typed<Type>(a.v, rowOffset(d.vStride, batch, key, kvHead)),
        d.vStride[1], keys, headDim, a.vectors);
  };
  if (begin < end)
    start(keyTile, begin);
  closeCopies();
  for (int key = begin; key < end; key += kKeys) {
    const int keys = min(kKeys, end - key);
    if (key + kKeys < end)
      start(nextTile, key + kKeys);
    closeCopies();
    awaitCopies<1>();
    __syncthreads(); // everybody's part of these tiles is there
    Fragment<kKeys> scores;
    scores.template dot<Type, Dim>(
        queries + warp() * kWarpRows * kHalfPitch<Dim>, keyTile, depth);
    const bool plain =
        scoring.plain(int(own), int(own) + kWarpRows, key, key + kKeys);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t query = own + ownRow(e / 2);
        const int column = n * 8 + ownColumn() + e % 2;
        float slope;
        if (plain)
          scores.x[n][e] *= d.scale;
        else if (query < d.seqQ && column < keys)
          scores.x[n][e] =
              scoring.score(scores.x[n][e], int(query), key + column, slope);
        else
          scores.x[n][e] = minusInfinity();
      }
#pragma unroll
    for (int half = 0; half < 2; ++half)
      output.scaleRow(half, softmax.visit(half, scores));
    output.template addProduct<Type, Dim, kKeys>(scores, keyTile + kTile);
    __syncthreads(); // these tiles are read
    uint16_t *read = keyTile;
    keyTile = nextTile;
    nextTile = read;
  }

#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t query = own + ownRow(half);
    const float sum = Softmax::sumOfRow(softmax.sum[half]);
    output.scaleRow(half, sum == 0 ? resultOfNothing(d) : 1 / sum);
    if (query < d.seqQ && lane() % 4 == 0)
      a.lse[lseOffset(d, batch, head, query)] =
          sum == 0 ? lseOfNothing(d) : softmax.peak[half] + logf(sum);
  }
  output.template store<Type>(
      typed<Type>(a.out, rowOffset(d.outStride, batch, own, head)),
      d.outStride[1], last - own, 0, headDim, vectors);
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

#define SHX_KERNEL(name, type, dim)                                            \
  extern "C" __global__ void __launch_bounds__(kThreads, 1)                    \
      shx_k_attention_##name(const __grid_constant__ AttentionArgs args) {     \
    forward<type, dim>(args);                                                  \
  }
SHX_FOR_HALF_ATTENTION(SHX_KERNEL)
