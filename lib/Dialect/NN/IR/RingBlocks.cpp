// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The blocks of scores that attention in a ring consists of.
//
// Of causal attention rank c has an early chunk of the sequence, c, and a late
// one, 2C-1-c. Its own two chunks are a causal block. Of the rank r = c-s,
// around the axis, which is s behind, its queries see two blocks of chunks in
// full and nothing else: the late queries see r's early keys, and where r < c
// the early queries see these, too, else the late queries see r's late keys. So
// every rank does the same work, in one program: which is which of the last two
// is chosen by rank.

#include "AttentionSink.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"

#include <array>
#include <limits>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

constexpr int64_t kSequence = 1;

//===----------------------------------------------------------------------===//
// The blocks
//===----------------------------------------------------------------------===//

int64_t RingReach::chunksSent() const {
  int64_t sent = 0;
  for (int64_t behind = 1; behind < parts; ++behind) {
    sent += lateSeeEarly(behind) || earlySeeEarly(behind) ? 1 : 0;
    sent += lateSeeLate(behind) ? 1 : 0;
  }
  return sent;
}

namespace {

/// The chunks that a block has of queries or keys.
enum class Chunk { Early, Late, Both };
constexpr std::array<Chunk, 2> kChunks = {Chunk::Early, Chunk::Late};

/// What a block of scores is computed of.
struct ScoreBlock {
  Chunk queries, keys;
  /// The early queries see early keys where the rank behind is an earlier one,
  /// else the late queries late ones. Without a window both are chosen by rank;
  /// with one, of ranks that see nothing in the block the keys are hidden.
  bool byRank = false;
  bool causal = false;
};

/// Which blocks there are at each step, and what they are computed of.
template <typename Op> class Ring {
public:
  Ring(Op op, OpBuilder &builder)
      : op(op), b(builder, op.getLoc()), parts(op.getParts()),
        queries(shapeOf(op.getQuery())[kSequence]),
        keys(shapeOf(op.getKey())[kSequence]) {}

  SmallVector<ScoreBlock> blocksOf(int64_t behind);
  /// Whether the step needs a chunk of the other rank's keys.
  bool reads(Chunk chunk, int64_t behind);

  /// The keys of a step, which has some.
  std::pair<Value, Value> receive(int64_t behind);
  /// Of one or two chunks that a step has, in their order, those of one block.
  Value queriesOf(Value local, const ScoreBlock &block, int64_t behind,
                  int64_t axis = kSequence);
  Value keysOf(Value received, const ScoreBlock &block, int64_t behind);
  Value maskOf(const ScoreBlock &block, int64_t behind);

  Value chunkOf(Value local, Chunk chunk, int64_t axis = kSequence);
  Value joined(Value early, Value late, int64_t axis = kSequence);
  Value shifted(Value value, int64_t behind) {
    return PartShiftOp::create(b.builder, b.loc, value, op.getAxis(), parts,
                               behind);
  }
  /// Whether the rank so far behind is an earlier one: i1, of one element.
  Value isEarlier(int64_t behind) {
    return b.compare(ComparePredicate::ge, rank(), number(behind));
  }

  Op op;
  NNBuilder b;
  const int64_t parts;

private:
  Value number(int64_t value) {
    return b.constant(double(value), b.builder.getI32Type(), {1});
  }
  Value rank();
  Value firstKeysOf(const ScoreBlock &block, int64_t behind);
  Value firstIn(Value first, Chunk chunk, int64_t behind);
  Value columnsOf(const ScoreBlock &block, int64_t behind);
  SmallVector<int64_t> sectionsOf(int64_t local) {
    if (op.getZigzag())
      return {local * parts / 2, local * parts / 2};
    return {local * parts};
  }

  const int64_t queries, keys; // of a rank
  Value rankValue;
  llvm::DenseMap<int64_t, Value> columns;
};

} // namespace

