// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-recompute: what backward keeps of forward, and what it computes again.

#include "MaxFlow.h"
#include "Mlp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/NN/IR/JoinedParameters.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/runtime/Choices.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/PointerIntPair.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;

namespace {

class Recomputer {
public:
  /// `plan`: fsdp.recompute_plan, may be null.
  Recomputer(Block &block, DictionaryAttr plan, unsigned keepPercent,
             bool mlpsAgain)
      : block(block), plan(plan), keepPercent(keepPercent),
        mlpsAgain(mlpsAgain) {}

  void run();

private:
  void findMlpOps();
  void findFree();
  bool isForwardValue(Value value) const;
  bool spansLibraryCall(Value value) const;
  int64_t costOf(Value value) const;
  int64_t costOfRunning(Operation *op) const;
  void cut();
  llvm::SetVector<Value> valuesOfBackward() const;
  Attribute modeOf(Operation *op) const;
  double allowance(Attribute mode, int64_t kept) const;
  void keepStored();
  void rewrite();
  Value again(Value value, Operation *before);

  Block &block;
  DictionaryAttr plan;
  unsigned keepPercent;
  bool mlpsAgain;
  llvm::DenseSet<Operation *> ofMlps;
  llvm::DenseSet<Value> free;       // costs no memory to have in backward
  llvm::DenseSet<Value> recomputed; // not kept
  llvm::DenseMap<Value, Value> copies;
};

} // namespace

/// Ops that give their result again for the price of reading their operands.
static bool isRepeatable(Operation *op) {
  if (op->getNumResults() != 1)
    return false;
  return isa<nn::ElementwiseOpInterface, nn::BroadcastOp, nn::ReshapeOp,
             nn::TransposeOp, nn::SliceOp, nn::IotaOp, nn::ConstantOp>(op);
}

/// What another unit reads (the residual stream) is kept: to make it again
/// would gather this unit's parameters for the other's backward, and the one
/// before it, back to the first.
static bool leavesUnit(Operation *op) {
  FlatSymbolRefAttr unit = nn::unitOf(op);
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    return nn::unitOf(user) != unit;
  });
}

static int64_t bytesOf(Value value) {
  auto type = nn::tensorType(value);
  int64_t bits = type.getElementTypeBitWidth();
  return type.getNumElements() * std::max<int64_t>(1, bits / 8);
}

static bool readsParameter(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) {
    return operand.getDefiningOp<nn::GetOp>() != nullptr;
  });
}

/// What computes the hidden values of MLPs, of which only a chunk is to live at
/// a time. What reads these and leaves is another matter.
void Recomputer::findMlpOps() {
  if (!mlpsAgain)
    return;
  for (const nn::Mlp &mlp : nn::findMlps(block, nn::MlpReaders::forward))
    for (Operation *op : mlp.ops)
      if (llvm::any_of(op->getUsers(), [&](Operation *user) {
            return llvm::is_contained(mlp.ops, user);
          }))
        ofMlps.insert(op);
}

/// Parameters, inputs, constants and what repeatable ops make of these alone.
void Recomputer::findFree() {
  free.insert(block.args_begin(), block.args_end());
  for (Operation &op : block) {
    bool given =
        isa<nn::GetOp, nn::UnpackOp, nn::ConstantOp, nn::RotaryTableOp>(op) ||
        nn::joinsParameters(&op);
    bool fromFree =
        isRepeatable(&op) && llvm::all_of(op.getOperands(), [&](Value operand) {
          return free.contains(operand);
        });
    fromFree &= !(readsParameter(&op) && leavesUnit(&op));
    if (given || fromFree)
      free.insert(op.result_begin(), op.result_end());
  }
}

bool Recomputer::isForwardValue(Value value) const {
  Operation *op = value.getDefiningOp();
  return op && op->getBlock() == &block && !nn::isBackward(op);
}

/// True if forward reads the value again after a library call that depends on
/// it, as a residual connection does: no kernel can hold it until then.
bool Recomputer::spansLibraryCall(Value value) const {
  Operation *last = nullptr;
  for (Operation *user : value.getUsers())
    if (!nn::isBackward(user) && (!last || last->isBeforeInBlock(user)))
      last = user;
  if (!last || value.hasOneUse())
    return false;
  // Back from `last`, which depends on less than what follows the value does.
  using Reached = llvm::PointerIntPair<Operation *, 1, bool>; // before a call
  llvm::SmallDenseSet<Reached, 16> seen;
  SmallVector<Reached> work{{last, false}};
  while (!work.empty()) {
    Reached from = work.pop_back_val();
    for (Value operand : from.getPointer()->getOperands()) {
      if (operand == value && from.getInt())
        return true;
      Operation *def = operand.getDefiningOp();
      if (!def || !value.getDefiningOp()->isBeforeInBlock(def))
        continue;
      bool call = !isRepeatable(def) && !nn::isReduction(def);
      Reached next(def, from.getInt() || call);
      if (seen.insert(next).second)
        work.push_back(next);
    }
  }
  return false;
}

