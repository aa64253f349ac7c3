// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward without a score matrix and without atomics: one kernel
// owns keys and sums over queries, another owns queries and sums over keys, so
// every sum has one fixed order. With p = exp(score - lse):
//   dv = Σ p·dout    ds = p∘(v·dout - delta)    dk = Σ ds·q    dq = Σ ds·k
// where delta = out·dout.

#include "AttentionTile.cuh"

namespace shardonnx::rt::cuda {
namespace {

template <int Dim> constexpr int kColumns = attentionColumns(Dim);

// A warp a query.
template <int32_t Type> __device__ void rowDots(const AttentionArgs &a) {
  const ShxAttention &d = a.desc;
  constexpr int kWarps = kAttentionThreads / kWarp;
  const int64_t row = int64_t(blockIdx.x) * kWarps + warp();
  if (row >= d.batch * d.heads * d.seqQ)
    return;
  const int64_t query = row % d.seqQ, head = row / d.seqQ % d.heads;
  const int64_t batch = row / d.seqQ / d.heads;
  auto out = typed<Type>(static_cast<const void *>(a.out),
                         rowOffset(d.outStride, batch, query, head));
  auto dout = typed<Type>(a.dout, rowOffset(d.doutStride, batch, query, head));
  float sum = 0;
  for (int64_t x = lane(); x < d.headDim; x += kWarp)
    sum = fmaf(Float<Type>::widen(out[x]), Float<Type>::widen(dout[x]), sum);
  sum = warpSum(sum);
  if (lane() == 0)
    a.delta[row] = sum;
}

// Where the parts of a block's shared memory begin.
template <int Dim> struct Shared {
  float *rows, *moreRows;       // 64 × Dim: what the block owns
  float *columns, *moreColumns; // kColumns × Dim: what it visits
  float *weights, *dscores;     // 64 × kColumns
  float *lse, *delta;           // kColumns
  __device__ Shared() {
    extern __shared__ float4 memory[];
    float *at = reinterpret_cast<float *>(memory);
    auto take = [&at](int floats) {
      float *here = at;
      at += floats;
      return here;
    };
    rows = take(kRows * kPitch<Dim>);
    moreRows = take(kRows * kPitch<Dim>);
    columns = take(kColumns<Dim> * kPitch<Dim>);
    moreColumns = take(kColumns<Dim> * kPitch<Dim>);
    weights = take(kRows * kPitch<kColumns<Dim>>);
    dscores = take(kRows * kPitch<kColumns<Dim>>);
    lse = take(kColumns<Dim>);
    delta = take(kColumns<Dim>);
  }
};

// p and ds of one pair; `dproduct` is v·dout.
struct Pair {
  float p, ds;
};
__device__ Pair pairOf(const Scoring &scoring, float product, float dproduct,
                       int query, int key, float lse, float delta) {
  float slope;
  const float score = scoring.score(product, query, key, slope);
  // A query that sees no key has minus infinity twice, and no gradient.
  const float p = lse <= scoring.leastLse ? 0 : expf(score - lse);
  return {p, p * (dproduct - delta) * slope};
}

template <int32_t Type, int Dim> struct KeyBlock {
  const AttentionArgs &a;
  const ShxAttention &d;
  Shared<Dim> shared;
  int64_t batch, kvHead, first, last;
  int headDim, depth;
  RowTile<Dim> dk, dv;

  __device__ explicit KeyBlock(const AttentionArgs &args)
      : a(args), d(args.desc) {
    const int64_t heads = d.batch * d.kvHeads;
    // Early keys are seen by most queries when causal: they go first.
    first = blockIdx.x / heads * kRows;
    last = min(first + kRows, d.seqK);
    batch = blockIdx.x % heads / d.kvHeads;
    kvHead = blockIdx.x % d.kvHeads;
    headDim = int(d.headDim);
    depth = (headDim + 3) / 4 * 4;
  }

  __device__ void run() {
    loadTile<Type, kRows, Dim>(
        shared.rows,
        typed<Type>(a.k, rowOffset(d.kStride, batch, first, kvHead)),
        d.kStride[1], last - first, headDim, a.vectors);
    loadTile<Type, kRows, Dim>(
        shared.moreRows,
        typed<Type>(a.v, rowOffset(d.vStride, batch, first, kvHead)),
        d.vStride[1], last - first, headDim, a.vectors);
    dk.clear();
    dv.clear();
    const int64_t group = d.heads / d.kvHeads;
    const Visible visible(a, batch);
    const QueryRange queries(d, visible, first, last);
    const int begin = queries.begin / kColumns<Dim> * kColumns<Dim>;
    for (int64_t head = kvHead * group; head < (kvHead + 1) * group; ++head)
      for (int query = begin; query < queries.end; query += kColumns<Dim>)
        visit(head, query, int(min(int64_t(query) + kColumns<Dim>, d.seqQ)));
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
      dk.scaleRow(r, d.scale);
    dk.template store<Type>(
        typed<Type>(a.dk, rowOffset(d.dkStride, batch, first, kvHead)),
        d.dkStride[1], last - first, headDim, a.vectors);
    dv.template store<Type>(
        typed<Type>(a.dv, rowOffset(d.dvStride, batch, first, kvHead)),
        d.dvStride[1], last - first, headDim, a.vectors);
  }

  __device__ void load(int64_t head, int query, int queryEnd) {
    const int count = queryEnd - query;
    __syncthreads(); // the tiles of the last queries are read
    loadTile<Type, kColumns<Dim>, Dim>(
        shared.columns,
        typed<Type>(a.q, rowOffset(d.qStride, batch, query, head)),
        d.qStride[1], count, headDim, a.vectors);
    loadTile<Type, kColumns<Dim>, Dim>(
        shared.moreColumns,
        typed<Type>(a.dout, rowOffset(d.doutStride, batch, query, head)),
        d.doutStride[1], count, headDim, a.vectors);
    const int64_t at = (batch * d.heads + head) * d.seqQ + query;
    const float *lse = a.lse + lseOffset(d, batch, head, query);
    for (int i = int(threadIdx.x); i < count; i += kAttentionThreads) {
      shared.lse[i] = lse[i * lseStride(d)];
      shared.delta[i] = a.delta[at + i];
    }
    __syncthreads();
  }

  __device__ void visit(int64_t head, int query, int queryEnd) {
    load(head, query, queryEnd);
    float scores[kOwnRows][kColumns<Dim> / 16],
        ds[kOwnRows][kColumns<Dim> / 16];
    dotTile<Dim, kColumns<Dim>>(shared.rows, shared.columns, depth, scores);
    dotTile<Dim, kColumns<Dim>>(shared.moreRows, shared.moreColumns, depth, ds);
    const Scoring scoring(a, batch, head);
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns<Dim> / 16; ++c) {
        const int row = rowGroup() * kOwnRows + r;
        const int column = c * 16 + columnGroup();
        Pair pair = {0, 0};
        if (first + row < d.seqK && query + column < queryEnd)
          pair = pairOf(scoring, scores[r][c], ds[r][c], query + column,
                        int(first) + row, shared.lse[column],
                        shared.delta[column]);
        shared.weights[row * kPitch<kColumns<Dim>> + column] = pair.p;
        shared.dscores[row * kPitch<kColumns<Dim>> + column] = pair.ds;
      }
    __syncwarp(); // a row's weights are written and read by one half of a warp
    dv.template addProduct<kColumns<Dim>>(shared.weights, shared.moreColumns);
    dk.template addProduct<kColumns<Dim>>(shared.dscores, shared.columns);
  }
};

template <int32_t Type, int Dim> struct QueryBlock {
  const AttentionArgs &a;
  const ShxAttention &d;
  Shared<Dim> shared;
  int64_t batch, head, kvHead, first, last;
  int headDim, depth;
  float lse[kOwnRows], delta[kOwnRows];
  RowTile<Dim> dq;

  __device__ explicit QueryBlock(const AttentionArgs &args)
      : a(args), d(args.desc) {
    const int64_t heads = d.batch * d.heads;
    const int64_t tiles = (d.seqQ + kRows - 1) / kRows;
    first = (tiles - 1 - blockIdx.x / heads) * kRows;
    last = min(first + kRows, d.seqQ);
    batch = blockIdx.x % heads / d.heads;
    head = blockIdx.x % d.heads;
    kvHead = head * d.kvHeads / d.heads;
    headDim = int(d.headDim);
    depth = (headDim + 3) / 4 * 4;
  }

  __device__ void run() {
    loadQueries();
    const Scoring scoring(a, batch, head);
    const int end = scoring.visible(int(last) - 1).end;
    for (int key = scoring.visible(int(first)).begin; key < end;
         key += kColumns<Dim>)
      visit(scoring, key, min(key + kColumns<Dim>, end));
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
      dq.scaleRow(r, d.scale);
    dq.template store<Type>(
        typed<Type>(a.dq, rowOffset(d.dqStride, batch, first, head)),
        d.dqStride[1], last - first, headDim, a.vectors);
  }

  __device__ void loadQueries() {
    loadTile<Type, kRows, Dim>(
        shared.rows, typed<Type>(a.q, rowOffset(d.qStride, batch, first, head)),
        d.qStride[1], last - first, headDim, a.vectors);
    loadTile<Type, kRows, Dim>(
        shared.moreRows,
        typed<Type>(a.dout, rowOffset(d.doutStride, batch, first, head)),
        d.doutStride[1], last - first, headDim, a.vectors);
    dq.clear();
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r) {
      const int64_t query = first + rowGroup() * kOwnRows + r;
      const int64_t at = (batch * d.heads + head) * d.seqQ + query;
      lse[r] = query < d.seqQ ? a.lse[lseOffset(d, batch, head, query)] : 0;
      delta[r] = query < d.seqQ ? a.delta[at] : 0;
    }
  }

