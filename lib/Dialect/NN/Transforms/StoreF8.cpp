// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-store-f8: products of rounded operands become products of what is stored
// in 8 bits. It stands behind nn-fuse-epilogues, whose sums it takes, and
// before nn-fuse, which finds the casts to 8 bits beside what computes their
// operands.

#include "Reshapes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/PointerIntPair.h"
#include "llvm/ADT/SetVector.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_STOREF8PASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {

/// A rounded operand, in parts that lie side by side, and how a product reads
/// it: along its rows, or along its columns.
struct Rounded {
  SmallVector<F8RoundOp> parts;
  bool byColumns = false;
  ArrayRef<int64_t> shape;

  Value step() { return parts.front().getStep(); }
  /// What is summed, and what is left.
  int64_t depth() const { return shape[byColumns ? 0 : 1]; }
  int64_t width() const { return shape[byColumns ? 1 : 0]; }
  bool hasRowSteps() { return !isOne(step()); }
  static bool isOne(Value step) {
    return tensorType(step).getNumElements() == 1;
  }
};

/// A product with both of its operands.
struct Product {
  Operation *op;
  Rounded lhs, rhs;

  /// What is added to it, or null.
  Value addend() {
    auto epilogue = dyn_cast<MatmulEpilogueOp>(op);
    return epilogue ? epilogue.getSide() : Value();
  }
};

/// Which of a cast's two results are read, and by what first.
struct Demand {
  bool rows = false, columns = false;
  Operation *first = nullptr;
};

/// Rewrites the products of one block.
class Storer {
public:
  Storer(Block &block, bool rowSteps) : block(block), rowSteps(rowSteps) {}

  void run();

private:
  /// A rounding; of a weight, also when it is read: backward gathers weights
  /// anew rather than keep them in 8 bits.
  using Key = llvm::PointerIntPair<Operation *, 1, bool>;
  static Key keyOf(F8RoundOp round, Operation *reader) {
    bool weight = isParameterView(round.getOperand());
    return Key(round, weight && isBackward(reader));
  }

  std::optional<Product> match(Operation *op) const;
  Value tensorStep(Value amax, F8Format format);
  void takeTensorSteps();
  void demand(Rounded &operand, Operation *reader);
  void makeCast(Key key, const Demand &demand);
  Value bitsOf(OpBuilder &builder, Rounded &operand, Operation *reader);
  void replace(Product &product);

  Block &block;
  bool rowSteps;
  llvm::DenseMap<std::pair<Operation *, F8Format>, Value> taken; // by largest
  llvm::MapVector<Key, Demand> demands;
  llvm::DenseMap<Key, std::pair<Value, Value>> casts; // rows, columns
};

} // namespace

/// The operand's parts if they are rounded alike, with steps that a product can
/// take: one, or one for each row of what it sums.
static std::optional<Rounded> roundedOperand(Value value, bool byColumns) {
  Rounded operand;
  operand.byColumns = byColumns;
  operand.shape = shapeOf(value);
  SmallVector<Value> parts = {value};
  if (auto concat = value.getDefiningOp<ConcatOp>();
      concat && concat.getAxis() == 1)
    parts = llvm::to_vector(concat.getOperands());
  for (Value part : parts) {
    auto round = part.getDefiningOp<F8RoundOp>();
    if (!round || shapeOf(part).size() != 2)
      return std::nullopt;
    if (!operand.parts.empty() &&
        (round.getStep() != operand.step() ||
         round.getFormat() != operand.parts.front().getFormat()))
      return std::nullopt;
    operand.parts.push_back(round);
  }
  ArrayRef<int64_t> steps = shapeOf(operand.step());
  bool ofRows = steps.size() == 2 && steps[byColumns ? 0 : 1] == 1 &&
                steps[byColumns ? 1 : 0] == operand.width();
  bool together = parts.size() == 1 || !byColumns;
  if (!Rounded::isOne(operand.step()) && !(ofRows && together))
    return std::nullopt;
  if (operand.depth() % kF8SizeMultiple != 0 ||
      operand.width() % kF8SizeMultiple != 0)
    return std::nullopt;
  return operand;
}