/// What a byte is worth in costOf and costOfRunning.
static constexpr int64_t kCostOfByte = 16;

/// The bytes of a value; a little more if it is stored for backward alone, so
/// that of equals the one that forward stores anyway is kept.
int64_t Recomputer::costOf(Value value) const {
  bool stored = !isRepeatable(value.getDefiningOp()) ||
                spansLibraryCall(value) ||
                llvm::any_of(value.getUsers(), [&](Operation *user) {
                  return !nn::isBackward(user) && !isRepeatable(user) &&
                         !nn::isReduction(user);
                });
  return kCostOfByte * bytesOf(value) + (stored ? 0 : bytesOf(value));
}

/// What the plan has for the op's unit, or null.
Attribute Recomputer::modeOf(Operation *op) const {
  FlatSymbolRefAttr unit = nn::unitOf(op);
  return plan && unit ? plan.get(unit.getAttr()) : Attribute();
}

/// What computing the results of `op` again costs, as the plan has it for its
/// unit; infinite where they must be kept.
int64_t Recomputer::costOfRunning(Operation *op) const {
  if (leavesUnit(op))
    return MaxFlow::kInfinite;
  // Ranks keep their parts, and meet again, as Megatron's do.
  if (isRepeatable(op) || isa<nn::AllGatherOp, nn::PartRollOp>(op) ||
      ofMlps.contains(op))
    return 0;
  Attribute mode = modeOf(op);
  bool selective = isa_and_nonnull<IntegerAttr>(mode) ||
                   mode == StringAttr::get(op->getContext(),
                                           spell(RecomputeKind::Selective));
  if (!selective || !isMemoryEffectFree(op) || nn::isCollective(op))
    return MaxFlow::kInfinite;
  auto counted = dyn_cast<nn::FlopsOpInterface>(op);
  if (!counted)
    return 0;
  auto price = dyn_cast<IntegerAttr>(mode);
  if (!price)
    return MaxFlow::kInfinite;
  double cost = double(kCostOfByte) * double(counted.getFlops()) /
                double(std::max<int64_t>(1, price.getInt()));
  return std::min<int64_t>(MaxFlow::kInfinite - 1, int64_t(cost));
}

/// Each value is an edge whose capacity is its cost, fed by an edge of its op
/// with the cost of running that again; what backward reads drains to the sink.
/// Values on the sink's side of their own edge are computed again.
void Recomputer::cut() {
  llvm::DenseMap<Value, unsigned> nodes; // the edge is node → node + 1
  SmallVector<Value> values;
  SmallVector<Operation *> ops;
  unsigned count = 0;
  for (Operation &op : block) {
    unsigned before = count;
    for (Value result : op.getResults())
      if (isForwardValue(result) && !free.contains(result) &&
          isa<RankedTensorType>(result.getType())) {
        nodes[result] = count;
        values.push_back(result);
        count += 2;
      }
    if (count != before)
      ops.push_back(&op);
  }
  unsigned firstOp = count, source = firstOp + ops.size(), sink = source + 1;
  MaxFlow flow(sink + 1);
  for (auto [index, op] : llvm::enumerate(ops)) {
    int64_t running = costOfRunning(op);
    if (running > 0)
      flow.addEdge(source, firstOp + index, running);
    if (running < MaxFlow::kInfinite)
      for (Value operand : op->getOperands())
        if (auto it = nodes.find(operand); it != nodes.end())
          flow.addEdge(it->second + 1, firstOp + index, MaxFlow::kInfinite);
    for (Value result : op->getResults())
      if (auto it = nodes.find(result); it != nodes.end())
        flow.addEdge(firstOp + index, it->second, MaxFlow::kInfinite);
  }
  for (Value value : values) {
    unsigned node = nodes[value];
    flow.addEdge(node, node + 1, costOf(value));
    if (llvm::any_of(value.getUsers(),
                     [](Operation *user) { return nn::isBackward(user); }))
      flow.addEdge(node + 1, sink, MaxFlow::kInfinite);
  }
  flow.run(source, sink);
  std::vector<bool> nearSink = flow.sinkSide(sink);
  for (Value value : values)
    if (nearSink[nodes[value]])
      recomputed.insert(value);
}

