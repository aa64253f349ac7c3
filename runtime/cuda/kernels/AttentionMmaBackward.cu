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
  static constexpr int kTile = kColumns<Dim> * kHalfPitch<Dim>;
  uint16_t *rows, *moreRows; // 64 × Dim: what the block owns
  /// kColumns × Dim, twice in a row: what it visits. `next` is on its way.
  uint16_t *columns, *next;
  __device__ Shared() {
    extern __shared__ uint4 memory[];
    rows = reinterpret_cast<uint16_t *>(memory);
    moreRows = rows + kRows * kHalfPitch<Dim>;
    columns = moreRows + kRows * kHalfPitch<Dim>;
    next = columns + 2 * kTile;
  }
  __device__ const uint16_t *moreColumns() const { return columns + kTile; }
  __device__ void turn() {
    uint16_t *read = columns;
    columns = next;
    next = read;
  }
};

// Of a visited query: its log-sum-exp and its delta, behind its row.
template <int Dim> __device__ float *ownFloats(uint16_t *tile, int row) {
  return reinterpret_cast<float *>(tile + row * kHalfPitch<Dim> + Dim);
}

// From products to p (in scores) and ds (in dscores) of one pair.
__device__ void differentiate(const Scoring &scoring, bool plain, float &score,
                              float &dscore, int query, int key, float lse,
                              float delta) {
  float slope = 1;
  score =
      plain ? score * scoring.d.scale : scoring.score(score, query, key, slope);
  // A query that sees no key has minus infinity twice, and no gradient.
  score = lse <= scoring.leastLse ? 0 : __expf(score - lse);
  dscore = score * (dscore - delta) * slope;
}

// The tiles of queries that see a block's keys, those of one head behind those
// of another.
template <int32_t Type, int Dim> struct QueryTiles {
  static constexpr int kQueries = kColumns<Dim>;
  const AttentionArgs &a;
  const int64_t batch, firstHead;
  int begin, each, all; // the first query; tiles of a head, and of all

  __device__ QueryTiles(const AttentionArgs &args, int64_t batch,
                        int64_t kvHead, int64_t firstKey, int64_t lastKey)
      : a(args), batch(batch),
        firstHead(kvHead * (a.desc.heads / a.desc.kvHeads)) {
    const ShxAttention &d = a.desc;
    const QueryRange queries(d, Visible(a, batch), firstKey, lastKey);
    begin = queries.begin / kQueries * kQueries;
    each = max(queries.end - begin + kQueries - 1, 0) / kQueries;
    all = each * int(d.heads / d.kvHeads);
  }

  __device__ int64_t head(int tile) const { return firstHead + tile / each; }
  __device__ int query(int tile) const {
    return begin + tile % each * kQueries;
  }
  __device__ int count(int tile) const {
    return int(min(int64_t(kQueries), a.desc.seqQ - query(tile)));
  }

  /// Queries, the gradients of their results, their log-sum-exps and deltas.
  __device__ void start(int tile, uint16_t *to) const {
    constexpr int kThreads = kKeyThreads<Dim>;
    const ShxAttention &d = a.desc;
    const int64_t head = this->head(tile), first = query(tile);
    const int rows = count(tile), headDim = int(d.headDim);
    startHalfTile<kQueries, Dim, kThreads>(
        to, typed<Type>(a.q, rowOffset(d.qStride, batch, first, head)),
        d.qStride[1], rows, headDim, a.vectors);
    startHalfTile<kQueries, Dim, kThreads>(
        to + Shared<Dim>::kTile,
        typed<Type>(a.dout, rowOffset(d.doutStride, batch, first, head)),
        d.doutStride[1], rows, headDim, a.vectors);
    const float *lse = a.lse + lseOffset(d, batch, head, first);
    const float *delta = a.delta + (batch * d.heads + head) * d.seqQ + first;
    for (int i = int(threadIdx.x); i < kQueries; i += kThreads) {
      const int at = min(i, rows - 1);
      float *own = ownFloats<Dim>(to, i);
      copyAsync(own, lse + at * lseStride(d), i >= rows);
      copyAsync(own + 1, delta + at, i >= rows);
    }
  }
};

