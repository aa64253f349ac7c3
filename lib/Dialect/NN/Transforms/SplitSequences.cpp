// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-split-sequences: the graph of one rank of the context axis. What is
// computed of tokens is split along the sequence, from the embeddings to the
// loss, and attention is computed by heads between two nn.all_to_all, in a
// ring, or of all keys (ContextAttention.h).

#include "ContextAttention.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Cost/Device.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Support/UsageError.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_SPLITSEQUENCESPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {

/// Decides how everything lies (`plan`), then changes the block so.
class SequenceSplitter {
public:
  SequenceSplitter(func::FuncOp function, ContextRanks ranks,
                   ContextAttention asked, const Device *device)
      : function(function), block(function.front()), ranks(ranks),
        parts(ranks.parts), tensor(ranks.tensor), way(asked), device(device) {}

  LogicalResult run();

private:
  InFlightDiagnostic refuse(Operation *op) {
    return emitUsageError(op) << "--mesh: context:" << parts << ' ';
  }
  LogicalResult findTokens();
  LogicalResult chooseWay();
  void prepareHeads(AttentionOp op);
  Sharding partOf(int64_t dim, int64_t length, int64_t batch = 1) const;
  Value repeated(Value heads, int64_t times, Operation *reader);
  LogicalResult planDropout(DropoutOp op);
  LogicalResult planExperts(GroupedMatmulOp op);
  void makeDropout(DropoutOp op, const Sharding &lie);
  LogicalResult planRows(AttentionOp op);
  void makeGathered(AttentionOp op);
  Value gathered(Value value, AttentionOp reader);
  Value maskOfRows(AttentionOp op);
  Value rowsOfMask(AttentionOp op);
  Value firstKeysInWindow(AttentionOp op, Value mask);
  void makeRing(AttentionOp op, const ShardingQuery &query);
  std::optional<Sharding> idsOf(EmbeddingOp op) const;
  SmallVector<Sharding> operandsOf(Operation *op) const;
  LogicalResult plan(Operation *op);
  LogicalResult check(Operation *op, ShardingQuery &query,
                      LogicalResult answer);
  LogicalResult checkLoss(LossOp loss);
  Sharding byTensorParts(const Sharding &heads) const;
  void bringOperands(Operation *op, const ShardingQuery &query);
  void makeLocal(Operation *op, const ShardingQuery &query);
  Value brought(Value value, const Sharding &needed, Operation *reader);
  AllToAllOp moved(Value value, const Sharding &from, const Sharding &to,
                   Operation *reader);

  func::FuncOp function;
  Block &block;
  const ContextRanks ranks;
  const int64_t parts, tensor;
  ContextAttention way;
  const Device *device; // whose time is predicted, or null
  bool zigzag = false;  // sequences are split so
  llvm::SetVector<std::pair<int64_t, int64_t>> sequences; // batch, length
  llvm::DenseMap<Value, Sharding> lies;
  llvm::MapVector<Operation *, ShardingQuery> queries;
  /// Attention of a rank's queries over all keys on it.
  llvm::DenseSet<Operation *> gathering;
  llvm::DenseMap<Value, SmallVector<PartSliceOp>> slices;
};

} // namespace

//===----------------------------------------------------------------------===//
// What is there
//===----------------------------------------------------------------------===//

/// Embeddings that read an input of the function tell batch and sequence.
LogicalResult SequenceSplitter::findTokens() {
  for (auto op : block.getOps<EmbeddingOp>()) {
    Value ids = op.getIds();
    while (auto reshape = ids.getDefiningOp<ReshapeOp>())
      ids = reshape.getOperand();
    if (!isa<BlockArgument>(ids) || rankOf(ids) != 2)
      continue;
    int64_t length = shapeOf(ids)[1];
    if (length % parts != 0) {
      int64_t nearest = (length + parts / 2) / parts * parts;
      return refuse(op) << "does not divide sequences of " << length
                        << " tokens; the nearest that it does is --seq="
                        << std::max(nearest, parts)
                        << ", of a graph that leaves the length open";
    }
    sequences.insert({shapeOf(ids)[0], length});
  }
  if (!sequences.empty())
    return success();
  return refuse(function)
         << "splits sequences, and no embedding reads an input of tokens";
}

