// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention forward of one tile of queries: scores of a tile of keys at a
// time, the softmax kept as a running peak and sum per query.

#include "IsaKernels.h"

namespace shardonnx::rt::SHX_ISA {
namespace {

// Turns scores into exp(score - peak), updates peak and sum, and leaves in
// `factor` what the older output must be multiplied by.
void onlineSoftmax(int64_t count, float *scores, float *peak, float *sum,
                   float *factor) {
  for (int v = 0; v < kTileVectors; ++v) {
    float *column = scores + v * kLanes;
    Vec older = load(peak + v * kLanes), newer = older;
    for (int64_t j = 0; j < count; ++j)
      newer = maximum(newer, load(column + j * kTileLanes));
    // A query that has seen no key yet: subtract 0, not infinity.
    Vec base = newer == kMinusInfinity ? Vec{} : newer;
    Vec shrink = exponential(older - base);
    Vec total = load(sum + v * kLanes) * shrink;
    for (int64_t j = 0; j < count; ++j) {
      Vec p = exponential(load(column + j * kTileLanes) - base);
      store(column + j * kTileLanes, p);
      total += p;
    }
    store(peak + v * kLanes, newer);
    store(sum + v * kLanes, total);
    store(factor + v * kLanes, shrink);
  }
}

class ForwardTile {
public:
  ForwardTile(const ShxAttention &d, const AttentionOperands &args,
              int64_t task, float *scratch)
      : d(d), args(args), at(forwardScratch(d)), scratch(scratch) {
    int64_t heads = d.batch * d.heads;
    // Late queries see most keys when causal: they go first.
    int64_t tile = planAttention(d).forwardTiles - 1 - task / heads;
    batch = task % heads / d.heads;
    head = task % d.heads;
    first = tile * kForwardTile;
    last = least(first + kForwardTile, d.seqQ);
    firstKeys = firstKeysOf(d, args.mask, batch);
  }

  void run() {
    loadQueries();
    Range keys = {visibleKeys(d, firstKeys, first).begin,
                  visibleKeys(d, firstKeys, last - 1).end};
    for (int64_t j = keys.begin; j < keys.end; j += kKeyTile)
      visitKeys({j, least(j + kKeyTile, keys.end)});
    storeOutput();
  }

private:
  const void *operand(const void *base, const int64_t *stride, int64_t which,
                      int64_t row) const {
    return elementAt(d.dtype, base,
                     batch * stride[0] + row * stride[1] + which * stride[2]);
  }

  void loadQueries() {
    packLanes({d.dtype, operand(args.q, d.qStride, head, first), d.qStride[1],
               last - first, d.headDim},
              scratch + at.queries);
    for (int64_t i = 0; i < kForwardTile; ++i) {
      scratch[at.peak + i] = kMinusInfinity;
      scratch[at.sum + i] = 0;
    }
    for (int64_t i = 0; i < kForwardTile * d.headDim; ++i)
      scratch[at.output + i] = 0;
  }

  void visitKeys(Range tile) {
    int64_t kvHead = head * d.kvHeads / d.heads;
    packRows({d.dtype, operand(args.k, d.kStride, kvHead, tile.begin),
              d.kStride[1], tile.end - tile.begin, d.headDim},
             scratch + at.keys);
    packColumns({d.dtype, operand(args.v, d.vStride, kvHead, tile.begin),
                 d.vStride[1], tile.end - tile.begin, d.headDim},
                scratch + at.values);
    for (int64_t i = first; i < last; i += kTileLanes)
      visitGroup({batch, head, i, least(i + kTileLanes, last)}, tile);
  }

  void visitGroup(Group group, Range tile) {
    Range keys = {
        most(tile.begin, visibleKeys(d, firstKeys, group.first).begin),
        least(tile.end, visibleKeys(d, firstKeys, group.last - 1).end)};
    if (keys.begin >= keys.end)
      return;
    int64_t lane = group.first - first;
    int64_t skipped = (keys.begin - tile.begin) / Units::kDepth; // units
    keys.begin = tile.begin + skipped * Units::kDepth;
    int64_t count = keys.end - keys.begin, units = unitsOf(d.headDim);
    float *scores = scratch + at.scores;
    float factor[kTileLanes];
    scoreTile(d, keys, scratch + at.keys + (keys.begin - tile.begin) * units,
              scratch + at.queries + lane * units, scores, kTileLanes, nullptr);
    maskTile(d, group, args.mask, keys, scores, kTileLanes);
    onlineSoftmax(count, scores, scratch + at.peak + lane,
                  scratch + at.sum + lane, factor);
    joinRows(count, scores, kTileLanes, scores);
    product<Multiply, Update::Scale>(
        d.headDim, scratch + at.output + lane * d.headDim, kTileLanes,
        {scratch + at.values + skipped * d.headDim, 1, d.headDim}, scores,
        kTileLanes, unitsOf(count), factor);
  }

  void storeOutput() {
    float *rows = scratch + at.rows;
    // Of a query all of whose scores are -infinity.
    bool unguarded = d.flags & SHX_ATTENTION_UNGUARDED;
    float nothing = unguarded ? __builtin_nanf("") : 0;
    float nothingLse = unguarded ? nothing : kMinusInfinity;
    float *lse = args.lse + (batch * d.heads + head) * d.seqQ;
    for (int64_t i = first; i < last; i += kTileLanes)
      transpose(d.headDim, kTileLanes,
                scratch + at.output + (i - first) * d.headDim, kTileLanes,
                rows + (i - first) * d.headDim, d.headDim);
    for (int64_t i = first; i < last; ++i) {
      float sum = scratch[at.sum + i - first];
      float *row = rows + (i - first) * d.headDim;
      float inverse = sum == 0 ? nothing : 1 / sum;
      for (int64_t x = 0; x < d.headDim; ++x)
        row[x] *= inverse;
      void *out = elementAt(d.dtype, args.out,
                            batch * d.outStride[0] + i * d.outStride[1] +
                                head * d.outStride[2]);
      narrow(d.dtype, row, out, d.headDim);
      lse[i] = sum == 0 ? nothingLse
                        : scratch[at.peak + i - first] + __builtin_logf(sum);
    }
  }

  const ShxAttention &d;
  const AttentionOperands &args;
  const ForwardScratch at;
  float *scratch;
  int64_t batch, head, first, last;
  const int32_t *firstKeys;
};

} // namespace

void attention(const ShxAttention &desc, const AttentionOperands &args,
               int64_t task, float *scratch) {
  ForwardTile(desc, args, task, scratch).run();
}

} // namespace shardonnx::rt::SHX_ISA
