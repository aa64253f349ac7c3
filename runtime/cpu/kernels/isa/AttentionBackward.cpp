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
#include "shardonnx/runtime/UnseenQueries.h"

namespace shardonnx::rt::SHX_ISA {
namespace {

class BackwardTask {
public:
  BackwardTask(const ShxAttention &d, const AttentionGradOperands &args,
               int64_t task, int64_t next, float *scratch)
      : d(d), args(args), plan(planAttention(d)), at(backwardScratch(d)),
        scratch(scratch), width(roundUp(d.headDim, kTileLanes)),
        units(unitsOf(d.headDim)), here(place(task)), next(place(next)),
        firstKeys(firstKeysOf(d, args.mask, here.batch)) {}

  void run() {
    if (plan.partialDq)
      for (head = here.heads.begin; head < here.heads.end; ++head)
        __builtin_memset(partialRow(head, 0), 0,
                         size_t(d.seqQ * d.headDim) * sizeof(float));
    for (int64_t c = here.chunks.begin; c < here.chunks.end; ++c) {
      chunk = chunkAt(c);
      loadKeys();
      for (head = here.heads.begin; head < here.heads.end; ++head)
        for (first = 0; first < d.seqQ; first += kQueryTile)
          visitQueries(c);
      storeKeyGradients();
    }
  }

private:
  struct Place {
    int64_t batch, kvHead, part;
    Range heads, chunks; // empty: there is no such task
  };

  Place place(int64_t task) const {
    int64_t heads = d.batch * d.kvHeads, group = d.heads / d.kvHeads;
    if (task >= heads * plan.keyParts)
      return {};
    Place p{};
    p.part = task / heads;
    p.batch = task % heads / d.kvHeads;
    p.kvHead = task % d.kvHeads;
    p.heads = {p.kvHead * group, (p.kvHead + 1) * group};
    p.chunks = {p.part * plan.keyChunks / plan.keyParts,
                (p.part + 1) * plan.keyChunks / plan.keyParts};
    return p;
  }

  Range chunkAt(int64_t c) const {
    return {c * kKeyChunk, least((c + 1) * kKeyChunk, d.seqK)};
  }
  int64_t offset(const int64_t *stride, int64_t row, int64_t which) const {
    return here.batch * stride[0] + row * stride[1] + which * stride[2];
  }
  Rows rowsOf(const void *base, const int64_t *stride, int64_t begin,
              int64_t end, int64_t which) const {
    return {d.dtype, elementAt(d.dtype, base, offset(stride, begin, which)),
            stride[1], end - begin, d.headDim};
  }
  float *partialRow(int64_t h, int64_t i) const {
    return args.partialDq + here.part * plan.partialSize +
           ((here.batch * d.heads + h) * d.seqQ + i) * d.headDim;
  }

  void loadKeys() {
    Rows keys = rowsOf(args.k, d.kStride, chunk.begin, chunk.end, here.kvHead);
    packRows(keys, scratch + at.keys);
    if (kPairs)
      packColumns(keys, scratch + at.keyColumns, width);
    packRows(rowsOf(args.v, d.vStride, chunk.begin, chunk.end, here.kvHead),
             scratch + at.values);
    int64_t count = chunk.end - chunk.begin;
    for (int64_t i = 0; i < count * width; ++i)
      scratch[at.dkeys + i] = scratch[at.dvalues + i] = 0;
  }

  // A row of a gradient, times `scale`, to where it belongs.
  void storeRow(float *row, float scale, void *to) const {
    for (int64_t x = 0; x < width; x += kLanes)
      store(row + x, load(row + x) * scale);
    narrowRow(d.dtype, row, to, d.headDim);
  }

  void storeKeyGradients() {
    for (int64_t j = chunk.begin; j < chunk.end; ++j) {
      int64_t row = (j - chunk.begin) * width;
      storeRow(scratch + at.dkeys + row, d.scale,
               elementAt(d.dtype, args.dk, offset(d.dkStride, j, here.kvHead)));
      storeRow(scratch + at.dvalues + row, 1,
               elementAt(d.dtype, args.dv, offset(d.dvStride, j, here.kvHead)));
    }
  }