template <typename Op> SmallVector<ScoreBlock> Ring<Op>::blocksOf(int64_t s) {
  if (!op.getCausal())
    return {{Chunk::Both, Chunk::Both}};
  if (s == 0)
    return {{Chunk::Both, Chunk::Both, /*byRank=*/false, /*causal=*/true}};
  RingReach reach = {parts, keys / 2, int64_t(op.getWindow())};
  SmallVector<ScoreBlock> blocks;
  if (reach.lateSeeEarly(s))
    blocks.push_back({Chunk::Late, Chunk::Early});
  bool early = reach.earlySeeEarly(s), late = reach.lateSeeLate(s);
  if (early && late)
    blocks.push_back({Chunk::Both, Chunk::Both, /*byRank=*/true});
  else if (early || late)
    blocks.push_back({early ? Chunk::Early : Chunk::Late,
                      early ? Chunk::Early : Chunk::Late, /*byRank=*/true});
  return blocks;
}

template <typename Op> bool Ring<Op>::reads(Chunk chunk, int64_t behind) {
  return llvm::any_of(blocksOf(behind), [&](const ScoreBlock &block) {
    return block.keys == Chunk::Both || block.keys == chunk;
  });
}

template <typename Op>
Value Ring<Op>::chunkOf(Value local, Chunk chunk, int64_t axis) {
  int64_t half = shapeOf(local)[axis] / 2;
  if (chunk == Chunk::Both)
    return local;
  return b.slice(local, axis, chunk == Chunk::Early ? 0 : half, half);
}

template <typename Op>
Value Ring<Op>::joined(Value early, Value late, int64_t axis) {
  return ConcatOp::create(b.builder, b.loc, ValueRange{early, late}, axis);
}

template <typename Op> Value Ring<Op>::rank() {
  if (rankValue)
    return rankValue;
  auto type = RankedTensorType::get({parts}, b.builder.getI32Type());
  Value all = IotaOp::create(b.builder, b.loc, type, 0);
  return rankValue = PartSliceOp::create(b.builder, b.loc, all, op.getAxis(),
                                         parts, 0, ArrayRef(parts));
}

/// Chunks that no rank reads at this step are not sent. In backward all come
/// again: to keep them since forward would be to have all keys.
template <typename Op>
std::pair<Value, Value> Ring<Op>::receive(int64_t behind) {
  Value key = op.getKey(), value = op.getValue();
  if (behind == 0)
    return {key, value};
  auto sendChunk = [&](Value own, Chunk chunk) {
    Value received = shifted(chunkOf(own, chunk), behind);
    if constexpr (std::is_same_v<Op, RingAttentionGradOp>) {
      inheritPlace(received.getDefiningOp(), op);
      setPhase(received.getDefiningOp(), Phase::recompute);
    }
    return received;
  };
  bool early = reads(Chunk::Early, behind), late = reads(Chunk::Late, behind);
  Chunk sent = early && late ? Chunk::Both : early ? Chunk::Early : Chunk::Late;
  Value keys = sendChunk(key, sent);
  return {keys, sendChunk(value, sent)};
}

template <typename Op>
Value Ring<Op>::queriesOf(Value local, const ScoreBlock &block, int64_t behind,
                          int64_t axis) {
  if (!block.byRank || block.queries != Chunk::Both)
    return chunkOf(local, block.queries, axis);
  return b.select(isEarlier(behind), chunkOf(local, Chunk::Early, axis),
                  chunkOf(local, Chunk::Late, axis));
}

template <typename Op>
Value Ring<Op>::keysOf(Value received, const ScoreBlock &block,
                       int64_t behind) {
  // What was not needed did not come.
  if (shapeOf(received)[kSequence] != keys)
    return received;
  return queriesOf(received, {block.keys, block.keys, block.byRank}, behind);
}

/// Of first keys in the whole sequence, those among the keys of a chunk: 0
/// where all of them count.
template <typename Op>
Value Ring<Op>::firstIn(Value first, Chunk chunk, int64_t behind) {
  Value source = b.sub(rank(), number(behind));
  source = b.select(isEarlier(behind), source, b.add(source, number(parts)));
  int64_t length = op.getZigzag() ? keys / 2 : keys;
  if (chunk == Chunk::Late)
    source = b.sub(number(2 * parts - 1), source);
  Value within = b.sub(first, b.mul(source, number(length)));
  within = b.binary<MaxOp>(within, number(0));
  return b.binary<MinOp>(within, number(length));
}