std::optional<Product> Storer::match(Operation *op) const {
  auto matched = [&](auto product) -> std::optional<Product> {
    if (shapeOf(product.getResult()).size() != 2)
      return std::nullopt;
    auto lhs = roundedOperand(product.getLhs(), product.getTransposeLhs());
    auto rhs = roundedOperand(product.getRhs(), !product.getTransposeRhs());
    if (!lhs || !rhs)
      return std::nullopt;
    bool bothE5M2 = lhs->parts.front().getFormat() == F8Format::e5m2 &&
                    rhs->parts.front().getFormat() == F8Format::e5m2;
    if (bothE5M2 || (!rowSteps && (lhs->hasRowSteps() || rhs->hasRowSteps())))
      return std::nullopt;
    return Product{op, *lhs, *rhs};
  };
  if (auto product = dyn_cast<MatmulOp>(op))
    return matched(product);
  if (auto product = dyn_cast<MatmulEpilogueOp>(op);
      product && product.getEpilogue() == Epilogue::bias)
    return matched(product);
  return std::nullopt;
}

void Storer::demand(Rounded &operand, Operation *reader) {
  for (F8RoundOp part : operand.parts) {
    Demand &all = demands[keyOf(part, reader)];
    (operand.byColumns ? all.columns : all.rows) = true;
    if (!all.first)
      all.first = reader;
  }
}

/// Is the value computed, in its phase, of what has one element for each row? A
/// norm's kernels have whole rows, whose sums they need.
static bool readsRowScalars(Value value, bool backward,
                            llvm::DenseSet<Value> &seen) {
  Operation *op = value.getDefiningOp();
  if (!seen.insert(value).second)
    return false;
  if (rankOf(value) > 0 && shapeOf(value).back() == 1 &&
      tensorType(value).getNumElements() > 1)
    return true;
  if (!isa_and_nonnull<ElementwiseOpInterface, BroadcastOp, ReshapeOp>(op) ||
      isBackward(op) != backward)
    return false;
  return llvm::any_of(op->getOperands(), [&](Value operand) {
    return readsRowScalars(operand, backward, seen);
  });
}

/// Can the kernel that computes the operand round it, too? It is one over
/// elements beside the rounding, and the step is known before it.
static bool isRoundedAsComputed(F8RoundOp round) {
  Value operand = withoutReshapes(round.getOperand());
  Operation *maker = operand.getDefiningOp();
  if (!isa_and_nonnull<ElementwiseOpInterface>(maker) ||
      isBackward(maker) != isBackward(round))
    return false;
  llvm::DenseSet<Value> seen;
  if (readsRowScalars(operand, isBackward(maker), seen))
    return false;
  auto step = withoutReshapes(round.getStep()).getDefiningOp<F8TensorStepOp>();
  return !step || llvm::none_of(step.getInputs(), [&](Value input) {
    return withoutReshapes(input) == operand;
  });
}

void Storer::makeCast(Key key, const Demand &demand) {
  auto round = cast<F8RoundOp>(key.getPointer());
  // What backward gathers anew is cast where it is read.
  bool again = key.getInt() && !isBackward(round);
  Operation *place = again ? demand.first : round.getOperation();
  PlaceListener listener(placeOf(place));
  OpBuilder builder(place, &listener);
  Location loc = round.getLoc();
  Operation *made;
  if (!demand.rows && !again && isRoundedAsComputed(round)) {
    made = F8CastOp::create(builder, loc, round.getFormat(), round.getOperand(),
                            round.getStep());
    casts[key].second =
        NNBuilder(builder, loc).transpose(made->getResult(0), {1, 0});
  } else if (demand.columns || weightStepOf(round.getStep())) {
    auto both = F8CastMatrixOp::create(builder, loc, round.getFormat(),
                                       round.getOperand(), round.getStep());
    casts[key] = {both.getRows(), both.getColumns()};
    made = both;
  } else {
    made = F8CastOp::create(builder, loc, round.getFormat(), round.getOperand(),
                            round.getStep());
    casts[key].first = made->getResult(0);
  }
  if (again)
    setPhase(made, Phase::recompute);
}

