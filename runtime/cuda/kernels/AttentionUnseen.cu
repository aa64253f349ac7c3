// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Queries that see no key but whose scores are finite, since masks hide by
// large negative numbers: a softmax weighs what is hidden all the same, keys
// after the query among it. Attention's other kernels skip hidden keys, and
// know a query by its log-sum-exp, which rounds away the sum of such. So these
// come behind them and compute such queries by definition; where there is none,
// nothing.
//   p = softmax(score)   out = Σ p·v
//   ds = p·(v·dout - out·dout)·∂score/∂(k·q)
//   dv += p·dout         dk += ds·q          dq = Σ ds·k
// A warp has a row; its lanes the head dim, which is at most 256.

#include "AttentionTile.cuh"

namespace shardonnx::rt::cuda {
namespace {

constexpr int kOfLane = int(kAttentionMaxDim) / kWarp;

/// A row of up to 256 elements in the registers of a warp.
struct Row {
  float at[kOfLane];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      at[i] = 0;
  }
  template <int32_t Type>
  __device__ void load(const Stored<Type> *from, int64_t dim) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int64_t x = i * kWarp + lane();
      at[i] = x < dim ? Float<Type>::widen(from[x]) : 0;
    }
  }
  template <int32_t Type>
  __device__ void store(Stored<Type> *to, int64_t dim) const {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int64_t x = i * kWarp + lane();
      if (x < dim)
        to[x] = Float<Type>::narrow(at[i]);
    }
  }
  __device__ void scale(float factor) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      at[i] *= factor;
  }
  __device__ void add(float factor, const Row &row) {
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      at[i] += factor * row.at[i];
  }
  /// In every lane.
  __device__ float dot(const Row &row) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i)
      sum += at[i] * row.at[i];
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2)
      sum += __shfl_xor_sync(kAllLanes, sum, step);
    return sum;
  }
};

/// The softmax of scores that come one by one.
struct Running {
  float peak = minusInfinity(), sum = 0;

  /// What the older sum is multiplied by.
  __device__ float join(float score) {
    if (score == minusInfinity())
      return 1;
    const float older = peak;
    peak = fmaxf(older, score);
    const float factor = expf(older - peak);
    sum = sum * factor + expf(score - peak);
    return factor;
  }
};

