// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Some of the queries at a time, all keys one by one:
//   p = softmax(score)   out = Σ p·v
//   ds = p·(v·dout - out·dout)·∂score/∂(k·q)
//   dv += p·dout         dk += ds·q          dq = Σ ds·k

#include "AttentionUnseen.h"

#include "AttentionPlan.h"
#include "Pool.h"
#include "shardonnx/runtime/Workspace.h"

#include <algorithm>
#include <cmath>

namespace shardonnx::rt {
namespace {

constexpr int64_t kAtOnce = 32; // queries
static_assert(kAtOnce <= kWidestTile && kAtOnce <= kQueryTile,
              "the scratch of attention's kernels holds their rows");

struct Query {
  int64_t head, i;
  float peak, sum; // of exp(score - peak)
  float delta;     // out·dout
};

struct Score {
  float value, slope; // ∂/∂(k·q)
};

/// The queries of the heads that share a kv head of one batch element.
class Unseen {
public:
  Unseen(const ShxAttention &d, const void *mask, int64_t task, float *scratch)
      : d(d), mask(mask), batch(task / d.kvHeads), kvHead(task % d.kvHeads),
        table(kernels()), scratch(scratch) {}

  void run(const AttentionOperands &args) {
    forSome(args.lse, [&] {
      float *key = row(2 * kAtOnce), *value = row(2 * kAtOnce + 1);
      for (int64_t n = 0; n < count; ++n) {
        widen(args.q, d.qStride, queries[n].i, queries[n].head, row(n));
        std::fill_n(row(kAtOnce + n), d.headDim, 0.0f);
      }
      for (int64_t j = 0; j < d.seqK; ++j) {
        widen(args.k, d.kStride, j, kvHead, key);
        widen(args.v, d.vStride, j, kvHead, value);
        for (int64_t n = 0; n < count; ++n)
          visitForward(n, j, key, value);
      }
      for (int64_t n = 0; n < count; ++n)
        storeForward(args, n);
    });
  }

  void runGrad(const AttentionGradOperands &args) {
    forSome(args.lse, [&] {
      for (int64_t n = 0; n < count; ++n)
        loadQuery(args, n);
      float *key = row(3 * kAtOnce);
      for (int64_t j = 0; j < d.seqK; ++j) {
        widen(args.k, d.kStride, j, kvHead, key);
        for (int64_t n = 0; n < count; ++n)
          join(queries[n], score(n, j, key).value);
      }
      for (int64_t j = 0; j < d.seqK; ++j)
        visitKey(args, j);
      for (int64_t n = 0; n < count; ++n)
        table.narrow(d.dtype, row(2 * kAtOnce + n),
                     at(args.dq, d.dqStride, queries[n].i, queries[n].head),
                     d.headDim);
    });
  }

private:
  float *row(int64_t which) const { return scratch + which * d.headDim; }

  const void *at(const void *base, const int64_t *stride, int64_t i,
                 int64_t head) const {
    int64_t element = d.dtype == SHX_F32 ? 4 : 2;
    int64_t offset = batch * stride[0] + i * stride[1] + head * stride[2];
    return static_cast<const char *>(base) + offset * element;
  }
  void *at(void *base, const int64_t *stride, int64_t i, int64_t head) const {
    return const_cast<void *>(
        at(static_cast<const void *>(base), stride, i, head));
  }
  void widen(const void *base, const int64_t *stride, int64_t i, int64_t head,
             float *to) const {
    table.widen(d.dtype, at(base, stride, i, head), to, d.headDim);
  }

  /// Calls with some of the queries that see no key, until none is left.
  template <typename Call> void forSome(const float *lse, Call call) {
    int64_t heads = d.heads / d.kvHeads;
    for (int64_t head = kvHead * heads; head < (kvHead + 1) * heads; ++head)
      for (int64_t i = 0; i < d.seqQ; ++i) {
        if (!(lse[(batch * d.heads + head) * d.seqQ + i] <
              SHX_ATTENTION_UNSEEN))
          continue;
        queries[count++] = {head, i, -INFINITY, 0, 0};
        if (count == kAtOnce) {
          call();
          count = 0;
        }
      }
    if (count > 0)
      call();
  }

  /// Whether the query sees the key, but for numbers that are added.
  bool sees(const Query &query, int64_t j) const {
    int64_t end =
        d.causal ? std::min(d.seqK, query.i + 1 + d.seqK - d.seqQ) : d.seqK;
    if (j >= end || (d.window > 0 && j < end - d.window))
      return false;
    if (!mask || d.maskDtype == SHX_F32)
      return true;
    if (d.maskDtype == SHX_I32)
      return j >= static_cast<const int32_t *>(mask)[maskAt(query)];
    return static_cast<const uint8_t *>(mask)[maskAt(query) + j];
  }
  int64_t maskAt(const Query &query) const {
    return batch * d.maskStride[0] + query.head * d.maskStride[1] +
           query.i * d.maskStride[2];
  }

  Score score(int64_t n, int64_t j, const float *key) const {
    const Query &query = queries[n];
    Score s = {d.scale * dot(row(n), key), d.scale};
    if (d.softcap > 0) {
      float t = std::tanh(s.value / d.softcap);
      s = {d.softcap * t, d.scale * (1 - t * t)};
    }
    if (!sees(query, j)) {
      if (d.hidden == 0)
        s = {-INFINITY, 0};
      else if (d.flags & SHX_ATTENTION_ADDED)
        s.value += d.hidden;
      else
        s = {d.hidden, 0};
    }
    if (mask && d.maskDtype == SHX_F32)
      s.value += static_cast<const float *>(mask)[maskAt(query) + j];
    return s;
  }