template <typename Op>
Value Ring<Op>::firstKeysOf(const ScoreBlock &block, int64_t behind) {
  if (block.byRank && block.queries == Chunk::Both) {
    std::array<Value, 2> firsts;
    for (auto [first, chunk] : llvm::zip(firsts, kChunks))
      first = firstIn(chunkOf(op.getMask(), chunk, 2), chunk, behind);
    return b.select(isEarlier(behind), firsts[0], firsts[1]);
  }
  Value mask = chunkOf(op.getMask(), block.queries, 2);
  if (block.keys == Chunk::Both && op.getZigzag())
    return b.add(firstIn(mask, Chunk::Early, behind),
                 firstIn(mask, Chunk::Late, behind));
  Chunk chunk = op.getZigzag() ? block.keys : Chunk::Early;
  Value first = firstIn(mask, chunk, behind);
  if (!block.byRank)
    return first;
  Value hidden = number(keys / 2);
  return block.keys == Chunk::Early
             ? b.select(isEarlier(behind), first, hidden)
             : b.select(isEarlier(behind), hidden, first);
}

/// Of a mask of all keys, this rank's queries and the other's keys.
template <typename Op>
Value Ring<Op>::columnsOf(const ScoreBlock &block, int64_t behind) {
  Value mask = op.getMask();
  int64_t column = rankOf(mask) - 1, row = column - 1;
  bool hasColumns = shapeOf(mask)[column] != 1;
  bool hasRows = row >= 0 && shapeOf(mask)[row] != 1;
  Value &all = columns[behind];
  if (!all)
    all = hasColumns
              ? Value(PartSliceOp::create(b.builder, b.loc, mask, op.getAxis(),
                                          parts, column, sectionsOf(keys),
                                          op.getZigzag(), behind))
              : mask;
  auto chunks = [&](Chunk queries, Chunk keys) {
    Value part = hasRows ? chunkOf(all, queries, row) : all;
    return hasColumns ? chunkOf(part, keys, column) : part;
  };
  if (block.byRank)
    return b.select(isEarlier(behind), chunks(Chunk::Early, Chunk::Early),
                    chunks(Chunk::Late, Chunk::Late));
  return chunks(block.queries, block.keys);
}