  void visitQueries(int64_t c) {
    last = least(first + kQueryTile, d.seqQ);
    Range keys = {most(chunk.begin, visibleKeys(d, firstKeys, first).begin),
                  least(chunk.end, visibleKeys(d, firstKeys, last - 1).end)};
    keys.begin -= (keys.begin - chunk.begin) % Units::kDepth;
    if (keys.begin >= keys.end && plan.partialDq)
      return;
    for (int64_t i = 0; i < kQueryTile * width; ++i)
      scratch[at.dqueries + i] = 0;
    if (keys.begin < keys.end)
      loadQueries();
    askForNext(c);
    for (int64_t j = keys.begin; j < keys.end; j += kKeyTile)
      visitTile({j, least(j + kKeyTile, keys.end)});
    storeQueryGradients();
  }

  void askForQueries(int64_t h, int64_t begin) {
    int64_t end = least(begin + kQueryTile, d.seqQ);
    ahead.add(rowsOf(args.q, d.qStride, begin, end, h));
    ahead.add(rowsOf(args.dout, d.doutStride, begin, end, h));
    ahead.add(rowsOf(args.out, d.outStride, begin, end, h));
    if (!plan.partialDq)
      ahead.add(rowsOf(args.dq, d.dqStride, begin, end, h));
  }

  // What is read after this tile of queries, and a part of what is read and
  // written after the last one.
  void askForNext(int64_t c) {
    if (last < d.seqQ)
      askForQueries(head, last);
    else if (head + 1 < here.heads.end)
      askForQueries(head + 1, 0);
    int64_t tiles = ceilDiv(d.seqQ, kQueryTile);
    int64_t tile = (head - here.heads.begin) * tiles + first / kQueryTile;
    tiles *= here.heads.end - here.heads.begin;
    auto add = [&](const void *base, const int64_t *stride, Range keys,
                   int64_t batch, int64_t kvHead) {
      int64_t count = keys.end - keys.begin;
      int64_t begin = keys.begin + tile * count / tiles;
      int64_t end = keys.begin + (tile + 1) * count / tiles;
      int64_t from = batch * stride[0] + begin * stride[1] + kvHead * stride[2];
      ahead.add({d.dtype, elementAt(d.dtype, base, from), stride[1],
                 end - begin, d.headDim});
    };
    add(args.dk, d.dkStride, chunk, here.batch, here.kvHead);
    add(args.dv, d.dvStride, chunk, here.batch, here.kvHead);
    bool more = c + 1 < here.chunks.end;
    const Place &then = more ? here : next;
    if (then.chunks.begin == then.chunks.end)
      return;
    Range keys = chunkAt(more ? c + 1 : then.chunks.begin);
    add(args.k, d.kStride, keys, then.batch, then.kvHead);
    add(args.v, d.vStride, keys, then.batch, then.kvHead);
  }

  void loadQueries() {
    int64_t count = last - first;
    Rows queries = rowsOf(args.q, d.qStride, first, last, head);
    packLanes(queries, scratch + at.queries);
    packColumns(queries, scratch + at.queryRows, width);
    Rows dout = rowsOf(args.dout, d.doutStride, first, last, head);
    packLanes(dout, scratch + at.dout);
    packColumns(dout, scratch + at.doutRows, width);
    Rows out = rowsOf(args.out, d.outStride, first, last, head);
    const float *lse =
        args.lse + (here.batch * d.heads + head) * d.seqQ + first;
    float least =
        mayBeUnseen(d, args.mask) ? SHX_ATTENTION_UNSEEN : kMinusInfinity;
    for (int64_t i = 0; i < kQueryTile; ++i) {
      // Lanes without a query, and queries that see no key: p must be 0.
      bool none = i >= count || lse[i] <= least;
      scratch[at.lse + i] = none ? -kMinusInfinity : lse[i];
      scratch[at.delta + i] = i < count ? delta(out, dout, i) : 0;
    }
  }

