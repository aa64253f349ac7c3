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
  Value varied(Value value, Operation *reader);
  void sumUp(Operation *op);
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

/// A value that is whole, as an op that has parts reads it.
Value Partitioner::brought(Value value, const Sharding &needed,
                           Operation *reader) {
  if (needed.isWhole())
    return trained.contains(value) ? varied(value, reader) : value;
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

void Partitioner::makeLocal(Operation *op, const ShardingQuery &query) {
  SmallVector<Value> operands(op->getOperands());
  for (auto [operand, needed] : llvm::zip(operands, query.needed))
    if (plan.shardingOf(operand).isWhole())
      operand = brought(operand, needed, op);
  op->setOperands(operands);
  cast<ShardableOpInterface>(op).makeLocal(query);
  for (auto [result, sharding] : llvm::zip(op->getResults(), query.results))
    result.setType(sharding.localType(tensorType(result), parts));
  if (query.sums)
    sumUp(op);
}

void Partitioner::sumUp(Operation *op) {
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  Value summand = op->getResult(0);
  auto sum = AllReduceOp::create(builder, op->getLoc(), summand, axis(),
                                 builder.getI64IntegerAttr(parts));
  inheritPlace(sum, op);
  summand.replaceAllUsesExcept(sum, sum);
  trained.insert(sum);
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
    if (!alike || sliced.size() != reads[op])
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
  for (Operation &op : block)
    if (const ShardingQuery *query = plan.queryOf(&op))
      work.push_back({&op, query});
  for (auto [op, query] : work)
    makeLocal(op, *query);
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

/// The number of ranks nearest to `parts` that divides `count`.
static int64_t nearestDivisor(int64_t count, int64_t parts) {
  int64_t nearest = 1;
  for (int64_t ranks = 1; ranks <= count; ++ranks)
    if (count % ranks == 0 &&
        std::abs(ranks - parts) <= std::abs(nearest - parts))
      nearest = ranks;
  return nearest;
}

LogicalResult PartitionPass::checkHeads(func::FuncOp function) {
  WalkResult result = function.walk([&](AttentionOp op) {
    int64_t heads = shapeOf(op.getQuery())[2], shared = shapeOf(op.getKey())[2];
    for (auto [count, what] :
         {std::pair(heads, "heads"), std::pair(shared, "key/value heads")})
      if (count % tensor != 0) {
        op.emitError("--mesh: tensor:")
            << int64_t(tensor) << " does not divide the " << count << " "
            << what << " of this attention; the nearest that does is tensor:"
            << nearestDivisor(std::gcd(heads, shared), tensor);
        return WalkResult::interrupt();
      }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
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
  for (const auto &[product, why] : plan.getWhole()) {
    FlatSymbolRefAttr unit = unitOf(product);
    if (unit && unit.getValue() != fsdp::kRootUnit && !plan.queryOf(product))
      notes.add(product, "products that every rank of the tensor axis computes",
                why);
  }
  notes.addTo(getOperation());
}

void PartitionPass::runOnOperation() {
  ModuleOp module = getOperation();
  Mesh mesh = {{replicate, shard, 1, tensor}};
  if (!mesh.given())
    return;
  setMesh(module, mesh);
  if (tensor < 2)
    return;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (failed(checkHeads(function)))
      return signalPassFailure();
    PartitionPlan plan(function.front(), tensor);
    plan.search();
    report(plan, function);
    Partitioner(module, function.front(), plan, tensor).run();
  }
}
