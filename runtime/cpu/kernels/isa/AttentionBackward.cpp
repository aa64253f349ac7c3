// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward. With queries in the lanes, for a tile of keys:
//   p = exp(k·q - lse)        dv += p·dout
//   ds = p∘(v·dout - delta)   dk += ds·q     dq += kᵀ·ds
// where delta = out·dout; the scale multiplies k·q, and dk and dq at the end.
// One task owns a range of keys of one kv head and adds the queries in a fixed
// order.

#include "IsaKernels.h"

namespace shardonnx::rt::SHX_ISA {
namespace {

class BackwardTask {
public:
  BackwardTask(const ShxAttention &d, const AttentionGradOperands &args,
               int64_t task, float *scratch)
      : d(d), args(args), plan(planAttention(d)), at(backwardScratch(d)),
        scratch(scratch), width(roundUp(d.headDim, kTileLanes)) {
    int64_t heads = d.batch * d.kvHeads;
    part = task / heads;
    batch = task % heads / d.kvHeads;
    kvHead = task % d.kvHeads;
    firstKeys = firstKeysOf(d, args.mask, batch);
  }

  void run() {
    int64_t group = d.heads / d.kvHeads;
    if (plan.partialDq)
      for (int64_t h = kvHead * group; h < (kvHead + 1) * group; ++h)
        __builtin_memset(partialRow(h, 0), 0,
                         size_t(d.seqQ * d.headDim) * sizeof(float));
    int64_t begin = part * plan.keyChunks / plan.keyParts;
    int64_t end = (part + 1) * plan.keyChunks / plan.keyParts;
    for (int64_t c = begin; c < end; ++c) {
      chunk = {c * kKeyChunk, least((c + 1) * kKeyChunk, d.seqK)};
      loadKeys();
      for (head = kvHead * group; head < (kvHead + 1) * group; ++head)
        for (first = 0; first < d.seqQ; first += kQueryTile)
          visitQueries();
      storeKeyGradients();
    }
  }

private:
  int64_t offset(const int64_t *stride, int64_t row, int64_t which) const {
    return batch * stride[0] + row * stride[1] + which * stride[2];
  }
  Rows rowsOf(const void *base, const int64_t *stride, int64_t begin,
              int64_t end, int64_t which) const {
    return {d.dtype, elementAt(d.dtype, base, offset(stride, begin, which)),
            stride[1], end - begin, d.headDim};
  }
  float *partialRow(int64_t h, int64_t i) const {
    return args.partialDq + part * plan.partialSize +
           ((batch * d.heads + h) * d.seqQ + i) * d.headDim;
  }

  void loadKeys() {
    Rows keys = rowsOf(args.k, d.kStride, chunk.begin, chunk.end, kvHead);
    packRows(keys, scratch + at.keys);
    if (kPairs)
      packColumns(keys, scratch + at.keyColumns);
    packRows(rowsOf(args.v, d.vStride, chunk.begin, chunk.end, kvHead),
             scratch + at.values);
    int64_t count = chunk.end - chunk.begin;
    for (int64_t i = 0; i < count * width; ++i)
      scratch[at.dkeys + i] = scratch[at.dvalues + i] = 0;
  }

  void storeKeyGradients() {
    for (int64_t j = chunk.begin; j < chunk.end; ++j) {
      int64_t row = (j - chunk.begin) * width;
      for (int64_t x = row; x < row + d.headDim; ++x)
        scratch[at.dkeys + x] *= d.scale;
      narrow(d.dtype, scratch + at.dkeys + row,
             elementAt(d.dtype, args.dk, offset(d.dkStride, j, kvHead)),
             d.headDim);
      narrow(d.dtype, scratch + at.dvalues + row,
             elementAt(d.dtype, args.dv, offset(d.dvStride, j, kvHead)),
             d.headDim);
    }
  }

  void visitQueries() {
    last = least(first + kQueryTile, d.seqQ);
    Range keys = {most(chunk.begin, visibleKeys(d, firstKeys, first).begin),
                  least(chunk.end, visibleKeys(d, firstKeys, last - 1).end)};
    keys.begin -= (keys.begin - chunk.begin) % Units::kDepth;
    if (keys.begin >= keys.end && plan.partialDq)
      return;
    for (int64_t i = 0; i < kQueryTile * d.headDim; ++i)
      scratch[at.dqueries + i] = 0;
    if (keys.begin < keys.end)
      loadQueries();
    for (int64_t j = keys.begin; j < keys.end; j += kKeyTile)
      visitTile({j, least(j + kKeyTile, keys.end)});
    storeQueryGradients();
  }

