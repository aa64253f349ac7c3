// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes weight gradients as soon as the output's gradient is there, so that
// the saved activation is free before its own gradient needs memory.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/JoinedParameters.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_ORDERPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

// Whether the value ends, unread by anything else, as a parameter's gradient,
// or its rows as those of several.
bool becomesGradient(Value value) {
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

Operation *lastOperand(Operation *op) {
  Operation *last = nullptr;
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp())
      if (!last || last->isBeforeInBlock(def))
        last = def;
  return last;
}

struct OrderPass : public fsdp::impl::OrderPassBase<OrderPass> {
  void runOnOperation() override {
    for (func::FuncOp function : stepFunctions(getOperation())) {
      SmallVector<Operation *> products;
      for (Operation &op : function.getBody().front())
        if (isa<nn::MatmulOp, nn::MatmulEpilogueOp>(op))
          products.push_back(&op);
      for (Operation *product : products)
        if (becomesGradient(product->getResult(0)))
          if (Operation *last = lastOperand(product))
            product->moveAfter(last);
    }
  }
};

} // namespace
