// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Backward makes its own transposes and casts of parameters, so that none of
// them keeps a gathered parameter (or a copy of one) alive after forward. What
// is far smaller than its parameter is kept.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_RECREATEPARAMETERSPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

// Whether a value has so few elements, as the largest of each row, that to keep
// it costs less than to read what it was made of again.
static bool isSummary(Value value) {
  constexpr int64_t kFewer = 16;
  auto fused = value.getDefiningOp<nn::FusedOp>();
  return fused && llvm::any_of(fused.getInputs(), [&](Value input) {
           return cast<RankedTensorType>(input.getType()).getNumElements() >=
                  kFewer *
                      cast<RankedTensorType>(value.getType()).getNumElements();
         });
}

namespace {

class Recreator {
public:
  explicit Recreator(func::FuncOp function)
      : function(function), order(function) {}

  void run();

private:
  bool madeOfParameters(Value value);
  bool isRecreated(Value value) {
    return madeOfParameters(value) && !isSummary(value);
  }
  Value recreate(Value value, Operation *user);

  func::FuncOp function;
  StepOrder order;
  llvm::DenseMap<Value, bool> known;
  // One copy for each unit that reads it: units are far apart.
  llvm::DenseMap<std::pair<Value, Attribute>, Value> copies;
};

// A function of parameters and constants alone, without a matrix product.
bool Recreator::madeOfParameters(Value value) {
  Operation *def = value.getDefiningOp();
  if (!def || !isPure(def))
    return false;
  if (isa<nn::GetOp>(def))
    return true;
  if (isa<nn::FlopsOpInterface>(def) || def->getNumOperands() == 0)
    return false;
  auto it = known.find(value);
  if (it != known.end())
    return it->second;
  bool any = false, all = true;
  for (Value operand : def->getOperands()) {
    bool isConstant = operand.getDefiningOp<nn::ConstantOp>() != nullptr;
    bool isFunction = !isConstant && madeOfParameters(operand);
    any |= isFunction;
    all &= isConstant || isFunction;
  }
  return known[value] = any && all;
}

// A copy of `value`, made before its first user in that unit's backward.
Value Recreator::recreate(Value value, Operation *user) {
  Value &copy = copies[{value, nn::unitOf(user)}];
  if (copy)
    return copy;
  Operation *def = value.getDefiningOp();
  IRMapping mapping;
  for (Value operand : def->getOperands())
    if (isRecreated(operand))
      mapping.map(operand, recreate(operand, user));
  OpBuilder builder(user);
  Operation *clone = builder.clone(*def, mapping);
  if (FlatSymbolRefAttr unit = nn::unitOf(user); unit && !isa<nn::GetOp>(def))
    nn::setUnit(clone, unit);
  unsigned number = cast<OpResult>(value).getResultNumber();
  return copies[{value, nn::unitOf(user)}] = clone->getResult(number);
}

void Recreator::run() {
  Block &body = function.getBody().front();
  if (order.backwardStart() == 0)
    return;
  SmallVector<Operation *> backward;
  for (Operation &op : body)
    if (order.inBackward(&op))
      backward.push_back(&op);
  for (Operation *op : backward)
    for (OpOperand &operand : op->getOpOperands()) {
      Operation *def = operand.get().getDefiningOp();
      if (def && !order.inBackward(def) && isRecreated(operand.get()))
        operand.set(recreate(operand.get(), op));
    }
  // What only backward read is dead now.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(body)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

struct RecreateParametersPass
    : public fsdp::impl::RecreateParametersPassBase<RecreateParametersPass> {
  void runOnOperation() override {
    for (func::FuncOp function : stepFunctions(getOperation()))
      Recreator(function).run();
  }
};

} // namespace