  float delta(const Rows &outRows, const Rows &doutRows, int64_t i) const {
    if (d.dtype == SHX_F32 && d.headDim % kLanes == 0)
      return dotOfRows(static_cast<const float *>(outRows.row(i)),
                       static_cast<const float *>(doutRows.row(i)));
    float *out = scratch + at.outRow, *dout = scratch + at.doutRow;
    widenRow(outRows, i, out);
    widenRow(doutRows, i, dout);
    for (int64_t x = d.headDim; x < width; ++x)
      out[x] = dout[x] = 0;
    return dotOfRows(out, dout);
  }
  float dotOfRows(const float *a, const float *b) const {
    Vec sum{};
    for (int64_t x = 0; x < d.headDim; x += kLanes)
      sum += load(a + x) * load(b + x);
    return sumLanes(sum);
  }

  void visitTile(Range tile) {
    Range seen[kQueryTile / kTileLanes];
    int64_t groups = 0;
    for (int64_t i = first; i < last; i += kTileLanes) {
      Group group = {here.batch, head, i, least(i + kTileLanes, last)};
      Range keys = groupKeys(group, tile);
      seen[groups] = {tile.begin, tile.begin};
      if (keys.begin < keys.end)
        seen[groups] = visitGroup(group, tile, keys);
      ++groups;
    }
    for (int64_t j = tile.begin; j < tile.end; j += kTileRows)
      addKeyGradients(tile, j, seen, groups);
  }

  // The keys of the tile that the group sees, from a whole row of products on.
  Range groupKeys(const Group &group, Range tile) const {
    Range keys = {
        most(tile.begin, visibleKeys(d, firstKeys, group.first).begin),
        least(tile.end, visibleKeys(d, firstKeys, group.last - 1).end)};
    keys.begin -= (keys.begin - tile.begin) % kTileRows;
    return keys;
  }

  // Returns the keys of which p and ds are known: out to whole rows of
  // products.
  Range visitGroup(Group group, Range tile, Range keys) {
    int64_t lane = group.first - first, count = keys.end - keys.begin;
    int64_t whole = least(roundUp(count, kTileRows), tile.end - keys.begin);
    int64_t both = keysOfFirstLanes(d, firstKeys, group, keys.begin, count);
    int64_t skipped = (keys.begin - chunk.begin) * units;
    int64_t corner = (keys.begin - tile.begin) * kQueryTile + lane;
    float *p = scratch + at.probabilities + corner;
    float *ds = scratch + at.dscores + corner;
    multiplyRows<Update::Write>(
        both, count, units, scratch + at.values + skipped,
        scratch + at.dout + lane * units, ds, kQueryTile, ahead);
    if (d.softcap > 0) // its slope multiplies v·dout - delta
      subtractDelta(count, lane, ds);
    multiplyRows<Update::WriteScaled>(
        both, count, units, scratch + at.keys + skipped,
        scratch + at.queries + lane * units, p, kQueryTile, ahead, &d.scale);
    if (d.softcap > 0)
      capScores(d, count, p, kQueryTile, ds);
    maskTile(d, group, args.mask, keys, p, kQueryTile);
    for (int v = 0; v < kTileVectors; ++v)
      differentiate(v == 0 ? both : count, whole, lane + v * kLanes,
                    p + v * kLanes, ds + v * kLanes);
    addQueryGradients(group, keys, ds);
    // As operands of dv and dk, over what earlier groups no longer need.
    joinInRows(whole, p, kQueryTile, p - lane + lane / Units::kDepth);
    joinInRows(whole, ds, kQueryTile, ds - lane + lane / Units::kDepth);
    return {keys.begin, keys.begin + whole};
  }

