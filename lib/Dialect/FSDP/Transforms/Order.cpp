// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes weight gradients as soon as the output's gradient is there, so that
// the saved activation is free before its own gradient needs memory; and what
// backward does with a unit's parameters before the next unit begins, so that
// each is gathered once.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/JoinedParameters.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_ORDERPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

// Its rows may be the gradients of several.
bool fsdp::becomesGradient(Value value) {
  bool joined = llvm::all_of(value.getUsers(), [](Operation *user) {
    return isa<nn::SliceOp>(user) && nn::wholeOfRows(user->getResult(0));
  });
  if (value.use_empty() || !(joined || value.hasOneUse()))
    return false;
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    return isa<nn::GradOp>(user) ||
           (isa<nn::ReshapeOp, nn::TransposeOp, nn::CastOp, nn::SliceOp>(
                user) &&
            becomesGradient(user->getResult(0)));
  });
}

namespace {

Operation *lastOperand(Operation *op) {
  Operation *last = nullptr;
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp())
      if (!last || last->isBeforeInBlock(def))
        last = def;
  return last;
}

bool isOfPhase(Operation *op, nn::Phase phase) {
  nn::PlaceAttr place = nn::placeOf(op);
  return place && place.getPhase() == phase;
}

// As moveAfter, which has the order of the whole block made anew.
void moveBehind(Operation *op, Operation *last) {
  if (op->getPrevNode() == last)
    return;
  op->remove();
  last->getBlock()->getOperations().insertAfter(last->getIterator(), op);
}

// The last op that makes an operand of it other than parameters.
Operation *lastComputed(Operation *op) {
  Operation *last = nullptr;
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp();
        def && !isa<nn::GetOp>(def) && (!last || last->isBeforeInBlock(def)))
      last = def;
  return last;
}

// What the next unit computes again needs nothing of this one's backward, so
// it may have come to stand before the end of that.
void finishUnit(Operation *op) {
  Operation *last = lastComputed(op);
  FlatSymbolRefAttr unit = nn::unitOf(op);
  if (!last || !unit || nn::unitOf(last) != unit ||
      !isOfPhase(last, nn::Phase::backward))
    return;
  bool parted = false;
  for (Operation *other = last->getNextNode(); other != op && !parted;
       other = other->getNextNode()) {
    FlatSymbolRefAttr of = nn::unitOf(other);
    parted = of && of != unit && isOfPhase(other, nn::Phase::recompute);
  }
  if (!parted)
    return;
  moveBehind(op, last);
  for (Value operand : op->getOperands())
    if (auto get = operand.getDefiningOp<nn::GetOp>();
        get && op->isBeforeInBlock(get))
      get->moveBefore(op);
}

struct OrderPass : public fsdp::impl::OrderPassBase<OrderPass> {
  void runOnOperation() override {
    for (func::FuncOp function : stepFunctions(getOperation())) {
      SmallVector<Operation *> products;
      for (Operation &op : function.getBody().front())
        if (isa<nn::MatmulOp, nn::MatmulEpilogueOp, nn::F8ProductOp>(op))
          products.push_back(&op);
      for (Operation *product : products)
        if (becomesGradient(product->getResult(0)))
          if (Operation *last = lastOperand(product))
            moveBehind(product, last);
      for (Operation &op :
           llvm::make_early_inc_range(function.getBody().front()))
        if (isOfPhase(&op, nn::Phase::backward))
          finishUnit(&op);
    }
  }
};

} // namespace
