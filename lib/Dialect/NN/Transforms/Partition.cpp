// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-partition: the graph of one rank of the tensor axis. Types become those of
// a rank's part, parameters too, and collectives stand where parts meet.

#include "PartitionPlan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/RaiseReport.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Support/UsageError.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>

namespace shardonnx::nn {
#define GEN_PASS_DEF_PARTITIONPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {

/// Changes a block as a plan says.
class Partitioner {
public:
  Partitioner(ModuleOp module, Block &block, const PartitionPlan &plan,
              int64_t parts)
      : module(module), symbols(module), block(block), plan(plan),
        parts(parts) {}

  void run();

private:
  void findTrained();
  void makeLocal(Operation *op, const ShardingQuery &query);
  Value brought(Value value, const Sharding &needed, Operation *reader);
  void takeWords(Value view, Sharding needed);
  Value varied(Value value, Operation *reader);
  Value gathered(Value value, Operation *reader);
  void gatherTokens(Operation *op, const ShardingQuery *query);
  void sumUp(Operation *op);
  void settleGathers();
  void shareVocabulary(Operation *op, int64_t padding);
  void splitParameters();

  StringAttr axis() {
    return StringAttr::get(module.getContext(), spell(MeshAxis::Tensor));
  }

  ModuleOp module;
  SymbolTable symbols;
  Block &block;
  const PartitionPlan &plan;
  const int64_t parts;
  /// Values through which a gradient flows.
  llvm::DenseSet<Value> trained;
  llvm::DenseMap<Value, Value> copies; // what varies of a whole value
  llvm::DenseMap<Value, SmallVector<AllSliceOp>> slices;
  llvm::MapVector<Value, Value> wholes;   // of which ranks share the tokens
  llvm::DenseMap<Value, Sharding> shares; // how those lie
};

/// A slice of a parameter, through views of it that nothing else reads: those,
/// outermost first, and how each of their operands is then split.
struct SlicedParameter {
  AllSliceOp slice;
  GetOp get;
  SmallVector<Operation *> views;
  SmallVector<Sharding> shardings; // of the views' results
  Sharding sharding;               // of the parameter
};

} // namespace

void Partitioner::findTrained() {
  for (Operation &op : block) {
    bool is = llvm::any_of(op.getOperands(), [&](Value operand) {
      return trained.contains(operand);
    });
    if (auto get = dyn_cast<GetOp>(op))
      is = symbols.lookup<ParameterOp>(get.getParameter()).getTrainable();
    for (Value result : op.getResults())
      if (is && isa<FloatType>(elementType(result)))
        trained.insert(result);
  }
}

/// Of words that the ranks do not divide there is no slice: the parameter
/// becomes a rank's part at once, and so does each view on the way to it.
void Partitioner::takeWords(Value view, Sharding needed) {
  while (true) {
    auto type = tensorType(view);
    if (type.getDimSize(needed.dim) != needed.size())
      return; // another reader's way
    view.setType(needed.localType(type, parts));
    if (auto transpose = view.getDefiningOp<TransposeOp>())
      needed = needed.along(transpose.getPermutation()[needed.dim]);
    auto get = view.getDefiningOp<GetOp>();
    if (!get) {
      view = view.getDefiningOp()->getOperand(0);
      continue;
    }
    auto parameter = symbols.lookup<ParameterOp>(get.getParameter());
    auto whole = cast<RankedTensorType>(parameter.getType());
    if (whole.getDimSize(needed.dim) == needed.size())
      parameter.setType(needed.localType(whole, parts));
    setSplit(parameter, MeshAxis::Tensor, needed);
    return;
  }
}

/// A value that is whole, as an op that has parts reads it.
Value Partitioner::brought(Value value, const Sharding &needed,
                           Operation *reader) {
  if (needed.isWhole())
    return trained.contains(value) ? varied(value, reader) : value;
  if (needed.size() % parts != 0) {
    takeWords(value, needed);
    return value;
  }
  for (AllSliceOp slice : slices[value])
    if (slice.getDim() == uint64_t(needed.dim) &&
        slice.getSections() == ArrayRef<int64_t>(needed.sections))
      return slice;
  OpBuilder builder(reader);
  auto slice = AllSliceOp::create(
      builder, reader->getLoc(), value, axis(),
      builder.getI64IntegerAttr(parts), builder.getI64IntegerAttr(needed.dim),
      builder.getDenseI64ArrayAttr(needed.sections));
  inheritPlace(slice, reader);
  slices[value].push_back(slice);
  return slice;
}