/// Causal attention in a ring is balanced by a zigzag.
LogicalResult SequenceSplitter::chooseWay() {
  SmallVector<int64_t> lengths;
  for (auto [batch, length] : sequences)
    lengths.push_back(length);
  auto chosen = chooseContextAttention(function, way, ranks, lengths, device);
  if (failed(chosen))
    return failure();
  way = *chosen;
  if (way != ContextAttention::Ring)
    for (auto op : block.getOps<AttentionOp>())
      prepareHeads(op);
  else
    for (auto op : block.getOps<AttentionOp>())
      zigzag |= op.getCausal();
  return success();
}

/// Sequences one behind another.
Sharding SequenceSplitter::partOf(int64_t dim, int64_t length,
                                  int64_t batch) const {
  int64_t each = zigzag ? 2 : 1;
  return {dim, SmallVector<int64_t, 1>(batch * each, length / each), zigzag};
}

/// How the ids of tokens or positions are to lie; nothing of others.
std::optional<Sharding> SequenceSplitter::idsOf(EmbeddingOp op) const {
  ArrayRef<int64_t> shape = shapeOf(op.getIds());
  for (auto [batch, length] : sequences) {
    if (shape == ArrayRef<int64_t>{batch * length})
      return partOf(0, length, batch);
    if (shape == ArrayRef<int64_t>{length})
      return partOf(0, length);
    if (shape == ArrayRef<int64_t>{1, length} ||
        shape == ArrayRef<int64_t>{batch, length})
      return partOf(1, length);
  }
  return std::nullopt;
}

/// Key/value heads of which there are too few for each rank are repeated: a
/// rank then has those that its query heads read.
void SequenceSplitter::prepareHeads(AttentionOp op) {
  std::optional<int64_t> times = ranks.repeats(op);
  if (way == ContextAttention::AllGather || !times) {
    gathering.insert(op);
  } else if (*times > 1) {
    op.getKeyMutable().assign(repeated(op.getKey(), *times, op));
    op.getValueMutable().assign(repeated(op.getValue(), *times, op));
  }
}

/// [batch, sequence, heads, headDim], each head so many times in a row.
Value SequenceSplitter::repeated(Value heads, int64_t times,
                                 Operation *reader) {
  PlaceListener listener(placeOf(reader));
  OpBuilder builder(reader, &listener);
  NNBuilder b(builder, reader->getLoc());
  ArrayRef<int64_t> s = shapeOf(heads);
  Value single = b.reshape(heads, {s[0], s[1], s[2], 1, s[3]});
  Value several = b.broadcast(single, {s[0], s[1], s[2], times, s[3]});
  return b.reshape(several, {s[0], s[1], s[2] * times, s[3]});
}

//===----------------------------------------------------------------------===//
// How it is to lie
//===----------------------------------------------------------------------===//

/// Heads that a tensor axis splits, too: its ranks each have a section, of
/// which this one has a part.
Sharding SequenceSplitter::byTensorParts(const Sharding &heads) const {
  if (heads.isWhole())
    return heads;
  return {heads.dim, SmallVector<int64_t, 1>(tensor, heads.size() / tensor)};
}

SmallVector<Sharding> SequenceSplitter::operandsOf(Operation *op) const {
  SmallVector<Sharding> operands;
  for (Value operand : op->getOperands())
    operands.push_back(lies.lookup(operand));
  return operands;
}

LogicalResult SequenceSplitter::check(Operation *op, ShardingQuery &query,
                                      LogicalResult answer) {
  bool moves = !query.made.empty() && !query.made.front().isWhole();
  for (auto [given, needed] : llvm::zip(query.operands, query.needed)) {
    bool other = !given.isWhole() && given != needed;
    if (succeeded(answer) && other && (!moves || needed.isWhole()))
      answer = query.refuse("its operands are split in different ways");
    if (moves)
      needed = byTensorParts(needed);
  }
  if (moves)
    query.made.front() = byTensorParts(query.made.front());
  bool reported = llvm::all_of(
      op->getUsers(), [](Operation *user) { return isa<LossOp>(user); });
  if (succeeded(answer) && query.sums && !reported)
    answer = query.refuse("it sums up what ranks have parts of");
  if (succeeded(answer))
    return success();
  return refuse(op) << "splits sequences, and " << op->getName().getStringRef()
                    << " cannot be computed in parts of them: "
                    << query.getReason();
}