  __device__ void visit(const Scoring &scoring, int key, int keyEnd) {
    __syncthreads(); // the tiles of the last keys are read
    loadTile<Type, kColumns<Dim>, Dim>(
        shared.columns,
        typed<Type>(a.k, rowOffset(d.kStride, batch, key, kvHead)),
        d.kStride[1], keyEnd - key, headDim, a.vectors);
    loadTile<Type, kColumns<Dim>, Dim>(
        shared.moreColumns,
        typed<Type>(a.v, rowOffset(d.vStride, batch, key, kvHead)),
        d.vStride[1], keyEnd - key, headDim, a.vectors);
    __syncthreads();
    float scores[kOwnRows][kColumns<Dim> / 16],
        ds[kOwnRows][kColumns<Dim> / 16];
    dotTile<Dim, kColumns<Dim>>(shared.rows, shared.columns, depth, scores);
    dotTile<Dim, kColumns<Dim>>(shared.moreRows, shared.moreColumns, depth, ds);
#pragma unroll
    for (int r = 0; r < kOwnRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns<Dim> / 16; ++c) {
        const int row = rowGroup() * kOwnRows + r;
        const int column = c * 16 + columnGroup();
        Pair pair = {0, 0};
        if (first + row < d.seqQ && key + column < keyEnd)
          pair = pairOf(scoring, scores[r][c], ds[r][c], int(first) + row,
                        key + column, lse[r], delta[r]);
        shared.dscores[row * kPitch<kColumns<Dim>> + column] = pair.ds;
      }
    __syncwarp(); // a row's part is written and read by one half of a warp
    dq.template addProduct<kColumns<Dim>>(shared.dscores, shared.columns);
  }
};

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

#define SHX_ROW_KERNEL(name, type)                                             \
  extern "C" __global__ void __launch_bounds__(kAttentionThreads, 1)           \
      shx_k_attention_dots_##name(const __grid_constant__ AttentionArgs a) {   \
    rowDots<type>(a);                                                          \
  }
SHX_FOR_FLOATS(SHX_ROW_KERNEL)

#define SHX_KERNELS(name, type, dim)                                           \
  extern "C" __global__ void __launch_bounds__(kAttentionThreads, 1)           \
      shx_k_attention_keys_##name(const __grid_constant__ AttentionArgs a) {   \
    KeyBlock<type, dim>(a).run();                                              \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kAttentionThreads, 1)           \
      shx_k_attention_queries_##name(                                          \
          const __grid_constant__ AttentionArgs a) {                           \
    QueryBlock<type, dim>(a).run();                                            \
  }
SHX_FOR_ATTENTION(SHX_KERNELS)