  void loadQueries() {
    int64_t count = last - first;
    Rows queries = rowsOf(args.q, d.qStride, first, last, head);
    packLanes(queries, scratch + at.queries);
    packLanesOfColumns(queries, scratch + at.queryRows);
    Rows dout = rowsOf(args.dout, d.doutStride, first, last, head);
    packLanes(dout, scratch + at.dout);
    packLanesOfColumns(dout, scratch + at.doutRows);
    const float *lse = args.lse + (batch * d.heads + head) * d.seqQ + first;
    for (int64_t i = 0; i < kQueryTile; ++i) {
      // Lanes without a query, and queries that see no key: p must be 0.
      bool none = i >= count || lse[i] == kMinusInfinity;
      scratch[at.lse + i] = none ? -kMinusInfinity : lse[i];
      scratch[at.delta + i] = i < count ? delta(i) : 0;
    }
  }

  float delta(int64_t i) const {
    float *out = scratch + at.outRow, *dout = scratch + at.doutRow;
    widen(d.dtype,
          elementAt(d.dtype, args.out, offset(d.outStride, first + i, head)),
          out, d.headDim);
    widen(d.dtype,
          elementAt(d.dtype, args.dout, offset(d.doutStride, first + i, head)),
          dout, d.headDim);
    for (int64_t x = d.headDim; x < width; ++x)
      out[x] = dout[x] = 0;
    Vec sum{};
    for (int64_t x = 0; x < width; x += kLanes)
      sum += load(out + x) * load(dout + x);
    return sumLanes(sum);
  }

  void visitTile(Range tile) {
    Range seen[kQueryTile / kTileLanes];
    int64_t groups = 0;
    for (int64_t i = first; i < last; i += kTileLanes) {
      seen[groups] = groupKeys(i, tile);
      if (seen[groups].begin < seen[groups].end)
        visitGroup({batch, head, i, least(i + kTileLanes, last)}, tile,
                   seen[groups]);
      ++groups;
    }
    for (int64_t j = tile.begin; j < tile.end; j += kTileRows)
      addKeyGradients(tile, j, seen, groups);
  }

  // The keys of the tile that the group sees, out to whole rows of products.
  Range groupKeys(int64_t i, Range tile) const {
    int64_t end = least(i + kTileLanes, last);
    Range keys = {most(tile.begin, visibleKeys(d, firstKeys, i).begin),
                  least(tile.end, visibleKeys(d, firstKeys, end - 1).end)};
    if (keys.begin >= keys.end)
      return {tile.begin, tile.begin};
    int64_t begin = (keys.begin - tile.begin) / kTileRows * kTileRows;
    return {tile.begin + begin,
            least(tile.end,
                  tile.begin + roundUp(keys.end - tile.begin, kTileRows))};
  }

  void visitGroup(Group group, Range tile, Range keys) {
    int64_t lane = group.first - first;
    int64_t count = keys.end - keys.begin, units = unitsOf(d.headDim);
    int64_t skipped = (keys.begin - chunk.begin) * units;
    int64_t corner = (keys.begin - tile.begin) * kQueryTile + lane;
    float *p = scratch + at.probabilities + corner;
    float *ds = scratch + at.dscores + corner;
    product<Multiply, Update::Write>(
        count, ds, kQueryTile, {scratch + at.values + skipped, units, 1},
        scratch + at.dout + lane * units, kTileLanes, units);
    if (d.softcap > 0) // its slope multiplies v·dout - delta
      subtractDelta(count, lane, ds);
    scoreTile(d, keys, scratch + at.keys + skipped,
              scratch + at.queries + lane * units, p, kQueryTile, ds);
    maskTile(d, group, args.mask, keys, p, kQueryTile);
    for (int v = 0; v < kTileVectors; ++v) {
      Vec lse = load(scratch + at.lse + lane + v * kLanes);
      Vec delta =
          d.softcap > 0 ? Vec{} : load(scratch + at.delta + lane + v * kLanes);
      for (int64_t j = 0; j < count; ++j) {
        int64_t to = j * kQueryTile + v * kLanes;
        Vec probability = exponential(load(p + to) - lse);
        store(p + to, probability);
        store(ds + to, probability * (load(ds + to) - delta));
      }
    }
    addQueryGradients(lane, keys, ds);
    // As operands of dv and dk, over what earlier groups no longer need.
    joinInRows(count, p, kQueryTile, p - lane + lane / Units::kDepth);
    joinInRows(count, ds, kQueryTile, ds - lane + lane / Units::kDepth);
  }