/// Views of one value vary together, so that there is one sum of gradients.
Value Partitioner::varied(Value value, Operation *reader) {
  Value &copy = copies[value];
  if (copy)
    return copy;
  OpBuilder builder(reader);
  Operation *made = nullptr;
  auto reshape = value.getDefiningOp<ReshapeOp>();
  if (reshape && trained.contains(reshape.getOperand())) {
    Value source = varied(reshape.getOperand(), reader);
    made =
        ReshapeOp::create(builder, reader->getLoc(), value.getType(), source);
  } else {
    made = VaryOp::create(builder, reader->getLoc(), value, axis(),
                          builder.getI64IntegerAttr(parts));
  }
  inheritPlace(made, reader);
  return copies[value] = made->getResult(0);
}

/// All tokens of a value, of which this rank has some. What is a view of
/// another is one of that's tokens.
Value Partitioner::gathered(Value value, Operation *reader) {
  Value &whole = wholes[value];
  if (whole)
    return whole;
  OpBuilder builder(reader);
  const Sharding &share = shares[value];
  auto reshape = value.getDefiningOp<ReshapeOp>();
  Operation *made = nullptr;
  if (reshape && shares.contains(reshape.getOperand())) {
    auto type = tensorType(value);
    SmallVector<int64_t> shape(type.getShape());
    shape[share.dim] *= parts;
    Value source = gathered(reshape.getOperand(), reader);
    made =
        ReshapeOp::create(builder, reader->getLoc(), type.clone(shape), source);
  } else {
    made = AllGatherOp::create(builder, reader->getLoc(), value, axis(),
                               builder.getI64IntegerAttr(parts),
                               builder.getI64IntegerAttr(share.dim),
                               builder.getDenseI64ArrayAttr(share.sections));
  }
  inheritPlace(made, reader);
  if (trained.contains(value))
    trained.insert(made->getResult(0));
  return wholes[value] = made->getResult(0);
}

/// Before an op that reads all tokens, whether it computes in parts or whole.
void Partitioner::gatherTokens(Operation *op, const ShardingQuery *query) {
  for (OpOperand &operand : op->getOpOperands()) {
    auto share = shares.find(operand.get());
    bool taken = query && share != shares.end() &&
                 query->operands[operand.getOperandNumber()] == share->second;
    if (share != shares.end() && !taken)
      operand.set(gathered(operand.get(), op));
  }
}

void Partitioner::makeLocal(Operation *op, const ShardingQuery &query) {
  SmallVector<Value> operands(op->getOperands());
  for (auto [operand, needed] : llvm::zip(operands, query.needed))
    if (plan.shardingOf(operand).isWhole() && !shares.contains(operand))
      operand = brought(operand, needed, op);
  op->setOperands(operands);
  cast<ShardableOpInterface>(op).makeLocal(query);
  for (auto [result, sharding] : llvm::zip(op->getResults(), query.results))
    result.setType(sharding.localType(tensorType(result), parts));
  for (Value result : op->getResults())
    if (plan.sharesTokens(result))
      shares[result] = plan.shardingOf(result);
  if (query.sums)
    sumUp(op);
}

void Partitioner::sumUp(Operation *op) {
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  Value summand = op->getResult(0);
  IntegerAttr ranks = builder.getI64IntegerAttr(parts);
  Operation *sum = nullptr;
  if (plan.sharesTokens(summand)) {
    Sharding share = plan.shardingOf(summand);
    sum = ReduceScatterOp::create(builder, op->getLoc(), summand, axis(), ranks,
                                  builder.getI64IntegerAttr(share.dim),
                                  builder.getDenseI64ArrayAttr(share.sections));
    shares.erase(summand);
    shares[sum->getResult(0)] = share;
  } else {
    sum = AllReduceOp::create(builder, op->getLoc(), summand, axis(), ranks);
  }
  inheritPlace(sum, op);
  summand.replaceAllUsesExcept(sum->getResult(0), sum);
  trained.insert(sum->getResult(0));
}