/// The operand in 8 bits, what is summed along its last axis.
Value Storer::bitsOf(OpBuilder &builder, Rounded &operand, Operation *reader) {
  SmallVector<Value> parts;
  for (F8RoundOp part : operand.parts) {
    auto [rows, columns] = casts.lookup(keyOf(part, reader));
    parts.push_back(operand.byColumns ? columns : rows);
  }
  if (parts.size() == 1)
    return parts.front();
  // Columns side by side are rows below each other.
  return ConcatOp::create(builder, reader->getLoc(), parts,
                          operand.byColumns ? 0 : 1);
}

void Storer::replace(Product &product) {
  Operation *op = product.op;
  PlaceListener listener(placeOf(op));
  OpBuilder builder(op, &listener);
  Value lhs = bitsOf(builder, product.lhs, op),
        rhs = bitsOf(builder, product.rhs, op);
  Value left = product.lhs.step(), right = product.rhs.step();
  // The library takes one step for each operand, or one for each row of both.
  NNBuilder b(builder, op->getLoc());
  auto repeat = [&](Value step, int64_t rows) {
    if (!Rounded::isOne(step))
      return step;
    return b.broadcast(b.reshape(step, {1, 1}), {rows, 1});
  };
  if (product.lhs.hasRowSteps() || product.rhs.hasRowSteps()) {
    left = repeat(left, product.lhs.width());
    right = repeat(right, product.rhs.width());
  }
  auto stored = F8ProductOp::create(
      builder, op->getLoc(), op->getResult(0).getType(), lhs, rhs, left, right,
      product.addend(), /*fast=*/phaseOf(op) != Phase::backward);
  op->getResult(0).replaceAllUsesWith(stored.getResult());
  op->erase();
}

/// Adds the tensors whose largest absolute value `amax` is, one behind the
/// other; false if it is something else.
static bool collectTensors(Value amax, llvm::SetVector<Value> &tensors) {
  Operation *op = amax.getDefiningOp();
  if (isa_and_nonnull<AbsOp>(op)) {
    // A largest value of rows has a sign, too.
    llvm::SetVector<Value> further = tensors;
    if (collectTensors(op->getOperand(0), further))
      tensors = std::move(further);
    else
      tensors.insert(op->getOperand(0));
    return true;
  }
  bool widens = isa_and_nonnull<CastOp>(op) &&
                elementType(op->getOperand(0)).getIntOrFloatBitWidth() <=
                    elementType(amax).getIntOrFloatBitWidth();
  if (!widens && !isa_and_nonnull<ReshapeOp, ReduceMaxOp, MaxOp>(op))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return collectTensors(operand, tensors);
  });
}

/// Adds the parameters that all of `value` is, side by side and in no fewer
/// bits than it has; false if it is something else.
static bool collectParameters(Value value,
                              SmallVectorImpl<Attribute> &parameters) {
  Operation *op = value.getDefiningOp();
  if (auto get = dyn_cast_or_null<GetOp>(op)) {
    parameters.push_back(get.getParameterAttr());
    return isa<FloatType>(elementType(value));
  }
  bool narrows = isa_and_nonnull<CastOp>(op) &&
                 elementType(op->getOperand(0)).getIntOrFloatBitWidth() >
                     elementType(value).getIntOrFloatBitWidth();
  if (narrows ||
      !isa_and_nonnull<CastOp, ReshapeOp, TransposeOp, VaryOp, ConcatOp>(op))
    return false;
  return llvm::all_of(op->getOperands(), [&](Value operand) {
    return collectParameters(operand, parameters);
  });
}

/// Whether rows of it are scaled, too: its step then comes with theirs.
static bool hasRowSteps(Value tensor) {
  return llvm::any_of(tensor.getUsers(), [](Operation *user) {
    auto round = dyn_cast<F8RoundOp>(user);
    return round && !Rounded::isOne(round.getStep());
  });
}

