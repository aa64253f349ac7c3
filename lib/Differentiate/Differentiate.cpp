// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-differentiate: one sweep over the ops of @forward in reverse, which
// appends the vector-Jacobian product of each to the function.

#include "Activity.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/Differentiate/Passes.h"
#include "shardonnx/Support/Origin.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

namespace shardonnx {
#define GEN_PASS_DEF_DIFFERENTIATEPASS
#include "shardonnx/Differentiate/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;

namespace {

/// Gives every op that a gradient's construction inserts the unit of the op
/// that it is the gradient of. Its location is said to be a gradient's for
/// those who read the IR: a message finds the ONNX node behind that name.
class GradientListener : public nn::PlaceListener {
public:
  void notifyOperationInserted(Operation *op,
                               OpBuilder::InsertPoint previous) override {
    PlaceListener::notifyOperationInserted(op, previous);
    op->setLoc(NameLoc::get(StringAttr::get(op->getContext(), "gradient"),
                            op->getLoc()));
  }
};

/// The reverse sweep over one function.
class Differentiator {
public:
  Differentiator(nn::LossOp loss, SymbolTable &symbols)
      : loss(loss), symbols(symbols), activity(loss, symbols),
        builder(loss->getContext(), &listener) {
    builder.setInsertionPoint(loss->getBlock()->getTerminator());
  }

  LogicalResult run();

private:
  LogicalResult checkDifferentiable(ArrayRef<Operation *> active);
  LogicalResult reverse(Operation *op);
  void addCotangent(Value value, Value cotangent);
  Value takeCotangent(Value value);
  void handOver();
  void freezeUnreached();
  void replaceLossOp();