  // Of a vector of lanes: scores become p, v·dout becomes ds, and both 0 in
  // what is left of `whole` rows.
  void differentiate(int64_t count, int64_t whole, int64_t lane, float *p,
                     float *ds) const {
    Vec lse = load(scratch + at.lse + lane);
    Vec delta = d.softcap > 0 ? Vec{} : load(scratch + at.delta + lane);
    for (int64_t j = 0; j < count; ++j) {
      int64_t to = j * kQueryTile;
      Vec probability = exponential(load(p + to) - lse);
      store(p + to, probability);
      store(ds + to, probability * (load(ds + to) - delta));
    }
    for (int64_t j = count; j < whole; ++j) {
      store(p + j * kQueryTile, Vec{});
      store(ds + j * kQueryTile, Vec{});
    }
  }

  // Some queries at a time: what none of them sees is left out.
  void addQueryGradients(Group group, Range keys, const float *ds) {
    int64_t skipped = (keys.begin - chunk.begin) / Units::kDepth;
    float *joined = scratch + at.dscoreColumns;
    joinRows(keys.end - keys.begin, ds, kQueryTile, joined);
    for (int64_t i = group.first; i < group.last; i += kTileRows) {
      int64_t rows = least(kTileRows, group.last - i);
      int64_t end = visibleKeys(d, firstKeys, i + rows - 1).end;
      int64_t depth = most(0, least(keys.end, end) - keys.begin);
      float *sums = scratch + at.dqueries + (i - first) * width;
      int64_t lane = i - group.first;
      if (kPairs)
        productOfColumns<Multiply, Update::Add>(
            rows, d.headDim, sums, width, {joined + lane, 1, kTileLanes},
            scratch + at.keyColumns + skipped * width, width, unitsOf(depth));
      else // lanes beyond the head's hold what is never stored
        productOfColumns<Multiply, Update::Add>(
            rows, d.headDim, sums, width, {ds + lane, 1, kQueryTile},
            scratch + at.keys + skipped * d.headDim, d.headDim, depth);
      ahead.fetch();
    }
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

  // Rows [j, j + kTileRows) of dk and dv, from the queries that see them: of a
  // run of groups, since what a query sees moves one way.
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
    Range lanes = {begin * kTileLanes, least(end * kTileLanes, last - first)};
    if (d.causal) // the first query that sees j
      lanes.begin = most(lanes.begin, j - d.seqK + d.seqQ - first);
    int64_t unit = lanes.begin / Units::kDepth;
    int64_t depth = unitsOf(lanes.end) - unit;
    int64_t row = (j - chunk.begin) * width;
    int64_t corner = (j - tile.begin) * kQueryTile + unit;
    auto add = [&](int64_t sums, int64_t left, int64_t right) {
      productOfColumns<Multiply, Update::Add>(
          least(kTileRows, tile.end - j), d.headDim, scratch + sums + row,
          width, {scratch + left + corner, kQueryTile, 1},
          scratch + right + unit * width, width, depth);
      ahead.fetch();
    };
    add(at.dvalues, at.probabilities, at.doutRows);
    add(at.dkeys, at.dscores, at.queryRows);
  }

  void storeQueryGradients() {
    for (int64_t i = first; i < last; ++i) {
      float *row = scratch + at.dqueries + (i - first) * width;
      if (!plan.partialDq) {
        storeRow(row, d.scale,
                 elementAt(d.dtype, args.dq, offset(d.dqStride, i, head)));
        continue;
      }
      float *to = partialRow(head, i);
      for (int64_t x = 0; x < d.headDim; ++x)
        to[x] += row[x] * d.scale;
    }
  }

  const ShxAttention &d;
  const AttentionGradOperands &args;
  const AttentionPlan plan;
  const BackwardScratch at;
  float *scratch;
  const int64_t width; // of the rows whose lanes are the head dim
  const int64_t units; // of a key
  const Place here, next;
  const int32_t *firstKeys;
  int64_t head = 0, first = 0, last = 0;
  Range chunk = {0, 0};
  Ahead ahead;
};

} // namespace

void attentionGrad(const ShxAttention &desc, const AttentionGradOperands &args,
                   int64_t task, int64_t next, float *scratch) {
  BackwardTask(desc, args, task, next, scratch).run();
}

} // namespace shardonnx::rt::SHX_ISA