  float dot(const float *a, const float *b) const {
    constexpr int64_t kChains = 16; // of which none waits for another
    float sums[kChains] = {};
    int64_t x = 0;
    for (; x + kChains <= d.headDim; x += kChains)
      for (int64_t i = 0; i < kChains; ++i)
        sums[i] += a[x + i] * b[x + i];
    float sum = 0;
    for (; x < d.headDim; ++x)
      sum += a[x] * b[x];
    for (float chain : sums)
      sum += chain;
    return sum;
  }
  void addScaled(float factor, const float *from, float *to) const {
    for (int64_t x = 0; x < d.headDim; ++x)
      to[x] += factor * from[x];
  }

  /// Takes one more score into the sum; what the older sum was multiplied by.
  static float join(Query &query, float score) {
    if (score == -INFINITY)
      return 1;
    float older = query.peak;
    query.peak = std::max(older, score);
    float factor = std::exp(older - query.peak);
    query.sum = query.sum * factor + std::exp(score - query.peak);
    return factor;
  }

  void visitForward(int64_t n, int64_t j, const float *key,
                    const float *value) {
    float s = score(n, j, key).value, *out = row(kAtOnce + n);
    float factor = join(queries[n], s);
    if (factor != 1)
      for (int64_t x = 0; x < d.headDim; ++x)
        out[x] *= factor;
    if (s != -INFINITY)
      addScaled(std::exp(s - queries[n].peak), value, out);
  }

  /// Where all scores are -inf the kernels' result stays, or it is NaN where
  /// numbers were to be added.
  void storeForward(const AttentionOperands &args, int64_t n) {
    const Query &query = queries[n];
    bool none = query.sum == 0;
    if (none && d.hidden == 0)
      return;
    float *out = row(kAtOnce + n);
    for (int64_t x = 0; x < d.headDim; ++x)
      out[x] = none ? NAN : out[x] / query.sum;
    table.narrow(d.dtype, out, at(args.out, d.outStride, query.i, query.head),
                 d.headDim);
    args.lse[(batch * d.heads + query.head) * d.seqQ + query.i] =
        none ? NAN : query.peak;
  }

  /// Rows n of q and of dout, and zeros as dq.
  void loadQuery(const AttentionGradOperands &args, int64_t n) {
    Query &query = queries[n];
    float *out = row(3 * kAtOnce), *dout = row(kAtOnce + n);
    widen(args.q, d.qStride, query.i, query.head, row(n));
    widen(args.dout, d.doutStride, query.i, query.head, dout);
    widen(args.out, d.outStride, query.i, query.head, out);
    query.delta = dot(out, dout);
    std::fill_n(row(2 * kAtOnce + n), d.headDim, 0.0f);
  }

  void visitKey(const AttentionGradOperands &args, int64_t j) {
    float *key = row(3 * kAtOnce), *value = row(3 * kAtOnce + 1),
          *dk = row(3 * kAtOnce + 2), *dv = row(3 * kAtOnce + 3);
    widen(args.k, d.kStride, j, kvHead, key);
    widen(args.v, d.vStride, j, kvHead, value);
    widen(args.dk, d.dkStride, j, kvHead, dk);
    widen(args.dv, d.dvStride, j, kvHead, dv);
    for (int64_t n = 0; n < count; ++n) {
      const Query &query = queries[n];
      Score s = score(n, j, key);
      if (query.sum == 0 || s.value == -INFINITY)
        continue;
      float p = std::exp(s.value - query.peak) / query.sum;
      const float *dout = row(kAtOnce + n);
      float ds = p * (dot(dout, value) - query.delta) * s.slope;
      addScaled(p, dout, dv);
      addScaled(ds, row(n), dk);
      addScaled(ds, key, row(2 * kAtOnce + n));
    }
    table.narrow(d.dtype, dk, at(args.dk, d.dkStride, j, kvHead), d.headDim);
    table.narrow(d.dtype, dv, at(args.dv, d.dvStride, j, kvHead), d.headDim);
  }

  const ShxAttention &d;
  const void *mask;
  const int64_t batch, kvHead;
  const Kernels &table;
  float *scratch;
  Query queries[kAtOnce];
  int64_t count = 0;
};

template <typename Operands, typename Run>
void forEachGroup(const ShxAttention &d, const Operands &args, int64_t bytes,
                  Run run) {
  parallelTasks(d.batch * d.kvHeads, [&](int64_t task) {
    auto *scratch = static_cast<float *>(threadScratch(bytes));
    Unseen unseen(d, args.mask, task, scratch);
    run(unseen);
  });
}

} // namespace

void attendUnseen(const ShxAttention &desc, const AttentionOperands &args,
                  int64_t scratchBytes) {
  forEachGroup(desc, args, scratchBytes, [&](Unseen &u) { u.run(args); });
}

void attendUnseenGrad(const ShxAttention &desc,
                      const AttentionGradOperands &args, int64_t scratchBytes) {
  forEachGroup(desc, args, scratchBytes, [&](Unseen &u) { u.runGrad(args); });
}

} // namespace shardonnx::rt