/// What is gathered for ranks' parts alone varies itself. Views are read no
/// more of which only the sources were gathered, or only what varies of the
/// whole.
void Partitioner::settleGathers() {
  llvm::DenseSet<Value> views;
  for (auto &[value, whole] : wholes) {
    views.insert(value);
    views.insert(whole);
  }
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isa<ReshapeOp>(op) && op.use_empty() && views.contains(op.getResult(0)))
      op.erase();
  for (AllGatherOp gather : llvm::to_vector(block.getOps<AllGatherOp>())) {
    auto vary =
        gather->hasOneUse() ? dyn_cast<VaryOp>(*gather->user_begin()) : nullptr;
    if (!vary || vary.getAxis() != gather.getAxis())
      continue;
    gather.setVaries(true);
    vary.replaceAllUsesWith(gather.getResult());
    vary.erase();
  }
}

/// Its table or weight has this rank's words, and the last rank's so many rows
/// behind them.
void Partitioner::shareVocabulary(Operation *op, int64_t padding) {
  OpBuilder builder(op);
  IntegerAttr ranks = builder.getI64IntegerAttr(parts);
  Operation *part = nullptr;
  if (auto lookup = dyn_cast<EmbeddingOp>(op)) {
    part = EmbeddingPartOp::create(builder, op->getLoc(), lookup.getTable(),
                                   lookup.getIds(), axis(), ranks,
                                   builder.getI64IntegerAttr(padding));
  } else {
    auto loss = cast<LinearCrossEntropyOp>(op);
    part = LinearCrossEntropyPartOp::create(
        builder, op->getLoc(), loss.getOperand(), loss.getWeight(),
        loss.getLabels(), loss.getTransposeWeightAttr(),
        loss.getIgnoreIndexAttr(), axis(), ranks,
        builder.getI64IntegerAttr(padding));
  }
  inheritPlace(part, op);
  op->replaceAllUsesWith(part->getResults());
  op->erase();
}

/// The parameter that is sliced, or nothing where something else reads it.
static std::optional<SlicedParameter> slicedParameter(AllSliceOp slice,
                                                      int64_t parts) {
  SlicedParameter found = {slice, nullptr, {}, {}, {}};
  found.sharding = {int64_t(slice.getDim()),
                    SmallVector<int64_t, 1>(slice.getSections())};
  Value value = slice.getOperand();
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if ((found.get = dyn_cast_or_null<GetOp>(op)))
      return found;
    Sharding &sharding = found.sharding;
    found.shardings.push_back(sharding);
    if (auto transpose = dyn_cast_or_null<TransposeOp>(op)) {
      sharding = sharding.along(transpose.getPermutation()[sharding.dim]);
    } else if (auto reshape = dyn_cast_or_null<ReshapeOp>(op)) {
      std::optional<Sharding> before = reshaped(
          shapeOf(value), shapeOf(reshape.getOperand()), sharding, parts);
      if (!before)
        return std::nullopt;
      sharding = *before;
    } else if (!isa_and_nonnull<CastOp>(op)) {
      return std::nullopt;
    }
    found.views.push_back(op);
    value = op->getOperand(0);
  }
  return std::nullopt;
}

/// A rank has only its part of a parameter that is read in that part alone.
void Partitioner::splitParameters() {
  llvm::MapVector<Operation *, SmallVector<SlicedParameter>> found;
  llvm::DenseMap<Operation *, size_t> reads;
  for (auto get : block.getOps<GetOp>())
    ++reads[symbols.lookup(get.getParameter())];
  block.walk([&](AllSliceOp slice) {
    if (auto sliced = slicedParameter(slice, parts))
      found[symbols.lookup(sliced->get.getParameter())].push_back(*sliced);
  });
  for (auto &[op, sliced] : found) {
    auto parameter = cast<ParameterOp>(op);
    const Sharding &sharding = sliced.front().sharding;
    bool alike = llvm::all_of(sliced, [&](const SlicedParameter &other) {
      return other.sharding == sharding;
    });
    if (!alike || sliced.size() != reads[op] || plan.replicates(parameter))
      continue;
    auto type = cast<RankedTensorType>(parameter.getType());
    parameter.setType(sharding.localType(type, parts));
    setSplit(parameter, MeshAxis::Tensor, sharding);
    for (SlicedParameter &one : sliced) {
      Value value = one.get.getResult();
      value.setType(sharding.localType(tensorType(value), parts));
      for (auto [view, lie] : llvm::zip(one.views, one.shardings)) {
        Value result = view->getResult(0);
        result.setType(lie.localType(tensorType(result), parts));
      }
      one.slice.replaceAllUsesWith(one.slice.getOperand());
      one.slice.erase();
    }
  }
}