/// This rank's queries, beside all keys or those that come in a ring.
LogicalResult SequenceSplitter::planRows(AttentionOp op) {
  constexpr int64_t kSequence = 1;
  ShardingQuery query(op, operandsOf(op), parts);
  ArrayRef<Sharding> given = query.operands;
  bool split = llvm::all_of(given.take_front(3), [&](const Sharding &s) {
    return s.dim == kSequence && s.sections.size() == (zigzag ? 2 : 1);
  });
  if (!split || (op.getMask() && !given[3].isWhole()))
    return check(op, query,
                 query.refuse("query, key and value are not all split"));
  query.results = {given[0], given[0].along(2)};
  for (auto [result, sharding] : llvm::zip(op->getResults(), query.results))
    lies[result] = sharding;
  queries.insert({op, std::move(query)});
  return success();
}

/// A row's mask is a function of its number in the whole.
LogicalResult SequenceSplitter::planDropout(DropoutOp op) {
  ShardingQuery query(op, operandsOf(op), parts);
  const Sharding &given = query.operands[0];
  query.needed[0] = query.results[0] = given;
  if (given.isWhole())
    return success();
  if (given.dim == rankOf(op.getOperand()) - 1)
    return check(op, query, query.refuse("its rows are split"));
  lies[op.getResult()] = given;
  queries.insert({op, std::move(query)});
  return success();
}

/// Each rank's tokens choose among all experts, whose gradients are summed over
/// this axis as those of all parameters are. (Over a tensor axis they would be
/// summed by themselves, in each microbatch: so this is no rule of the op.)
LogicalResult SequenceSplitter::planExperts(GroupedMatmulOp op) {
  ShardingQuery query(op, operandsOf(op), parts);
  const Sharding &rows = query.operands[0];
  if (rows.isWhole() && query.operands[2].isWhole())
    return success();
  if (rows.dim != 0 || !query.operands[1].isWhole())
    return check(op, query, query.refuse("what is split are not its rows"));
  query.needed[0] = query.needed[2] = query.results[0] = rows;
  lies[op.getResult()] = rows;
  queries.insert({op, query});
  return check(op, query, success());
}

LogicalResult SequenceSplitter::plan(Operation *op) {
  if (auto dropout = dyn_cast<DropoutOp>(op))
    return planDropout(dropout);
  if (auto product = dyn_cast<GroupedMatmulOp>(op))
    return planExperts(product);
  if (auto loss = dyn_cast<LossOp>(op))
    return checkLoss(loss);
  if (auto attention = dyn_cast<AttentionOp>(op))
    if (way == ContextAttention::Ring || gathering.contains(op))
      return planRows(attention);
  SmallVector<Sharding> operands = operandsOf(op);
  if (auto embedding = dyn_cast<EmbeddingOp>(op))
    if (operands[1].isWhole())
      operands[1] = idsOf(embedding).value_or(Sharding());
  if (llvm::all_of(operands, [](const Sharding &s) { return s.isWhole(); }))
    return success();
  ShardingQuery query(op, operands, parts);
  auto rule = dyn_cast<ShardableOpInterface>(op);
  LogicalResult answer =
      rule ? rule.shard(query) : query.refuse("it is only computed whole");
  if (failed(check(op, query, answer)))
    return failure();
  for (auto [result, sharding] : llvm::zip(op->getResults(), query.results))
    if (!sharding.isWhole())
      lies[result] = sharding;
  queries.insert({op, std::move(query)});
  return success();
}

/// Each rank's sum is of its own tokens, and the runtime adds them up.
LogicalResult SequenceSplitter::checkLoss(LossOp loss) {
  Operation *source = loss.getSum().getDefiningOp();
  auto found = queries.find(source);
  if (found != queries.end() && found->second.sums)
    return success();
  return refuse(loss) << "splits sequences, and this loss is no sum over their "
                         "tokens; train the logits with --loss=causal-lm";
}

//===----------------------------------------------------------------------===//
// Making it so
//===----------------------------------------------------------------------===//

/// A rank's part of a value that is whole; a view's is one of its operand's
/// where that is in fewer pieces.
Value SequenceSplitter::brought(Value value, const Sharding &needed,
                                Operation *reader) {
  for (PartSliceOp slice : slices[value])
    if (slice.getDim() == uint64_t(needed.dim) &&
        slice.getSections() == ArrayRef<int64_t>(needed.sections) &&
        slice.getZigzag() == needed.zigzag)
      return slice;
  OpBuilder builder(reader);
  if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    Value operand = reshape.getOperand();
    auto before = reshaped(shapeOf(value), shapeOf(operand), needed, parts);
    if (before && before->sections.size() < needed.sections.size()) {
      Value part = brought(operand, *before, reader);
      auto view =
          ReshapeOp::create(builder, reader->getLoc(),
                            needed.localType(tensorType(value), parts), part);
      inheritPlace(view, reader);
      return view;
    }
  }
  auto slice = PartSliceOp::create(builder, reader->getLoc(), value,
                                   spell(MeshAxis::Context), parts, needed.dim,
                                   needed.sections, needed.zigzag);
  inheritPlace(slice, reader);
  slices[value].push_back(slice);
  return slice;
}

