// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention forward of a block of queries: scores of a tile of keys at a time,
// with queries in the lanes, the softmax kept as a running peak and sum per
// query; their products with the values have queries in rows, as the output
// has.

#include "IsaKernels.h"

namespace shardonnx::rt::SHX_ISA {
namespace {

// Turns scores into exp(score - peak), updates peak and sum, and leaves in
// `factor` what the older output must be multiplied by.
void onlineSoftmax(int64_t count, float *scores, float *peak, float *sum,
                   float *factor) {
  for (int v = 0; v < kTileVectors; ++v) {
    float *column = scores + v * kLanes;
    auto at = [&](int64_t j) { return column + j * kTileLanes; };
    // Several chains, none of which waits for the other.
    Vec older = load(peak + v * kLanes);
    Vec peaks[4] = {older, older, older, older};
    int64_t j = 0;
    for (; j + 4 <= count; j += 4)
      for (int i = 0; i < 4; ++i)
        peaks[i] = maximum(peaks[i], load(at(j + i)));
    for (; j < count; ++j)
      peaks[0] = maximum(peaks[0], load(at(j)));
    Vec newer =
        maximum(maximum(peaks[0], peaks[1]), maximum(peaks[2], peaks[3]));
    // A query that has seen no key yet: subtract 0, not infinity.
    Vec base = newer == kMinusInfinity ? Vec{} : newer;
    Vec shrink = exponential(older - base);
    Vec total = load(sum + v * kLanes) * shrink;
    for (j = 0; j < count; ++j) {
      Vec p = exponential(load(at(j)) - base);
      store(at(j), p);
      total += p;
    }
    store(peak + v * kLanes, newer);
    store(sum + v * kLanes, total);
    store(factor + v * kLanes, shrink);
  }
}

// A block of queries of all heads that share a kv head.
class ForwardTask {
public:
  ForwardTask(const ShxAttention &d, const AttentionOperands &args,
              int64_t task, int64_t next, float *scratch)
      : d(d), args(args), plan(planAttention(d)), at(forwardScratch(d)),
        scratch(scratch), width(roundUp(d.headDim, kTileLanes)),
        here(place(task)), next(place(next)),
        firstKeys(firstKeysOf(d, args.mask, here.batch)) {}

  void run() {
    for (head = here.heads.begin; head < here.heads.end; ++head)
      visitHead();
  }

private:
  struct Place {
    int64_t batch, kvHead;
    Range heads, queries; // empty: there is no such task
  };

  Place place(int64_t task) const {
    int64_t heads = d.batch * d.kvHeads, group = d.heads / d.kvHeads;
    if (task >= heads * plan.forwardBlocks)
      return {};
    // Late queries see most keys when causal: they go first.
    int64_t block = plan.forwardBlocks - 1 - task / heads;
    int64_t first = block * plan.forwardBlock;
    Place p{};
    p.batch = task % heads / d.kvHeads;
    p.kvHead = task % d.kvHeads;
    p.heads = {p.kvHead * group, (p.kvHead + 1) * group};
    p.queries = {first, least(first + plan.forwardBlock, d.seqQ)};
    return p;
  }

  Rows rowsOf(const void *base, const int64_t *stride, int64_t batch,
              int64_t which, Range rows) const {
    return {d.dtype,
            elementAt(d.dtype, base,
                      batch * stride[0] + rows.begin * stride[1] +
                          which * stride[2]),
            stride[1], rows.end - rows.begin, d.headDim};
  }
  Rows keysOf(const Place &p, Range keys) const {
    return rowsOf(args.k, d.kStride, p.batch, p.kvHead, keys);
  }
  Rows valuesOf(const Place &p, Range keys) const {
    return rowsOf(args.v, d.vStride, p.batch, p.kvHead, keys);
  }
  Rows queriesOf(const Place &p, int64_t which) const {
    return rowsOf(args.q, d.qStride, p.batch, which, p.queries);
  }

  Range chunkAt(int64_t begin) const {
    return {begin, least(begin + kKeyChunk, d.seqK)};
  }

  void visitHead() {
    packLanes(queriesOf(here, head), scratch + at.queries);
    for (int64_t i = 0; i < roundUp(length(here.queries), kTileLanes); ++i) {
      scratch[at.peak + i] = kMinusInfinity;
      scratch[at.sum + i] = 0;
    }
    Range keys = {visibleKeys(d, firstKeys, here.queries.begin).begin,
                  visibleKeys(d, firstKeys, here.queries.end - 1).end};
    ahead.add(rowsOf(args.out, d.outStride, here.batch, head, here.queries));
    for (int64_t j = keys.begin / kKeyChunk * kKeyChunk; j < keys.end;
         j += kKeyChunk)
      visitChunk(chunkAt(j), keys);
    storeOutput();
  }

  static int64_t length(Range range) { return range.end - range.begin; }

  void visitChunk(Range keys, Range visible) {
    if (keys.begin != chunk.begin || keys.end != chunk.end) {
      chunk = keys;
      packed = 0;
    }
    askForNext(visible);
    for (int64_t j = chunk.begin; j < least(chunk.end, visible.end);
         j += kForwardKeys) {
      Range tile = {j, least(j + kForwardKeys, chunk.end)};
      if (tile.end > visible.begin)
        visitKeys(tile);
    }
  }

  // What is read after this chunk.
  void askForNext(Range visible) {
    Range keys = chunkAt(chunk.end);
    keys.end = least(keys.end, visible.end);
    if (keys.begin < keys.end) {
      ahead.add(keysOf(here, keys));
      ahead.add(valuesOf(here, keys));
    } else if (head + 1 < here.heads.end) {
      ahead.add(queriesOf(here, head + 1));
    } else if (length(next.queries) > 0) {
      ahead.add(queriesOf(next, next.heads.begin));
      keys = {0, least(d.seqK, kForwardBlock)};
      ahead.add(keysOf(next, keys));
      ahead.add(valuesOf(next, keys));
    }
  }