void Partitioner::run() {
  findTrained();
  SmallVector<std::pair<Operation *, const ShardingQuery *>> work;
  SmallVector<std::pair<Operation *, int64_t>> vocabularies;
  for (Operation &op : block) {
    work.push_back({&op, plan.queryOf(&op)});
    if (!plan.sharesWords(&op))
      continue;
    for (const Sharding &words : plan.queryOf(&op)->needed)
      if (!words.isWhole())
        vocabularies.push_back(
            {&op, int64_t(llvm::alignTo(words.size(), parts)) - words.size()});
  }
  for (auto [op, query] : work) {
    gatherTokens(op, query);
    if (query)
      makeLocal(op, *query);
  }
  settleGathers();
  for (auto [op, padding] : vocabularies)
    shareVocabulary(op, padding);
  splitParameters();
}

namespace {
struct PartitionPass : nn::impl::PartitionPassBase<PartitionPass> {
  using PartitionPassBase::PartitionPassBase;
  LogicalResult checkHeads(func::FuncOp function);
  void report(const PartitionPlan &plan, func::FuncOp function);
  void runOnOperation() override;
};
} // namespace

LogicalResult PartitionPass::checkHeads(func::FuncOp function) {
  auto check = [&](auto op) -> WalkResult {
    int64_t heads = shapeOf(op.getQuery())[2], shared = shapeOf(op.getKey())[2];
    for (auto [count, what] :
         {std::pair(heads, "heads"), std::pair(shared, "key/value heads")})
      if (count % tensor != 0)
        return emitUsageError(op)
               << "--mesh: tensor:" << int64_t(tensor)
               << " does not divide the " << count << " " << what
               << " of this attention; the nearest that does is tensor:"
               << nearestDivisor(std::gcd(heads, shared), tensor);
    return WalkResult::advance();
  };
  return failure(function.walk([&](AttentionOp op) { return check(op); })
                     .wasInterrupted() ||
                 function.walk([&](RingAttentionOp op) { return check(op); })
                     .wasInterrupted());
}

/// For `inspect`: which products are split, and which of blocks are not and
/// why.
void PartitionPass::report(const PartitionPlan &plan, func::FuncOp function) {
  RaiseNotes notes;
  function.walk([&](MatmulOp product) {
    const ShardingQuery *query = plan.queryOf(product);
    if (plan.splitsColumns(product))
      notes.add(product, "products split by columns");
    else if (query && query->sums)
      notes.add(product, "products split by rows");
  });
  function.walk([&](Operation *op) {
    const ShardingQuery *query = plan.queryOf(op);
    if (plan.sharesWords(op))
      notes.add(op, "vocabularies split by words");
    if (query && query->sums && plan.sharesTokens(op->getResult(0)))
      notes.add(op, "sums of which a rank keeps its tokens");
  });
  for (const auto &[op, why] : plan.getGathering())
    notes.add(op, "what reads the tokens of all ranks", why);
  for (const auto &[product, why] : plan.getWhole()) {
    if (PartitionPlan::readsVocabulary(product))
      notes.add(product, "vocabularies that every rank of the tensor axis has",
                why);
    FlatSymbolRefAttr unit = unitOf(product);
    if (unit && unit.getValue() != fsdp::kRootUnit && !plan.queryOf(product))
      notes.add(product, "products that every rank of the tensor axis computes",
                why);
  }
  notes.addTo(getOperation());
}

void PartitionPass::runOnOperation() {
  ModuleOp module = getOperation();
  Mesh mesh = {{replicate, shard, context, tensor}};
  if (!mesh.given())
    return;
  setMesh(module, mesh);
  if (tensor < 2)
    return;
  TensorPlan asked;
  if (!tensorPlan.empty()) {
    FailureOr<TensorPlan> read = readTensorPlan(module, tensorPlan);
    if (failed(read))
      return signalPassFailure();
    asked = std::move(*read);
  }
  for (auto function : module.getOps<func::FuncOp>()) {
    if (failed(checkHeads(function)))
      return signalPassFailure();
    PartitionPlan plan(function.front(), tensor, asked);
    plan.search();
    if (std::string why = plan.unmet(); !why.empty()) {
      module.emitError("--tensor-plan: ") << why;
      return signalPassFailure();
    }
    report(plan, function);
    Partitioner(module, function.front(), plan, tensor).run();
  }
}
