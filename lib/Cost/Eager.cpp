// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Eager.h. Products, attention and embeddings are counted where their
// launches are; views move nothing.

#include "shardonnx/Cost/Eager.h"

#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Support/ElementType.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVectorExtras.h"
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
      // Between ranks, and what these have of a vocabulary.
      .Cases({"vary", "all_reduce", "all_slice", "all_gather", "reduce_scatter",
              "all_to_all", "part_slice", "part_pad", "part_roll", "part_shift",
              "ring_attention", "embedding_part", "linear_cross_entropy_part"},
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

// The value behind what only looks at it in another shape.
Value rootOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    StringRef name = op->getName().stripDialect();
    if (name != "reshape" && name != "transpose" && name != "slice" &&
        name != "broadcast")
      break;
    value = op->getOperand(0);
  }
  return value;
}

// Parameters, and what is made of them alone: nothing is kept of them.
bool isParameter(Value value) {
  Operation *op = rootOf(value).getDefiningOp();
  if (!op)
    return false;
  StringRef name = op->getName().stripDialect();
  if (name == "get" || name == "constant" || name == "rotary_table")
    return true;
  return name == "concat" && llvm::all_of(op->getOperands(), isParameter);
}

// Columns of each product that others compute one by one.
SmallVector<double> columnsOf(Operation *product) {
  auto width = [&](Value weight) {
    auto rows = dyn_cast<ShapedType>(weight.getType());
    auto of = dyn_cast<ShapedType>(product->getResult(0).getType());
    if (!rows || !of || rows.getRank() != 2)
      return 0.0;
    return double(product->hasAttr("transpose_rhs") ? rows.getDimSize(0)
                                                    : rows.getDimSize(1));
  };
  Operation *weight = product->getOperand(1).getDefiningOp();
  if (weight && weight->getName().stripDialect() == "concat")
    return llvm::map_to_vector(weight->getOperands(), width);
  return {width(product->getOperand(1))};
}

// What autograd keeps, value by value, and what torchtitan's selective
// checkpointing keeps of the same block: attention, and every other product.
class KeptValues {
public:
  void visit(Operation *op, EagerTraffic::Unit &unit);

private:
  void keep(Value value, EagerTraffic::Unit &unit);
  llvm::DenseSet<Value> kept;
  llvm::DenseMap<EagerTraffic::Unit *, int64_t> products;
  llvm::DenseMap<EagerTraffic::Unit *, std::pair<double, double>> flops;
};

void KeptValues::keep(Value value, EagerTraffic::Unit &unit) {
  Value root = rootOf(value);
  if (!isParameter(root) && kept.insert(root).second)
    unit.kept += bytesOf(root);
}

void KeptValues::visit(Operation *op, EagerTraffic::Unit &unit) {
  StringRef name = op->getName().stripDialect();
  FlatSymbolRefAttr place = nn::unitOf(op);
  for (Value operand : op->getOperands()) {
    Operation *made = rootOf(operand).getDefiningOp();
    if (made && nn::unitOf(made) != place && !isParameter(operand) &&
        unit.input == 0)
      unit.input = bytesOf(operand);
  }
  if (name == "matmul") {
    keep(op->getOperand(0), unit);
    if (!isParameter(op->getOperand(1)))
      return keep(op->getOperand(1), unit);
    double all = 0;
    SmallVector<double> columns = columnsOf(op);
    for (double width : columns)
      all += width;
    double bytes = bytesOf(op->getResult(0));
    auto left = dyn_cast<ShapedType>(op->getOperand(0).getType());
    double depth = left ? double(left.getShape().back()) : 0;
    auto &[again, total] = flops[&unit];
    for (double width : columns) {
      bool selects = ++products[&unit] % 2 == 1;
      if (selects && all > 0)
        unit.selected += bytes * width / all;
      again += selects ? 0 : depth * width;
      total += depth * width;
    }
    unit.again = total > 0 ? again / total : 0;
  } else if (name == "attention") {
    unit.block = true;
    for (Value operand : op->getOperands().take_front(3))
      keep(operand, unit);
    for (Value result : op->getResults()) {
      keep(result, unit);
      unit.selected += bytesOf(result);
    }
    unit.repeated +=
        2 * (bytesOf(op->getOperand(0)) - bytesOf(op->getOperand(1)));
  } else if (name == "layer_norm") {
    keep(op->getOperand(0), unit);
  } else if (name == "rms_norm") {
    if (auto type = dyn_cast<ShapedType>(op->getOperand(0).getType()))
      unit.normed += double(type.getNumElements());
  } else if (kindOf(op) == EagerKind::Elementwise && name != "cast" &&
             name != "rotary") {
    for (Value operand : op->getOperands())
      keep(operand, unit);
  }
}

} // namespace

EagerGraph countEager(ModuleOp module) {
  EagerGraph graph;
  KeptValues kept;
  for (auto function : module.getOps<func::FuncOp>())
    for (Operation &op : function.getBody().front()) {
      if (auto head = op.getName().stripDialect();
          head == "linear_cross_entropy" ||
          head == "linear_cross_entropy_part") {
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
      kept.visit(&op, sum);
    }
  return graph;
}

} // namespace shardonnx