  void visitKeys(Range tile) {
    int64_t bit = int64_t(1) << (tile.begin - chunk.begin) / kForwardKeys;
    int64_t from = tile.begin - chunk.begin;
    const float *keys = scratch + at.keys + from * unitsOf(d.headDim);
    const float *values = scratch + at.values + from / Units::kDepth * width;
    if (!(packed & bit)) {
      packed |= bit;
      packRows(keysOf(here, tile), const_cast<float *>(keys));
      packColumns(valuesOf(here, tile), const_cast<float *>(values), width);
    }
    for (int64_t i = here.queries.begin; i < here.queries.end; i += kTileLanes)
      visitGroup({here.batch, head, i, least(i + kTileLanes, here.queries.end)},
                 tile, keys, values);
  }

  void visitGroup(Group group, Range tile, const float *keyRows,
                  const float *values) {
    Range visible = {visibleKeys(d, firstKeys, group.first).begin,
                     visibleKeys(d, firstKeys, group.last - 1).end};
    Range keys = {most(tile.begin, visible.begin),
                  least(tile.end, visible.end)};
    if (keys.begin >= keys.end)
      return;
    bool isFirst = visible.begin >= tile.begin;
    int64_t lane = group.first - here.queries.begin;
    int64_t skipped = (keys.begin - tile.begin) / Units::kDepth; // units
    keys.begin = tile.begin + skipped * Units::kDepth;
    int64_t count = keys.end - keys.begin, units = unitsOf(d.headDim);
    float *scores = scratch + at.scores;
    float factor[kTileLanes];
    multiplyRows<Update::WriteScaled>(
        keysOfFirstLanes(d, firstKeys, group, keys.begin, count), count, units,
        keyRows + (keys.begin - tile.begin) * units,
        scratch + at.queries + lane * units, scores, kTileLanes, ahead,
        &d.scale);
    if (d.softcap > 0)
      capScores(d, count, scores, kTileLanes, nullptr);
    maskTile(d, group, args.mask, keys, scores, kTileLanes);
    onlineSoftmax(count, scores, scratch + at.peak + lane,
                  scratch + at.sum + lane, factor);
    joinRows(count, scores, kTileLanes, scores);
    values += skipped * width;
    if (isFirst)
      addValues<Update::Write>(group, keys, scores, values, factor);
    else
      addValues<Update::ScaleRows>(group, keys, scores, values, factor);
  }

  // Some queries at a time: what none of them sees is left out.
  template <Update How>
  void addValues(Group group, Range keys, const float *scores,
                 const float *values, const float *factor) {
    for (int64_t i = group.first; i < group.last; i += kTileRows) {
      int64_t rows = least(kTileRows, group.last - i);
      int64_t end = visibleKeys(d, firstKeys, i + rows - 1).end;
      int64_t depth = most(0, least(keys.end, end) - keys.begin);
      int64_t lane = i - group.first;
      productOfColumns<Multiply, How>(
          rows, d.headDim,
          scratch + at.output + (i - here.queries.begin) * width, width,
          {scores + lane, 1, kTileLanes}, values, width, unitsOf(depth),
          factor + lane);
      ahead.fetch();
    }
  }

  void storeOutput() {
    // Of a query all of whose scores are -infinity.
    bool unguarded = d.flags & SHX_ATTENTION_UNGUARDED;
    float nothing = unguarded ? __builtin_nanf("") : 0;
    float nothingLse = unguarded ? nothing : kMinusInfinity;
    float *lse = args.lse + (here.batch * d.heads + head) * d.seqQ;
    float inverse[kLanes], logSum[kLanes];
    for (int64_t first = here.queries.begin; first < here.queries.end;
         first += kLanes) {
      int64_t lane = first - here.queries.begin;
      Vec sum = load(scratch + at.sum + lane);
      Vec peak = load(scratch + at.peak + lane);
      store(inverse, 1.0f / sum);
      store(logSum, sum == 0.0f ? splat(nothingLse) : peak + logarithm(sum));
      int64_t count = least(kLanes, here.queries.end - first);
      for (int64_t i = 0; i < count; ++i) {
        lse[first + i] = logSum[i];
        storeRow(first + i, inverse[i], scratch[at.sum + lane + i] == 0,
                 nothing);
      }
    }
  }

  void storeRow(int64_t i, float inverse, bool empty, float nothing) {
    float *row = scratch + at.output + (i - here.queries.begin) * width;
    void *out = elementAt(d.dtype, args.out,
                          here.batch * d.outStride[0] + i * d.outStride[1] +
                              head * d.outStride[2]);
    for (int64_t x = 0; x < width; x += kLanes)
      store(row + x, empty ? splat(nothing) : load(row + x) * inverse);
    narrowRow(d.dtype, row, out, d.headDim);
  }

  const ShxAttention &d;
  const AttentionOperands &args;
  const AttentionPlan plan;
  const ForwardScratch at;
  float *scratch;
  const int64_t width; // of a row of values
  const Place here, next;
  const int32_t *firstKeys;
  int64_t head = 0;
  Range chunk = {0, 0};
  int64_t packed = 0; // tiles of the chunk
  Ahead ahead;
};

} // namespace

void attention(const ShxAttention &desc, const AttentionOperands &args,
               int64_t task, int64_t next, float *scratch) {
  ForwardTask(desc, args, task, next, scratch).run();
}

} // namespace shardonnx::rt::SHX_ISA
