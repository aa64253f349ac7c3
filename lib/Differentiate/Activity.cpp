// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Activity analysis: one sweep forwards, one backwards, over straight-line
// code.

#include "Activity.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;

Activity::Activity(nn::LossOp loss, const SymbolTable &symbols) {
  findVaried(*loss->getBlock(), symbols);
  findUseful(*loss->getBlock(), loss.getSum());
}

bool Activity::isActive(Operation *op) const {
  return llvm::any_of(op->getResults(),
                      [&](Value result) { return isActive(result); });
}

void Activity::findVaried(Block &block, const SymbolTable &symbols) {
  auto varies = [&](Operation &op) {
    if (auto get = dyn_cast<nn::GetOp>(op)) {
      auto parameter = symbols.lookup<nn::ParameterOp>(get.getParameter());
      return parameter && parameter.getTrainable();
    }
    return llvm::any_of(op.getOperands(),
                        [&](Value value) { return varied.contains(value); });
  };
  for (Operation &op : block) {
    if (!varies(op))
      continue;
    for (Value result : op.getResults())
      if (isa<FloatType>(nn::elementType(result)))
        varied.insert(result);
  }
}

void Activity::findUseful(Block &block, Value loss) {
  useful.insert(loss);
  for (Operation &op : llvm::reverse(block))
    if (llvm::any_of(op.getResults(),
                     [&](Value result) { return useful.contains(result); }))
      useful.insert_range(op.getOperands());
}