/// What backward needs of forward: what is kept, and what is computed again.
llvm::SetVector<Value> Recomputer::valuesOfBackward() const {
  llvm::SetVector<Value> values;
  SmallVector<Value> work;
  for (Operation &op : block)
    if (nn::isBackward(&op))
      work.append(op.operand_begin(), op.operand_end());
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!isForwardValue(value) || free.contains(value) || !values.insert(value))
      continue;
    if (recomputed.contains(value))
      llvm::append_range(work, value.getDefiningOp()->getOperands());
  }
  return values;
}

/// Does a library call of this direction read the value, or a reshape of it?
static bool readByCall(Value value, bool backward) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (isa<nn::ReshapeOp>(user) && readByCall(user->getResult(0), backward))
      return true;
    return nn::isBackward(user) == backward && !isRepeatable(user) &&
           !nn::isReduction(user);
  });
}

/// How many bytes more than `kept` a unit may keep to write less.
double Recomputer::allowance(Attribute mode, int64_t kept) const {
  if (!mode)
    return double(kept) * keepPercent / 100;
  return isa<UnitAttr>(mode) ? double(INT64_MAX) : 0;
}

/// Values that forward stores anyway, for a library call, and that backward
/// would store again for one: the smallest first.
void Recomputer::keepStored() {
  struct Unit {
    Attribute mode;
    int64_t kept = 0;
    SmallVector<Value> candidates;
  };
  llvm::MapVector<Attribute, Unit> units;
  for (Value value : valuesOfBackward()) {
    Operation *op = value.getDefiningOp();
    FlatSymbolRefAttr name = nn::unitOf(op);
    if (!name)
      continue;
    Unit &unit = units[name];
    unit.mode = modeOf(op);
    if (!recomputed.contains(value))
      unit.kept += bytesOf(value);
    else if (!isa<nn::ReshapeOp>(op) && !ofMlps.contains(op) &&
             readByCall(value, /*backward=*/false) &&
             readByCall(value, /*backward=*/true))
      unit.candidates.push_back(value);
  }
  for (auto &[name, unit] : units) {
    llvm::sort(unit.candidates, [](Value a, Value b) {
      int64_t one = bytesOf(a), other = bytesOf(b);
      return one != other
                 ? one < other
                 : a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
    });
    double left = allowance(unit.mode, unit.kept);
    for (Value value : unit.candidates) {
      left -= double(bytesOf(value));
      if (left < 0)
        break;
      recomputed.erase(value);
    }
  }
}

/// The value computed again before an op of backward, once for all of it.
Value Recomputer::again(Value value, Operation *before) {
  Operation *op = value.getDefiningOp();
  bool repeat =
      isForwardValue(value) && (recomputed.contains(value) ||
                                (isRepeatable(op) && free.contains(value)));
  if (!repeat)
    return value;
  if (Value copy = copies.lookup(value))
    return copy;
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(again(operand, before));
  OpBuilder builder(before);
  Operation *copy = builder.clone(*op);
  copy->setOperands(operands);
  // So that no pass merges it with the original.
  nn::setPhase(copy, nn::Phase::recompute);
  for (auto [result, copied] :
       llvm::zip_equal(op->getResults(), copy->getResults()))
    copies[result] = copied;
  return copies[value];
}

void Recomputer::rewrite() {
  SmallVector<Operation *> users;
  for (Operation &op : block)
    if (nn::isBackward(&op))
      users.push_back(&op);
  for (Operation *user : users)
    for (OpOperand &operand : user->getOpOperands())
      operand.set(again(operand.get(), user));
}

void Recomputer::run() {
  if (llvm::none_of(block, [](Operation &op) { return nn::isBackward(&op); }))
    return;
  findMlpOps();
  findFree();
  cut();
  keepStored();
  rewrite();
}

namespace {

struct RecomputePass : nn::impl::RecomputePassBase<RecomputePass> {
  using RecomputePassBase::RecomputePassBase;

  void runOnOperation() override {
    if (getOperation().isExternal())
      return;
    DictionaryAttr plan;
    if (Operation *module = getOperation()->getParentOp())
      plan = module->getAttrOfType<DictionaryAttr>(fsdp::kRecomputePlanAttr);
    Recomputer(getOperation().getBody().front(), plan, keepPercent, mlpsAgain)
        .run();
  }
};

} // namespace
