// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Eager.h. Products, attention and embeddings are counted where their
// launches are; views move nothing.

#include "shardonnx/Cost/Eager.h"

#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Support/ElementType.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace shardonnx {
namespace {

enum class EagerKind { Elsewhere, Linear, Concatenated, Elementwise };

EagerKind kindOf(Operation *op) {
  return llvm::StringSwitch<EagerKind>(op->getName().stripDialect())
      .Cases({"get", "reshape", "transpose", "matmul", "attention", "embedding",
              "linear_cross_entropy", "constant", "loss", "broadcast"},
             EagerKind::Elsewhere)
      .Cases({"add", "sub"}, EagerKind::Linear)
      .Cases({"slice", "concat", "split"}, EagerKind::Concatenated)
      .Default(EagerKind::Elementwise);
}

double bytesOf(Value value) {
  auto type = dyn_cast<ShapedType>(value.getType());
  if (!type || !type.hasStaticShape() || !type.getElementType().isIntOrFloat())
    return 0;
  return double(type.getNumElements()) *
         double(elementBytes(type.getElementType()));
}

bool isProduct(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && op->getName().stripDialect() == "reshape")
    op = op->getOperand(0).getDefiningOp();
  return op && op->getName().stripDialect() == "matmul";
}

EagerTraffic::Unit trafficOf(Operation *op) {
  double written = bytesOf(op->getResult(0));
  double read = 0;
  bool vector = false, product = false; // a bias beside a product is its part
  for (Value operand : op->getOperands()) {
    double bytes = bytesOf(operand);
    if (8 * bytes < written) {
      vector = true;
      continue;
    }
    read += bytes;
    product |= isProduct(operand);
  }
  switch (kindOf(op)) {
  case EagerKind::Elsewhere:
    return {};
  case EagerKind::Linear:
    // A bias' gradient is a sum over rows. Of two values the gradient flows on
    // and is added to that of another use.
    if (vector)
      return {product ? 0 : read + written, written};
    return {read + written, 3 * written};
  case EagerKind::Concatenated:
    return {0, 2 * written}; // a view; gradients are copied together
  case EagerKind::Elementwise:
    break;
  }
  // The gradients of what it reads, from that of its result and what it read.
  return {read + written, written + 2 * read + (vector ? written + read : 0)};
}

} // namespace

EagerGraph countEager(ModuleOp module) {
  EagerGraph graph;
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.getBody().front()) {
      if (auto head = op.getName().stripDialect();
          head == "linear_cross_entropy") {
        auto rows = dyn_cast<ShapedType>(op.getOperand(0).getType());
        auto weight = dyn_cast<ShapedType>(op.getOperand(1).getType());
        if (rows && weight && rows.getRank() > 0)
          graph.logits +=
              double(rows.getNumElements()) / double(rows.getShape().back()) *
              double(weight.getNumElements()) / double(rows.getShape().back());
      }
      FlatSymbolRefAttr unit = nn::unitOf(&op);
      if (!unit || op.getNumResults() == 0)
        continue;
      EagerTraffic::Unit moved = trafficOf(&op);
      EagerTraffic::Unit &sum = graph.units[unit.getValue()];
      sum.forward += moved.forward;
      sum.backward += moved.backward;
    }
  return graph;
}

} // namespace shardonnx