  nn::LossOp loss;
  SymbolTable &symbols;
  Activity activity;
  GradientListener listener;
  OpBuilder builder;
  /// The summands of each value's cotangent, in the order they were built.
  DenseMap<Value, SmallVector<Value, 2>> cotangents;
  /// The summands of each parameter's gradient.
  llvm::MapVector<StringAttr, SmallVector<Value, 2>> gradients;
};

} // namespace

/// Reports every active op without a gradient at once.
LogicalResult
Differentiator::checkDifferentiable(ArrayRef<Operation *> active) {
  bool ok = true;
  for (Operation *op : active) {
    if (isa<nn::GetOp, nn::DifferentiableOpInterface>(op))
      continue;
    op->emitError() << "'" << op->getName()
                    << "' has no gradient, but a trainable parameter reaches "
                       "the loss through it; freeze what comes before it";
    ok = false;
  }
  return success(ok);
}

void Differentiator::addCotangent(Value value, Value cotangent) {
  // Only what goes to a parameter may differ from the value's own type.
  if (!nn::isParameterView(value))
    cotangent = nn::NNBuilder(builder, value.getLoc())
                    .cast(cotangent, nn::elementType(value));
  assert(nn::shapeOf(cotangent) == nn::shapeOf(value) &&
         "a gradient has the shape of its value");
  cotangents[value].push_back(cotangent);
}

/// Sums summands in the order they were built.
static Value sumUp(OpBuilder &builder, Location loc, ArrayRef<Value> summands) {
  nn::NNBuilder b(builder, loc);
  Value sum = summands.front();
  for (Value summand : summands.drop_front())
    sum = b.add(sum, summand);
  return sum;
}

/// The gradients of slices that together are the whole value, side by side
/// (query, key and value of one projection): one concat instead of padding
/// each with zeros and adding. Null where the summands are something else.
static Value joinSlices(OpBuilder &builder, Location loc,
                        ArrayRef<Value> summands) {
  SmallVector<nn::PadOp> pads;
  std::optional<int64_t> axis;
  for (Value summand : summands) {
    auto pad = summand.getDefiningOp<nn::PadOp>();
    if (!pad || !pad->use_empty())
      return nullptr;
    for (auto [i, low, high] : llvm::enumerate(pad.getLow(), pad.getHigh())) {
      if (low == 0 && high == 0)
        continue;
      if (axis && *axis != static_cast<int64_t>(i))
        return nullptr;
      axis = i;
    }
    pads.push_back(pad);
  }
  if (!axis || pads.size() < 2)
    return nullptr;
  llvm::sort(pads, [&](nn::PadOp a, nn::PadOp b) {
    return a.getLow()[*axis] < b.getLow()[*axis];
  });
  SmallVector<Value> parts;
  int64_t end = 0;
  for (nn::PadOp pad : pads) {
    if (pad.getLow()[*axis] != end)
      return nullptr;
    end += nn::shapeOf(pad.getOperand())[*axis];
    parts.push_back(pad.getOperand());
  }
  if (end != nn::shapeOf(summands.front())[*axis])
    return nullptr;
  Value whole = nn::ConcatOp::create(builder, loc, parts, *axis);
  for (nn::PadOp pad : pads)
    pad.erase();
  return whole;
}

/// The cotangent of a value whose users are all behind us, or null.
Value Differentiator::takeCotangent(Value value) {
  auto it = cotangents.find(value);
  if (it == cotangents.end())
    return nullptr;
  Value sum = joinSlices(builder, value.getLoc(), it->second);
  if (!sum)
    sum = sumUp(builder, value.getLoc(), it->second);
  cotangents.erase(it);
  return sum;
}

LogicalResult Differentiator::reverse(Operation *op) {
  listener.place = nn::placeOf(op);
  SmallVector<Value> resultGrads;
  for (Value result : op->getResults())
    resultGrads.push_back(takeCotangent(result));
  if (llvm::none_of(resultGrads, [](Value value) { return bool(value); }))
    return success();
  if (auto get = dyn_cast<nn::GetOp>(op)) {
    gradients[get.getParameterAttr().getAttr()].push_back(resultGrads[0]);
    return success();
  }
  llvm::SmallBitVector needed(op->getNumOperands());
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    needed[i] = activity.isActive(operand);
  SmallVector<Value> operandGrads(op->getNumOperands());
  if (failed(cast<nn::DifferentiableOpInterface>(op).buildVjp(
          builder, resultGrads, needed, operandGrads)))
    return failure();
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (needed[i] && operandGrads[i])
      addCotangent(operand, operandGrads[i]);
  return success();
}

/// Each parameter's gradient goes out right after its last op, so that its
/// reduction may start there.
void Differentiator::handOver() {
  for (auto &[name, summands] : gradients) {
    auto parameter = symbols.lookup<nn::ParameterOp>(name);
    listener.place = parameter.getPlaceAttr();
    OpBuilder::InsertionGuard guard(builder);
    // The last summand in the block: every one of them dominates what follows.
    Operation *last = summands.front().getDefiningOp();
    for (Value summand : summands)
      if (last->isBeforeInBlock(summand.getDefiningOp()))
        last = summand.getDefiningOp();
    builder.setInsertionPointAfter(last);
    Value sum = sumUp(builder, parameter.getLoc(), summands);
    Type reduce = nn::reduceType(parameter);
    Type element = reduce ? reduce : nn::elementType(sum);
    sum = nn::NNBuilder(builder, parameter.getLoc()).cast(sum, element);
    nn::GradOp::create(builder, parameter.getLoc(),
                       FlatSymbolRefAttr::get(name), sum);
  }
}

void Differentiator::freezeUnreached() {
  Operation *module = loss->getParentOfType<ModuleOp>();
  for (auto parameter : module->getRegion(0).getOps<nn::ParameterOp>()) {
    if (!parameter.getTrainable() ||
        gradients.contains(parameter.getSymNameAttr()))
      continue;
    nn::noteUntrained(cast<ModuleOp>(module), parameter.getSymName(),
                      "does not reach the loss", /*asked=*/false);
    parameter.setTrainable(false);
  }
}

/// A loss and its gradient are one kernel: the forward op goes, and the loss
/// is reported from where the gradient is computed.
void Differentiator::replaceLossOp() {
  Operation *forward = loss.getSum().getDefiningOp();
  if (!isa_and_nonnull<nn::CrossEntropyOp, nn::LinearCrossEntropyOp,
                       nn::LinearCrossEntropyPartOp>(forward) ||
      !forward->hasOneUse())
    return;
  for (Operation *user : forward->getOperand(0).getUsers()) {
    if (!isa<nn::CrossEntropyGradOp, nn::LinearCrossEntropyGradOp,
             nn::LinearCrossEntropyPartGradOp>(user) ||
        user->getOperands().take_front(forward->getNumOperands()) !=
            forward->getOperands())
      continue;
    loss.getSumMutable().assign(user->getResult(0));
    loss->moveAfter(user);
    forward->erase();
    return;
  }
}

/// What the exporter has made of parameters that would be trained.
static std::string describeLost(ModuleOp module) {
  auto untrained = module->getAttrOfType<ArrayAttr>(nn::kUntrainedAttr);
  if (!untrained)
    return "";
  std::string first;
  size_t others = 0;
  for (auto entry : untrained.getAsRange<DictionaryAttr>()) {
    if (!entry.contains("lost") || entry.contains(nn::kReadByKey))
      continue;
    if (!first.empty()) {
      ++others;
      continue;
    }
    first = "; '" + entry.getAs<StringAttr>("name").str() + "' is " +
            entry.getAs<StringAttr>("reason").str();
  }
  if (others > 0)
    first += ", and " + std::to_string(others) + " more are not there";
  return first.empty() ? "" : first + ": export with optimize=False";
}

LogicalResult Differentiator::run() {
  SmallVector<Operation *> active;
  for (Operation &op : *loss->getBlock())
    if (activity.isActive(&op))
      active.push_back(&op);
  if (active.empty())
    return loss.emitError(
               "no trainable parameter reaches the loss: nothing can be "
               "trained")
           << describeLost(loss->getParentOfType<ModuleOp>());
  if (failed(checkDifferentiable(active)))
    return failure();

  Operation *source = loss.getSum().getDefiningOp();
  listener.place = source ? nn::placeOf(source) : nn::PlaceAttr();
  Value seed = nn::LossScaleOp::create(
      builder, loss.getLoc(), RankedTensorType::get({}, builder.getF32Type()));
  addCotangent(loss.getSum(), seed);
  for (Operation *op : llvm::reverse(active))
    if (failed(reverse(op)))
      return failure();
  freezeUnreached();
  handOver();
  replaceLossOp();
  nn::markBackward(*loss->getBlock());
  return success();
}

/// Evaluation drops nothing.
static void dropDropout(func::FuncOp eval) {
  for (Operation &op : llvm::make_early_inc_range(eval.front())) {
    if (!isa<nn::DropoutOp, nn::PartDropoutOp>(op))
      continue;
    op.getResult(0).replaceAllUsesWith(op.getOperand(0));
    op.erase();
  }
}

namespace {
struct DifferentiatePass
    : shardonnx::impl::DifferentiatePassBase<DifferentiatePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    auto forward = symbols.lookup<func::FuncOp>("forward");
    if (!forward) {
      module.emitError("there is no @forward to differentiate");
      return signalPassFailure();
    }
    auto losses = llvm::to_vector(forward.getOps<nn::LossOp>());
    if (losses.size() != 1) {
      forward.emitError("@forward must report one loss, but reports ")
          << losses.size() << ": run nn-attach-loss first";
      return signalPassFailure();
    }
    func::FuncOp eval = forward.clone();
    eval.setName("eval");
    dropDropout(eval);
    symbols.insert(eval, std::next(forward->getIterator()));
    (void)symbols.rename(forward, "microbatch");
    if (failed(Differentiator(losses.front(), symbols).run()))
      signalPassFailure();
  }
};
} // namespace
