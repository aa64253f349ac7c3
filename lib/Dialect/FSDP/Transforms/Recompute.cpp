// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes the forward of each block again in its backward, from the block's
// inputs, so that nothing inside the block is saved.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

class Recomputer {
public:
  explicit Recomputer(func::FuncOp function)
      : function(function), order(function) {}

  void run();

private:
  bool isInside(Value value, FlatSymbolRefAttr unit) const;
  Value recompute(Value value, FlatSymbolRefAttr unit);

  func::FuncOp function;
  StepOrder order;
  llvm::DenseMap<Attribute, OpBuilder> builders; // of each unit's clones
  llvm::DenseMap<Operation *, Operation *> clones;
};

// Made by the unit's own forward, from something: tables and constants that
// read nothing of the step are cheap to keep and read by every block.
bool Recomputer::isInside(Value value, FlatSymbolRefAttr unit) const {
  Operation *def = value.getDefiningOp();
  return def && !order.inBackward(def) && unitOf(def) == unit && isPure(def) &&
         def->getNumOperands() != 0;
}

// The clone of what makes `value`; clones of one unit stand together, in the
// order of need, before the first op of its backward.
Value Recomputer::recompute(Value value, FlatSymbolRefAttr unit) {
  Operation *def = value.getDefiningOp();
  Operation *clone = clones.lookup(def);
  if (!clone) {
    IRMapping mapping;
    for (Value operand : def->getOperands())
      if (isInside(operand, unit))
        mapping.map(operand, recompute(operand, unit));
    clone = builders.at(unit).clone(*def, mapping);
    clone->setAttr(kRecomputeAttr, UnitAttr::get(def->getContext()));
    clones[def] = clone;
  }
  return clone->getResult(cast<OpResult>(value).getResultNumber());
}

void Recomputer::run() {
  SmallVector<Operation *> backward;
  for (Operation &op : function.getBody().front())
    if (order.inBackward(&op))
      backward.push_back(&op);
  for (Operation *op : backward) {
    FlatSymbolRefAttr unit = unitOf(op);
    if (!unit || unit.getValue() == kRootUnit)
      continue;
    builders.try_emplace(unit, op);
    for (OpOperand &operand : op->getOpOperands())
      if (isInside(operand.get(), unit))
        operand.set(recompute(operand.get(), unit));
  }
}

struct RecomputePass : public fsdp::impl::RecomputePassBase<RecomputePass> {
  using RecomputePassBase::RecomputePassBase;

  void runOnOperation() override {
    if (recompute == Recompute::none)
      return;
    for (func::FuncOp function : stepFunctions(getOperation()))
      Recomputer(function).run();
  }
};

} // namespace