/// Of weights the update has the step.
static Value weightStep(OpBuilder &builder, Location loc, F8Format format,
                        ArrayRef<Value> tensors) {
  SmallVector<Attribute> parameters;
  bool weights = llvm::all_of(tensors, [&](Value tensor) {
    return !hasRowSteps(tensor) && collectParameters(tensor, parameters);
  });
  if (!weights || format != F8Format::e4m3)
    return nullptr;
  auto type = RankedTensorType::get({1}, builder.getF32Type());
  return F8WeightStepOp::create(
      builder, loc, type, builder.getArrayAttr(parameters), IntegerAttr());
}

/// The step of all tensors that `amax` is the largest value of, or null: one
/// nn.f8_tensor_step where they are first read, though the step may be taken
/// again in backward. Of parts on other ranks it is the largest of theirs.
Value Storer::tensorStep(Value amax, F8Format format) {
  Operation *maker = amax.getDefiningOp();
  while (isa_and_nonnull<ReshapeOp, CastOp>(maker))
    maker = maker->getOperand(0).getDefiningOp();
  if (!maker)
    return nullptr;
  if (Value known = taken.lookup({maker, format}))
    return known;
  PlaceListener listener(placeOf(maker));
  OpBuilder builder(maker, &listener);
  Location loc = maker->getLoc();
  Value step;
  auto all = maker->getOperand(0).getDefiningOp<AllGatherOp>();
  if (all && isa<ReduceMaxOp>(maker)) {
    step = tensorStep(all.getOperand(), format);
    if (!step || !Rounded::isOne(all.getOperand()))
      return nullptr;
    // That of a weight is of all ranks.
    if (!step.getDefiningOp<F8WeightStepOp>()) {
      Value part =
          NNBuilder(builder, loc).reshape(step, shapeOf(all.getOperand()));
      part =
          AllGatherOp::create(builder, loc, part, all.getAxis(), all.getParts(),
                              all.getDim(), all.getSections(), all.getVaries());
      step = ReduceMaxOp::create(builder, loc, part,
                                 cast<ReduceMaxOp>(maker).getAxes(),
                                 /*keepdims=*/true);
    }
  } else {
    llvm::SetVector<Value> tensors;
    if (!collectTensors(amax, tensors) ||
        !llvm::all_equal(llvm::map_range(tensors, shapeOf)))
      return nullptr;
    step = weightStep(builder, loc, format, tensors.getArrayRef());
    if (!step)
      step =
          F8TensorStepOp::create(builder, loc, format, tensors.getArrayRef());
  }
  taken[{maker, format}] = step;
  return step;
}

void Storer::takeTensorSteps() {
  for (auto step : llvm::to_vector(block.getOps<F8StepOp>())) {
    if (!Rounded::isOne(step.getResult()))
      continue;
    Value early = tensorStep(step.getAmax(), step.getFormat());
    if (!early)
      continue;
    PlaceListener listener(placeOf(step));
    OpBuilder builder(step, &listener);
    step.replaceAllUsesWith(NNBuilder(builder, step.getLoc())
                                .reshape(early, shapeOf(step.getResult())));
  }
}

void Storer::run() {
  SmallVector<Product> products;
  for (Operation &op : block)
    if (std::optional<Product> product = match(&op)) {
      demand(product->lhs, &op);
      demand(product->rhs, &op);
      products.push_back(std::move(*product));
    }
  if (products.empty())
    return;
  takeTensorSteps();
  for (auto &[key, demand] : demands)
    makeCast(key, demand);
  for (Product &product : products)
    replace(product);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (op.use_empty() && isMemoryEffectFree(&op) &&
        !op.hasTrait<OpTrait::IsTerminator>())
      op.erase();
}

namespace {

struct StoreF8Pass : nn::impl::StoreF8PassBase<StoreF8Pass> {
  using StoreF8PassBase::StoreF8PassBase;

  void runOnOperation() override {
    for (Block &block : getOperation().getBody())
      Storer(block, rowSteps).run();
  }
};

} // namespace