template <typename Op>
Value Ring<Op>::maskOf(const ScoreBlock &block, int64_t behind) {
  Value mask = op.getMask();
  if (!mask)
    return mask;
  bool first = elementType(mask).isInteger(32);
  return first ? firstKeysOf(block, behind) : columnsOf(block, behind);
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

namespace {

/// What a chunk of queries has seen so far: its result, and the log-sum-exp of
/// its scores.
struct Seen {
  Value result; // f32 [batch, seq, heads, headDim]; null: nothing
  Value lse;    // [batch, heads, seq]
};

class RingForward {
public:
  RingForward(RingAttentionOp op, OpBuilder &builder)
      : op(op), ring(op, builder), b(ring.b) {}
  SmallVector<Value> build();

private:
  void visit(const ScoreBlock &block, int64_t behind, Value key, Value value);
  void merge(Chunk chunk, Value result, Value lse);

  RingAttentionOp op;
  Ring<RingAttentionOp> ring;
  NNBuilder &b;
  Seen chunks[2]; // where it is not causal, the first for all
};

} // namespace

// Shares of two sums of exponentials, from the larger of their logarithms on; a
// query that has seen nothing has -inf.
void RingForward::merge(Chunk chunk, Value result, Value lse) {
  Seen &seen = chunks[chunk == Chunk::Late ? 1 : 0];
  if (!seen.result) {
    seen = {b.f32(result), lse};
    return;
  }
  Value none = b.constant(-std::numeric_limits<double>::infinity());
  Value peak = b.binary<MaxOp>(seen.lse, lse);
  Value base = b.select(b.compare(ComparePredicate::eq, peak, none),
                        b.constant(0), peak);
  Value before = b.unary<ExpOp>(b.sub(seen.lse, base));
  Value more = b.unary<ExpOp>(b.sub(lse, base));
  // The larger of them is 1, unless there is none.
  Value sum = b.binary<MaxOp>(b.add(before, more), b.constant(1));
  Value old = b.mul(seen.result, ofRows(b, b.div(before, sum)));
  Value fresh = b.mul(b.f32(result), ofRows(b, b.div(more, sum)));
  seen = {b.add(old, fresh), b.add(peak, b.unary<LogOp>(sum))};
}

void RingForward::visit(const ScoreBlock &block, int64_t behind, Value key,
                        Value value) {
  auto attention = AttentionOp::create(
      b.builder, b.loc, ring.queriesOf(op.getQuery(), block, behind),
      ring.keysOf(key, block, behind), ring.keysOf(value, block, behind),
      ring.maskOf(block, behind), /*sink=*/Value(), op.getScale(), block.causal,
      /*window=*/0, op.getSoftcap(), /*unguarded=*/false,
      /*hidden=*/APFloat(0.0F));
  Value result = attention.getResult(), lse = attention.getLse();
  if (block.byRank && block.queries == Chunk::Both) {
    Value none = b.constant(-std::numeric_limits<double>::infinity());
    Value early = ring.isEarlier(behind);
    merge(Chunk::Early, result, b.select(early, lse, none));
    merge(Chunk::Late, result, b.select(early, none, lse));
  } else if (block.queries == Chunk::Both && op.getCausal()) {
    for (Chunk chunk : kChunks)
      merge(chunk, ring.chunkOf(result, chunk), ring.chunkOf(lse, chunk, 2));
  } else {
    merge(block.queries, result, lse);
  }
}

SmallVector<Value> RingForward::build() {
  for (int64_t behind = 0; behind < ring.parts; ++behind) {
    SmallVector<ScoreBlock> blocks = ring.blocksOf(behind);
    if (blocks.empty())
      continue;
    auto [key, value] = ring.receive(behind);
    for (const ScoreBlock &block : blocks)
      visit(block, behind, key, value);
  }
  Value result = chunks[0].result, lse = chunks[0].lse;
  if (op.getCausal()) {
    result = ring.joined(result, chunks[1].result);
    lse = ring.joined(lse, chunks[1].lse, 2);
  }
  if (op.getUnguarded()) {
    Value none =
        b.compare(ComparePredicate::eq, lse,
                  b.constant(-std::numeric_limits<double>::infinity()));
    Value nan = b.constant(std::numeric_limits<double>::quiet_NaN());
    lse = b.select(none, nan, lse);
    result = b.add(result, ofRows(b, b.select(none, nan, b.constant(0))));
  }
  if (Value sink = op.getSink())
    return addSink(b, result, lse, sink, elementType(op.getResult()));
  return {b.cast(result, elementType(op.getResult())), lse};
}

FailureOr<SmallVector<Value>> RingAttentionOp::decompose(OpBuilder &builder) {
  return RingForward(*this, builder).build();
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

namespace {

/// A sum in f32 for each chunk, or where it is not causal one for all.
class ChunkSums {
public:
  explicit ChunkSums(NNBuilder &b) : b(b) {}
  void add(Chunk chunk, Value value) {
    Value &sum = sums[chunk == Chunk::Late ? 1 : 0];
    sum = sum ? b.add(sum, b.f32(value)) : b.f32(value);
  }
  Value operator[](Chunk chunk) const {
    return sums[chunk == Chunk::Late ? 1 : 0];
  }

private:
  NNBuilder &b;
  Value sums[2];
};

class RingBackward {
public:
  RingBackward(RingAttentionGradOp op, OpBuilder &builder)
      : op(op), ring(op, builder), b(ring.b), query(b), key(b), value(b) {}
  SmallVector<Value> build();

private:
  AttentionGradOp visit(const ScoreBlock &block, int64_t behind,
                        std::pair<Value, Value> received);
  void add(ChunkSums &sums, Chunk chunk, const ScoreBlock &block,
           int64_t behind, Value gradient);
  void giveBack(ChunkSums &sums, const ChunkSums &step, int64_t behind,
                Type element);
  Value whole(const ChunkSums &sums, Value operand);

  RingAttentionGradOp op;
  Ring<RingAttentionGradOp> ring;
  NNBuilder &b;
  ChunkSums query, key, value;
};

} // namespace

AttentionGradOp RingBackward::visit(const ScoreBlock &block, int64_t behind,
                                    std::pair<Value, Value> received) {
  auto queries = [&](Value local, int64_t axis = kSequence) {
    return ring.queriesOf(local, block, behind, axis);
  };
  // Of the whole softmax: its result and log-sum-exp.
  return AttentionGradOp::create(
      b.builder, b.loc, queries(op.getQuery()),
      ring.keysOf(received.first, block, behind),
      ring.keysOf(received.second, block, behind), ring.maskOf(block, behind),
      queries(op.getResult()), queries(op.getLse(), 2),
      queries(op.getResultGrad()), op.getScale(), block.causal, /*window=*/0,
      op.getSoftcap(), /*hidden=*/APFloat(0.0F));
}

/// A block's gradient belongs to its chunk, or to that which the rank chose.
void RingBackward::add(ChunkSums &sums, Chunk chunk, const ScoreBlock &block,
                       int64_t behind, Value gradient) {
  if (chunk != Chunk::Both || !op.getCausal()) {
    sums.add(chunk, gradient);
  } else if (block.byRank) {
    Value early = ring.isEarlier(behind);
    Value zero = b.constant(0, elementType(gradient));
    sums.add(Chunk::Early, b.select(early, gradient, zero));
    sums.add(Chunk::Late, b.select(early, zero, gradient));
  } else {
    for (Chunk half : kChunks)
      sums.add(half, ring.chunkOf(gradient, half));
  }
}

/// The gradients of another rank's keys go to it, and those of this rank's come
/// from the one so far after it.
void RingBackward::giveBack(ChunkSums &sums, const ChunkSums &step,
                            int64_t behind, Type element) {
  Value early = step[Chunk::Early], late = step[Chunk::Late];
  bool both = early && late;
  Value sent = both ? ring.joined(early, late) : early ? early : late;
  Value own = b.cast(sent, element);
  if (behind > 0)
    own = ring.shifted(own, ring.parts - behind);
  if (both)
    for (Chunk chunk : kChunks)
      sums.add(chunk, ring.chunkOf(own, chunk));
  else
    sums.add(early ? Chunk::Early : Chunk::Late, own);
}

Value RingBackward::whole(const ChunkSums &sums, Value operand) {
  Value all = sums[Chunk::Early];
  if (Value late = sums[Chunk::Late])
    all = ring.joined(all, late);
  return b.cast(all, elementType(operand));
}

SmallVector<Value> RingBackward::build() {
  for (int64_t behind = 0; behind < ring.parts; ++behind) {
    SmallVector<ScoreBlock> blocks = ring.blocksOf(behind);
    if (blocks.empty())
      continue;
    std::pair<Value, Value> received = ring.receive(behind);
    ChunkSums keyStep(b), valueStep(b);
    for (const ScoreBlock &block : blocks) {
      AttentionGradOp grad = visit(block, behind, received);
      add(query, block.queries, block, behind, grad.getQueryGrad());
      add(keyStep, block.keys, block, behind, grad.getKeyGrad());
      add(valueStep, block.keys, block, behind, grad.getValueGrad());
    }
    giveBack(key, keyStep, behind, elementType(op.getKey()));
    giveBack(value, valueStep, behind, elementType(op.getValue()));
  }
  return {whole(query, op.getQuery()), whole(key, op.getKey()),
          whole(value, op.getValue())};
}

FailureOr<SmallVector<Value>>
RingAttentionGradOp::decompose(OpBuilder &builder) {
  return RingBackward(*this, builder).build();
}