/// What a block works on: the heads of one kv head of one batch element.
template <int32_t Type> struct Group {
  const AttentionArgs &a;
  const ShxAttention &d;
  int64_t block, batch, kvHead, headBegin, headEnd;

  __device__ explicit Group(const AttentionArgs &args) : a(args), d(args.desc) {
    const int64_t groups = d.batch * d.kvHeads, each = d.heads / d.kvHeads;
    block = blockIdx.x / groups;
    batch = blockIdx.x % groups / d.kvHeads;
    kvHead = blockIdx.x % d.kvHeads;
    headBegin = kvHead * each;
    headEnd = headBegin + each;
  }

  __device__ float &lse(int64_t head, int64_t query) const {
    return a.lse[lseOffset(d, batch, head, query)];
  }
  /// out·dout; once a query's dq is known, the sum of exp(score - lse).
  __device__ float &delta(int64_t head, int64_t query) const {
    return a.delta[(batch * d.heads + head) * d.seqQ + query];
  }
  __device__ bool seesNothing(int64_t head, int64_t query) const {
    return lse(head, query) < SHX_ATTENTION_UNSEEN;
  }
  /// Whether any query of the group sees nothing, in every thread.
  __device__ bool any() const {
    __shared__ int counts[kAttentionThreads / kWarp];
    __shared__ int total;
    int count = 0;
    for (int64_t head = headBegin; head < headEnd; ++head)
      for (int64_t i = threadIdx.x; i < d.seqQ; i += blockDim.x)
        count += seesNothing(head, i);
    count = blockSum(count, counts);
    if (threadIdx.x == 0)
      total = count;
    __syncthreads();
    return total > 0;
  }

  __device__ Row load(const void *base, const int64_t (&stride)[3], int64_t i,
                      int64_t head) const {
    Row row;
    row.template load<Type>(
        typed<Type>(base, rowOffset(stride, batch, i, head)), d.headDim);
    return row;
  }
  __device__ void store(const Row &row, void *base, const int64_t (&stride)[3],
                        int64_t i, int64_t head) const {
    row.template store<Type>(
        typed<Type>(base, rowOffset(stride, batch, i, head)), d.headDim);
  }

  /// Calls for the block's queries that see nothing, a warp for each.
  template <typename Call> __device__ void forEachQuery(Call call) const {
    if (!any())
      return;
    const int64_t end = min((block + 1) * kAttentionRows, d.seqQ);
    for (int64_t head = headBegin; head < headEnd; ++head)
      for (int64_t i = block * kAttentionRows + warp(); i < end;
           i += blockDim.x / kWarp)
        if (seesNothing(head, i))
          call(head, i);
  }

  __device__ void attend(int64_t head, int64_t i) const {
    const Scoring scoring(a, batch, head);
    const Row query = load(a.q, d.qStride, i, head);
    Running softmax;
    Row out;
    out.clear();
    for (int64_t j = 0; j < d.seqK; ++j) {
      const float product = query.dot(load(a.k, d.kStride, j, kvHead));
      float slope;
      const float s = scoring.score<true>(product, int(i), int(j), slope);
      out.scale(softmax.join(s));
      if (s != minusInfinity())
        out.add(expf(s - softmax.peak), load(a.v, d.vStride, j, kvHead));
    }
    const bool none = softmax.sum == 0;
    if (none && d.hidden == 0)
      return;
    const float nan = __int_as_float(0x7fffffff);
    out.scale(none ? nan : 1 / softmax.sum);
    store(out, a.out, d.outStride, i, head);
    if (lane() == 0)
      lse(head, i) = none ? nan : softmax.peak;
  }

  __device__ void visitQuery(int64_t head, int64_t i) const {
    const Scoring scoring(a, batch, head);
    const Row query = load(a.q, d.qStride, i, head);
    const Row dout = load(a.dout, d.doutStride, i, head);
    const float outDout = delta(head, i);
    Running softmax;
    for (int64_t j = 0; j < d.seqK; ++j) {
      const float product = query.dot(load(a.k, d.kStride, j, kvHead));
      float slope;
      softmax.join(scoring.score<true>(product, int(i), int(j), slope));
    }
    Row dq;
    dq.clear();
    for (int64_t j = 0; j < d.seqK && softmax.sum > 0; ++j) {
      const Row key = load(a.k, d.kStride, j, kvHead);
      float slope;
      const float s =
          scoring.score<true>(query.dot(key), int(i), int(j), slope);
      const float p = expf(s - softmax.peak) / softmax.sum;
      const float dp = dout.dot(load(a.v, d.vStride, j, kvHead));
      dq.add(p * (dp - outDout) * slope * d.scale, key);
    }
    store(dq, a.dq, d.dqStride, i, head);
    __syncwarp();
    if (lane() == 0)
      delta(head, i) = softmax.sum;
  }

  /// After all of the queries.
  __device__ void visitKeys() const {
    if (!any())
      return;
    const int64_t end = min((block + 1) * kAttentionRows, d.seqK);
    for (int64_t j = block * kAttentionRows + warp(); j < end;
         j += blockDim.x / kWarp)
      visitKey(j);
  }

  __device__ void visitKey(int64_t j) const {
    const Row key = load(a.k, d.kStride, j, kvHead);
    const Row value = load(a.v, d.vStride, j, kvHead);
    Row dk = load(a.dk, d.dkStride, j, kvHead);
    Row dv = load(a.dv, d.dvStride, j, kvHead);
    for (int64_t head = headBegin; head < headEnd; ++head) {
      const Scoring scoring(a, batch, head);
      for (int64_t i = 0; i < d.seqQ; ++i)
        if (seesNothing(head, i) && delta(head, i) > 0)
          addPair(scoring, head, i, j, key, value, dk, dv);
    }
    store(dk, a.dk, d.dkStride, j, kvHead);
    store(dv, a.dv, d.dvStride, j, kvHead);
  }

  __device__ void addPair(const Scoring &scoring, int64_t head, int64_t i,
                          int64_t j, const Row &key, const Row &value, Row &dk,
                          Row &dv) const {
    const Row query = load(a.q, d.qStride, i, head);
    const Row dout = load(a.dout, d.doutStride, i, head);
    const float outDout = dout.dot(load(a.out, d.outStride, i, head));
    float slope;
    const float s = scoring.score<true>(query.dot(key), int(i), int(j), slope);
    const float p = expf(s - lse(head, i)) / delta(head, i);
    dv.add(p, dout);
    dk.add(p * (dout.dot(value) - outDout) * slope * d.scale, query);
  }
};

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

#define SHX_KERNELS(name, type)                                                \
  extern "C" __global__ void __launch_bounds__(kAttentionThreads, 1)           \
      shx_k_attention_unseen_##name(const __grid_constant__ AttentionArgs a) { \
    Group<type> group(a);                                                      \
    group.forEachQuery(                                                        \
        [&](int64_t head, int64_t i) { group.attend(head, i); });              \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kAttentionThreads, 1)           \
      shx_k_attention_unseen_queries_##name(                                   \
          const __grid_constant__ AttentionArgs a) {                           \
    Group<type> group(a);                                                      \
    group.forEachQuery(                                                        \
        [&](int64_t head, int64_t i) { group.visitQuery(head, i); });          \
  }                                                                            \
  extern "C" __global__ void __launch_bounds__(kAttentionThreads, 1)           \
      shx_k_attention_unseen_keys_##name(                                      \
          const __grid_constant__ AttentionArgs a) {                           \
    Group<type>(a).visitKeys();                                                \
  }
SHX_FOR_FLOATS(SHX_KERNELS)