AllToAllOp SequenceSplitter::moved(Value value, const Sharding &from,
                                   const Sharding &to, Operation *reader) {
  OpBuilder builder(reader);
  auto exchange = AllToAllOp::create(builder, reader->getLoc(), value,
                                     spell(MeshAxis::Context), parts, to.dim,
                                     to.sections, from.dim, from.sections);
  inheritPlace(exchange, reader);
  return exchange;
}

/// All of what each rank has a part of: in an order in which causal attention's
/// last query sees the last key.
Value SequenceSplitter::gathered(Value value, AttentionOp reader) {
  PlaceListener listener(placeOf(reader));
  OpBuilder builder(reader, &listener);
  const Sharding lie = lies.lookup(value);
  Value all = AllGatherOp::create(builder, reader->getLoc(), value,
                                  spell(MeshAxis::Context), parts, lie.dim,
                                  lie.sections, /*varies=*/true);
  if (!reader.getCausal())
    return all;
  return PartRollOp::create(builder, reader->getLoc(), all,
                            spell(MeshAxis::Context), parts, lie.dim,
                            lie.sections, /*inverse=*/false);
}

/// The mask of this rank's queries, if there is one.
Value SequenceSplitter::rowsOfMask(AttentionOp op) {
  Value mask = op.getMask();
  int64_t dim = mask ? rankOf(mask) - 2 : -1;
  int64_t all = shapeOf(op.getQuery())[1] * parts;
  if (dim >= 0 && shapeOf(mask)[dim] == all)
    return brought(mask, partOf(dim, all), op);
  return mask;
}

/// Of causal attention, the first keys that its queries see: those of ranks
/// behind this one come before them. Of other attention, the mask's rows.
Value SequenceSplitter::maskOfRows(AttentionOp op) {
  ArrayRef<int64_t> query = shapeOf(op.getQuery());
  int64_t rows = query[1];
  Value mask = rowsOfMask(op);
  if (!op.getCausal())
    return mask;
  PlaceListener listener(placeOf(op));
  OpBuilder builder(op, &listener);
  NNBuilder b(builder, op.getLoc());
  SmallVector<int32_t> firsts;
  for (int64_t rank = 0; rank < parts; ++rank)
    firsts.push_back(int32_t((parts - 1 - rank) * rows));
  auto type = RankedTensorType::get({parts}, builder.getI32Type());
  Value all = ConstantOp::create(
      builder, op.getLoc(), type,
      DenseElementsAttr::get(type, ArrayRef<int32_t>(firsts)));
  Value first =
      b.reshape(brought(all, Sharding::split(0, parts), op), {1, 1, 1, 1});
  if (mask)
    return b.add(mask, first);
  return b.broadcast(first, {query[0], 1, rows, 1});
}

void SequenceSplitter::makeDropout(DropoutOp op, const Sharding &lie) {
  PlaceListener listener(placeOf(op));
  OpBuilder builder(op, &listener);
  auto type = RankedTensorType::get({lie.size()}, builder.getI64Type());
  Value all = IotaOp::create(builder, op.getLoc(), type, 0);
  auto part = PartDropoutOp::create(
      builder, op.getLoc(), op.getOperand(), op.getRandom(),
      brought(all, lie.along(0), op), op.getRatioAttr(), op.getStreamAttr(),
      op.getSamplesAttr(), builder.getI64IntegerAttr(lie.dim),
      builder.getI64IntegerAttr(lie.size()));
  op.getResult().replaceAllUsesWith(part);
  lies[part] = lie;
  op.erase();
}

void SequenceSplitter::makeGathered(AttentionOp op) {
  Value mask = maskOfRows(op);
  op.getKeyMutable().assign(gathered(op.getKey(), op));
  op.getValueMutable().assign(gathered(op.getValue(), op));
  if (mask)
    op.getMaskMutable().assign(mask);
}

