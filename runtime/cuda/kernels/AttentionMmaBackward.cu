// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward for 16-bit floats on the tensor cores, as in
// AttentionBackward.cu: one kernel owns keys, another owns queries, and every
// sum has one order. A warp owns 16 rows; where a head dim's gradients do not
// fit into its registers, two warps have the same rows and a half of it each.

#include "AttentionMma.cuh"

namespace shardonnx::rt::cuda {
namespace {

template <int Dim> constexpr int kColumns = attentionHalfGradColumns(Dim);
template <int Dim> constexpr int kKeyThreads = attentionHalfThreads(Dim, true);

// Where the parts of a block's shared memory begin.
template <int Dim> struct Shared {
  uint16_t *rows, *moreRows;       // 64 × Dim: what the block owns
  uint16_t *columns, *moreColumns; // kColumns × Dim: what it visits
  float *lse, *delta;              // kColumns
  __device__ Shared() {
    extern __shared__ uint4 memory[];
    rows = reinterpret_cast<uint16_t *>(memory);
    moreRows = rows + kRows * kHalfPitch<Dim>;
    columns = moreRows + kRows * kHalfPitch<Dim>;
    moreColumns = columns + kColumns<Dim> * kHalfPitch<Dim>;
    lse = reinterpret_cast<float *>(moreColumns +
                                    kColumns<Dim> * kHalfPitch<Dim>);
    delta = lse + kColumns<Dim>;
  }
};

// From products to p (in scores) and ds (in dscores) of one pair.
__device__ void differentiate(const Scoring &scoring, float &score,
                              float &dscore, int query, int key, float lse,
                              float delta) {
  float slope;
  score = scoring.score(score, query, key, slope);
  // A query that sees no key has minus infinity twice, and no gradient.
  score = lse == minusInfinity() ? 0 : __expf(score - lse);
  dscore = score * (dscore - delta) * slope;
}

template <int32_t Type, int Dim>
__device__ void keyBlock(const AttentionArgs &a) {
  constexpr int kThreads = kKeyThreads<Dim>;
  constexpr int kSplit = kThreads / 128, kWidth = Dim / kSplit;
  constexpr int kQueries = kColumns<Dim>;
  const ShxAttention &d = a.desc;
  const Shared<Dim> shared;
  const int64_t heads = d.batch * d.kvHeads;
  // Early keys are seen by most queries when causal: they go first.
  const int64_t first = blockIdx.x / heads * kRows;
  const int64_t last = min(first + kRows, d.seqK);
  const int64_t batch = blockIdx.x % heads / d.kvHeads;
  const int64_t kvHead = blockIdx.x % d.kvHeads;
  const int headDim = int(d.headDim), depth = (headDim + 15) / 16 * 16;
  const bool vectors = a.vectors;
  const int ownRows = warp() % 4 * kWarpRows; // this warp's first key
  const int ownColumns = warp() / 4 * kWidth; // …and first of the head dim
  loadHalfTile<kRows, Dim, kThreads>(
      shared.rows, typed<Type>(a.k, rowOffset(d.kStride, batch, first, kvHead)),
      d.kStride[1], last - first, headDim, vectors);
  loadHalfTile<kRows, Dim, kThreads>(
      shared.moreRows,
      typed<Type>(a.v, rowOffset(d.vStride, batch, first, kvHead)),
      d.vStride[1], last - first, headDim, vectors);
  Fragment<kWidth> dk, dv;
  dk.clear();
  dv.clear();

  const int64_t group = d.heads / d.kvHeads;
  for (int64_t head = kvHead * group; head < (kvHead + 1) * group; ++head) {
    const Scoring scoring(a, batch, head);
    for (int query = 0; query < d.seqQ; query += kQueries) {
      const int count = int(min(int64_t(kQueries), d.seqQ - query));
      if (scoring.visible(query).begin >= last ||
          scoring.visible(query + count - 1).end <= first)
        continue;
      __syncthreads(); // the tiles of the last queries are read
      loadHalfTile<kQueries, Dim, kThreads>(
          shared.columns,
          typed<Type>(a.q, rowOffset(d.qStride, batch, query, head)),
          d.qStride[1], count, headDim, vectors);
      loadHalfTile<kQueries, Dim, kThreads>(
          shared.moreColumns,
          typed<Type>(a.dout, rowOffset(d.doutStride, batch, query, head)),
          d.doutStride[1], count, headDim, vectors);
      const int64_t at = (batch * d.heads + head) * d.seqQ + query;
      for (int i = int(threadIdx.x); i < count; i += kThreads) {
        shared.lse[i] = a.lse[at + i];
        shared.delta[i] = a.delta[at + i];
      }
      __syncthreads();
      Fragment<kQueries> scores, dscores;
      scores.template dot<Type, Dim>(shared.rows + ownRows * kHalfPitch<Dim>,
                                     shared.columns, depth);
      dscores.template dot<Type, Dim>(shared.moreRows +
                                          ownRows * kHalfPitch<Dim>,
                                      shared.moreColumns, depth);
#pragma unroll
      for (int n = 0; n < kQueries / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int64_t key = first + ownRows + ownRow(e / 2);
          const int column = n * 8 + ownColumn() + e % 2;
          if (key < d.seqK && column < count)
            differentiate(scoring, scores.x[n][e], dscores.x[n][e],
                          query + column, int(key), shared.lse[column],
                          shared.delta[column]);
          else
            scores.x[n][e] = dscores.x[n][e] = 0;
        }
      dv.template addProduct<Type, Dim, kQueries>(scores, shared.moreColumns +
                                                              ownColumns);
      dk.template addProduct<Type, Dim, kQueries>(dscores,
                                                  shared.columns + ownColumns);
    }
  }

  dk.scaleRow(0, d.scale);
  dk.scaleRow(1, d.scale);
  const int64_t own = first + ownRows;
  dk.template store<Type>(
      typed<Type>(a.dk, rowOffset(d.dkStride, batch, own, kvHead)),
      d.dkStride[1], last - own, ownColumns, headDim, vectors);
  dv.template store<Type>(
      typed<Type>(a.dv, rowOffset(d.dvStride, batch, own, kvHead)),
      d.dvStride[1], last - own, ownColumns, headDim, vectors);
}

template <int32_t Type, int Dim>
__device__ void queryBlock(const AttentionArgs &a) {
  constexpr int kThreads = 128, kKeys = kColumns<Dim>;
  const ShxAttention &d = a.desc;
  const Shared<Dim> shared;
  const int64_t heads = d.batch * d.heads;
  const int64_t tiles = (d.seqQ + kRows - 1) / kRows;
  const int64_t first = (tiles - 1 - blockIdx.x / heads) * kRows;
  const int64_t last = min(first + kRows, d.seqQ);
  const int64_t batch = blockIdx.x % heads / d.heads;
  const int64_t head = blockIdx.x % d.heads;
  const int64_t kvHead = head * d.kvHeads / d.heads;
  const int headDim = int(d.headDim), depth = (headDim + 15) / 16 * 16;
  const bool vectors = a.vectors;
  const int ownRows = warp() * kWarpRows; // this warp's first query
  const Scoring scoring(a, batch, head);
  loadHalfTile<kRows, Dim, kThreads>(
      shared.rows, typed<Type>(a.q, rowOffset(d.qStride, batch, first, head)),
      d.qStride[1], last - first, headDim, vectors);
  loadHalfTile<kRows, Dim, kThreads>(
      shared.moreRows,
      typed<Type>(a.dout, rowOffset(d.doutStride, batch, first, head)),
      d.doutStride[1], last - first, headDim, vectors);
  float lse[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t query = first + ownRows + ownRow(half);
    const int64_t at = (batch * d.heads + head) * d.seqQ + query;
    lse[half] = query < d.seqQ ? a.lse[at] : 0;
    delta[half] = query < d.seqQ ? a.delta[at] : 0;
  }
  Fragment<Dim> dq;
  dq.clear();

  const int end = scoring.visible(int(last) - 1).end;
  for (int key = scoring.visible(int(first)).begin; key < end; key += kKeys) {
    const int count = min(kKeys, end - key);
    __syncthreads(); // the tiles of the last keys are read
    loadHalfTile<kKeys, Dim, kThreads>(
        shared.columns,
        typed<Type>(a.k, rowOffset(d.kStride, batch, key, kvHead)),
        d.kStride[1], count, headDim, vectors);
    loadHalfTile<kKeys, Dim, kThreads>(
        shared.moreColumns,
        typed<Type>(a.v, rowOffset(d.vStride, batch, key, kvHead)),
        d.vStride[1], count, headDim, vectors);
    __syncthreads();
    Fragment<kKeys> scores, dscores;
    scores.template dot<Type, Dim>(shared.rows + ownRows * kHalfPitch<Dim>,
                                   shared.columns, depth);
    dscores.template dot<Type, Dim>(shared.moreRows + ownRows * kHalfPitch<Dim>,
                                    shared.moreColumns, depth);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t query = first + ownRows + ownRow(e / 2);
        const int column = n * 8 + ownColumn() + e % 2;
        if (query < d.seqQ && column < count)
          differentiate(scoring, scores.x[n][e], dscores.x[n][e], int(query),
                        key + column, lse[e / 2], delta[e / 2]);
        else
          dscores.x[n][e] = 0;
      }
    dq.template addProduct<Type, Dim, kKeys>(dscores, shared.columns);
  }

  dq.scaleRow(0, d.scale);
  dq.scaleRow(1, d.scale);
  const int64_t own = first + ownRows;
  dq.template store<Type>(
      typed<Type>(a.dq, rowOffset(d.dqStride, batch, own, head)), d.dqStride[1],
      last - own, 0, headDim, vectors);
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

#define SHX_KERNELS(name, type, dim)                                           \
  extern "C" __global__ void __launch_bounds__(kKeyThreads<dim>, 1)            \
      shx_k_attention_keys_##name(const __grid_constant__ AttentionArgs a) {   \
    keyBlock<type, dim>(a);                                                    \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(128, 1)                         \
      shx_k_attention_queries_##name(                                          \
          const __grid_constant__ AttentionArgs a) {                           \
    queryBlock<type, dim>(a);                                                  \
  }
SHX_FOR_HALF_ATTENTION(SHX_KERNELS)