template <int32_t Type, int Dim>
__device__ void keyBlock(const AttentionArgs &a) {
  constexpr int kThreads = kKeyThreads<Dim>;
  constexpr int kSplit = kThreads / 128, kWidth = Dim / kSplit;
  constexpr int kQueries = kColumns<Dim>;
  const ShxAttention &d = a.desc;
  Shared<Dim> shared;
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
  Fragment<kWidth> dk, dv;
  dk.clear();
  dv.clear();

  const QueryTiles<Type, Dim> tiles(a, batch, kvHead, first, last);
  startHalfTile<kRows, Dim, kThreads>(
      shared.rows, typed<Type>(a.k, rowOffset(d.kStride, batch, first, kvHead)),
      d.kStride[1], last - first, headDim, a.vectors);
  startHalfTile<kRows, Dim, kThreads>(
      shared.moreRows,
      typed<Type>(a.v, rowOffset(d.vStride, batch, first, kvHead)),
      d.vStride[1], last - first, headDim, a.vectors);
  if (tiles.all > 0)
    tiles.start(0, shared.next);
  closeCopies();
  for (int tile = 0; tile < tiles.all; ++tile) {
    shared.turn();
    if (tile + 1 < tiles.all)
      tiles.start(tile + 1, shared.next);
    closeCopies();
    awaitCopies<1>();
    __syncthreads(); // everybody's part of these tiles is there
    const int query = tiles.query(tile), count = tiles.count(tile);
    Fragment<kQueries> scores, dscores;
    scores.template dot<Type, Dim>(shared.rows + ownRows * kHalfPitch<Dim>,
                                   shared.columns, depth);
    dscores.template dot<Type, Dim>(shared.moreRows + ownRows * kHalfPitch<Dim>,
                                    shared.moreColumns(), depth);
    const Scoring scoring(a, batch, tiles.head(tile));
    const int own = int(first) + ownRows;
    const bool plain =
        own + kWarpRows <= d.seqK &&
        scoring.plain(query, query + kQueries, own, own + kWarpRows);
#pragma unroll
    for (int n = 0; n < kQueries / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t key = own + ownRow(e / 2);
        const int column = n * 8 + ownColumn() + e % 2;
        const float *floats = ownFloats<Dim>(shared.columns, column);
        if (plain || (key < d.seqK && column < count))
          differentiate(scoring, plain, scores.x[n][e], dscores.x[n][e],
                        query + column, int(key), floats[0], floats[1]);
        else
          scores.x[n][e] = dscores.x[n][e] = 0;
      }
    dv.template addProduct<Type, Dim, kQueries>(scores, shared.moreColumns() +
                                                            ownColumns);
    dk.template addProduct<Type, Dim, kQueries>(dscores,
                                                shared.columns + ownColumns);
    __syncthreads(); // these tiles are read
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
  Shared<Dim> shared;
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
  startHalfTile<kRows, Dim, kThreads>(
      shared.rows, typed<Type>(a.q, rowOffset(d.qStride, batch, first, head)),
      d.qStride[1], last - first, headDim, a.vectors);
  startHalfTile<kRows, Dim, kThreads>(
      shared.moreRows,
      typed<Type>(a.dout, rowOffset(d.doutStride, batch, first, head)),
      d.doutStride[1], last - first, headDim, a.vectors);
  float lse[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t query = first + ownRows + ownRow(half);
    const int64_t at = (batch * d.heads + head) * d.seqQ + query;
    lse[half] = query < d.seqQ ? a.lse[lseOffset(d, batch, head, query)] : 0;
    delta[half] = query < d.seqQ ? a.delta[at] : 0;
  }
  Fragment<Dim> dq;
  dq.clear();

  const int begin = scoring.visible(int(first)).begin;
  const int end = scoring.visible(int(last) - 1).end;
  auto start = [&](int key) {
    const int count = min(kKeys, end - key);
    startHalfTile<kKeys, Dim, kThreads>(
        shared.next, typed<Type>(a.k, rowOffset(d.kStride, batch, key, kvHead)),
        d.kStride[1], count, headDim, a.vectors);
    startHalfTile<kKeys, Dim, kThreads>(
        shared.next + shared.kTile,
        typed<Type>(a.v, rowOffset(d.vStride, batch, key, kvHead)),
        d.vStride[1], count, headDim, a.vectors);
  };
  if (begin < end)
    start(begin);
  closeCopies();
  for (int key = begin; key < end; key += kKeys) {
    const int count = min(kKeys, end - key);
    shared.turn();
    if (key + kKeys < end)
      start(key + kKeys);
    closeCopies();
    awaitCopies<1>();
    __syncthreads(); // everybody's part of these tiles is there
    Fragment<kKeys> scores, dscores;
    scores.template dot<Type, Dim>(shared.rows + ownRows * kHalfPitch<Dim>,
                                   shared.columns, depth);
    dscores.template dot<Type, Dim>(shared.moreRows + ownRows * kHalfPitch<Dim>,
                                    shared.moreColumns(), depth);
    const int own = int(first) + ownRows;
    const bool plain = scoring.plain(own, own + kWarpRows, key, key + kKeys);
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t query = own + ownRow(e / 2);
        const int column = n * 8 + ownColumn() + e % 2;
        if (plain || (query < d.seqQ && column < count))
          differentiate(scoring, plain, scores.x[n][e], dscores.x[n][e],
                        int(query), key + column, lse[e / 2], delta[e / 2]);
        else
          dscores.x[n][e] = 0;
      }
    dq.template addProduct<Type, Dim, kKeys>(dscores, shared.columns);
    __syncthreads(); // these tiles are read
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