  void addQueryGradients(int64_t lane, Range keys, const float *ds) {
    int64_t count = keys.end - keys.begin;
    const float *columns = scratch + (kPairs ? at.keyColumns : at.keys);
    float *joined = scratch + at.dscoreColumns;
    joinRows(count, ds, kQueryTile, joined);
    product<Multiply, Update::Add>(
        d.headDim, scratch + at.dqueries + lane * d.headDim, kTileLanes,
        {columns + (keys.begin - chunk.begin) / Units::kDepth * d.headDim, 1,
         d.headDim},
        kPairs ? joined : ds, kPairs ? kTileLanes : kQueryTile, unitsOf(count));
  }

  void subtractDelta(int64_t count, int64_t lane, float *ds) const {
    for (int v = 0; v < kTileVectors; ++v) {
      Vec delta = load(scratch + at.delta + lane + v * kLanes);
      for (int64_t j = 0; j < count; ++j) {
        float *to = ds + j * kQueryTile + v * kLanes;
        store(to, load(to) - delta);
      }
    }
  }

  // Rows [j, j + kTileRows) of dk and dv, from the groups that see them: a run
  // of groups, since what a query sees moves one way.
  void addKeyGradients(Range tile, int64_t j, const Range *seen,
                       int64_t groups) {
    auto sees = [&](int64_t g) {
      return seen[g].begin <= j && j < seen[g].end;
    };
    int64_t begin = 0, end = groups;
    while (begin < end && !sees(begin))
      ++begin;
    while (end > begin && !sees(end - 1))
      --end;
    if (begin == end)
      return;
    int64_t lane = begin * kTileLanes;
    int64_t depth = least(end * kTileLanes, last - first) - lane;
    int64_t rows = least(kTileRows, tile.end - j);
    int64_t row = (j - chunk.begin) * width;
    int64_t corner = (j - tile.begin) * kQueryTile + lane / Units::kDepth;
    auto add = [&](int64_t sums, int64_t left, int64_t right) {
      int64_t groupUnits = unitsOf(last - first) * kTileLanes;
      right += lane / Units::kDepth * kTileLanes;
      for (int64_t x = 0; x < width; x += kTileLanes)
        product<Multiply, Update::Add>(rows, scratch + sums + row + x, width,
                                       {scratch + left + corner, kQueryTile, 1},
                                       scratch + right +
                                           x / kTileLanes * groupUnits,
                                       kTileLanes, unitsOf(depth));
    };
    add(at.dvalues, at.probabilities, at.doutRows);
    add(at.dkeys, at.dscores, at.queryRows);
  }

  void storeQueryGradients() {
    float *rows = scratch + at.queryRows;
    for (int64_t i = first; i < last; i += kTileLanes)
      transpose(d.headDim, kTileLanes,
                scratch + at.dqueries + (i - first) * d.headDim, kTileLanes,
                rows + (i - first) * d.headDim, d.headDim);
    for (int64_t i = 0; i < (last - first) * d.headDim; ++i)
      rows[i] *= d.scale;
    if (plan.partialDq) {
      float *to = partialRow(head, first);
      for (int64_t i = 0; i < (last - first) * d.headDim; ++i)
        to[i] += rows[i];
      return;
    }
    for (int64_t i = first; i < last; ++i)
      narrow(d.dtype, rows + (i - first) * d.headDim,
             elementAt(d.dtype, args.dq, offset(d.dqStride, i, head)),
             d.headDim);
  }

  const ShxAttention &d;
  const AttentionGradOperands &args;
  const AttentionPlan plan;
  const BackwardScratch at;
  float *scratch;
  const int64_t width; // of the rows whose lanes are the head dim
  int64_t batch, kvHead, head, part, first, last;
  const int32_t *firstKeys;
  Range chunk;
};

} // namespace

void attentionGrad(const ShxAttention &desc, const AttentionGradOperands &args,
                   int64_t task, float *scratch) {
  BackwardTask(desc, args, task, scratch).run();
}

} // namespace shardonnx::rt::SHX_ISA