/// A window as first keys in the whole sequence, or later ones that the mask
/// has.
Value SequenceSplitter::firstKeysInWindow(AttentionOp op, Value mask) {
  PlaceListener listener(placeOf(op));
  OpBuilder builder(op, &listener);
  NNBuilder b(builder, op.getLoc());
  ArrayRef<int64_t> query = shapeOf(op.getQuery());
  int64_t length = query[1] * parts;
  auto type = RankedTensorType::get({length}, builder.getI32Type());
  Value all = IotaOp::create(builder, op.getLoc(), type, 0);
  Value positions =
      b.reshape(brought(all, partOf(0, length), op), {1, 1, query[1], 1});
  Value first = b.add(
      positions, b.constant(1 - double(op.getWindow()), builder.getI32Type()));
  if (mask)
    return b.binary<MaxOp>(mask, first);
  return b.broadcast(first, {query[0], 1, query[1], 1});
}

void SequenceSplitter::makeRing(AttentionOp op, const ShardingQuery &query) {
  Value mask = rowsOfMask(op);
  if (op.getWindow() > 0)
    mask = firstKeysInWindow(op, mask);
  if (op.getHidden().isNonZero())
    op.emitWarning("--context: masks hide by finite numbers, and a query that "
                   "sees no key gets zeros, not what a softmax makes of them");
  PlaceListener listener(placeOf(op));
  OpBuilder builder(op, &listener);
  auto ring = RingAttentionOp::create(
      builder, op.getLoc(), op.getQuery(), op.getKey(), op.getValue(), mask,
      op.getSink(), op.getScaleAttr(), op.getCausalAttr(), op.getWindowAttr(),
      op.getSoftcapAttr(), op.getUnguardedAttr(),
      zigzag ? builder.getUnitAttr() : nullptr,
      builder.getStringAttr(spell(MeshAxis::Context)),
      builder.getI64IntegerAttr(parts));
  for (auto [result, lie] : llvm::zip(ring->getResults(), query.results))
    lies[result] = lie;
  op.replaceAllUsesWith(ring);
  op.erase();
}

void SequenceSplitter::bringOperands(Operation *op,
                                     const ShardingQuery &query) {
  for (auto [i, needed] : llvm::enumerate(query.needed)) {
    if (needed.isWhole())
      continue;
    Value operand = op->getOperand(i);
    Sharding given = lies.lookup(operand);
    if (given.isWhole())
      op->setOperand(i, brought(operand, needed, op));
    else if (given != needed)
      op->setOperand(i, moved(operand, given, needed, op));
  }
}

void SequenceSplitter::makeLocal(Operation *op, const ShardingQuery &query) {
  if (auto dropout = dyn_cast<DropoutOp>(op))
    return makeDropout(dropout, query.results[0]);
  if (auto attention = dyn_cast<AttentionOp>(op))
    if (way == ContextAttention::Ring)
      return makeRing(attention, query);
  if (gathering.contains(op))
    makeGathered(cast<AttentionOp>(op));
  else
    bringOperands(op, query);
  if (auto shardable = dyn_cast<ShardableOpInterface>(op))
    shardable.makeLocal(query);
  for (auto [result, lie, made] :
       llvm::zip(op->getResults(), query.results, query.made)) {
    const Sharding &left = made.isWhole() ? lie : made;
    result.setType(left.localType(tensorType(result), parts));
    if (made.isWhole() || made == lie)
      continue;
    AllToAllOp back = moved(result, made, lie, op);
    back->moveAfter(op);
    result.replaceAllUsesExcept(back, back);
    lies[back] = lie;
  }
}

LogicalResult SequenceSplitter::run() {
  if (failed(findTokens()) || failed(chooseWay()))
    return failure();
  for (Operation &op : block)
    if (failed(plan(&op)))
      return failure();
  for (auto &[op, query] : queries)
    makeLocal(op, query);
  return success();
}

namespace {
struct SplitSequencesPass
    : nn::impl::SplitSequencesPassBase<SplitSequencesPass> {
  using SplitSequencesPassBase::SplitSequencesPassBase;
  void runOnOperation() override {
    if (context < 2)
      return;
    auto asked = parseSpelling<ContextAttention>(attention.getValue());
    ContextAttention way = asked.value_or(ContextAttention::Auto);
    std::optional<Device> predicted;
    if (!device.empty() && !(predicted = deviceNamed(device))) {
      getOperation().emitError("nn-split-sequences: no device is called ")
          << device;
      return signalPassFailure();
    }
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (failed(SequenceSplitter(function, {context, tensor}, way,
                                  predicted ? &*predicted : nullptr)
                     .run()))
        return signalPassFailure();
  }
};
} // namespace
