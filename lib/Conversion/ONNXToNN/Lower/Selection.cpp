// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers TopK, ArgMax and ArgMin, which rank elements, and OneHot.

#include "Index.h"

using namespace mlir;

namespace shardonnx {
namespace {

LogicalResult lowerTopK(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  ArrayRef<int64_t> shape = shapeOf(operand);
  auto axis = normalizeAxis(node.getInt("axis", -1),
                            static_cast<int64_t>(shape.size()));
  SmallVector<int64_t> k;
  if (!l.getInts(node.getInput(1), k) || k.size() != 1)
    return l.unsupported(node, "its k depends on data");
  if (!axis || k[0] < 1 || k[0] > shape[*axis])
    return l.unsupported(node, "its k or axis does not fit");
  auto op = nn::TopKOp::create(l.builder, l.loc, operand, *axis, k[0],
                               node.getInt("largest", 1) == 0,
                               /*last_first=*/false);
  l.set(node->getResult(0), op.getValues());
  if (node->getNumResults() > 1)
    l.set(node->getResult(1), op.getIndices());
  return success();
}

LogicalResult lowerArg(Lowering &l, onnx::NodeOp node, bool smallest) {
  Value operand = l.get(node.getInput(0));
  SmallVector<int64_t> shape(shapeOf(operand));
  auto axis =
      normalizeAxis(node.getInt("axis", 0), static_cast<int64_t>(shape.size()));
  if (!axis || shape[*axis] < 1)
    return l.unsupported(node, "its axis is out of range");
  // A NaN is the smallest as well as the largest, as in PyTorch.
  if (smallest && isFloat(operand)) {
    operand = l.unary<nn::NegOp>(operand);
    smallest = false;
  }
  auto op = nn::TopKOp::create(l.builder, l.loc, operand, *axis, 1, smallest,
                               node.getInt("select_last_index", 0) != 0);
  if (node.getInt("keepdims", 1))
    shape[*axis] = 1;
  else
    shape.erase(shape.begin() + *axis);
  l.set(node->getResult(0), l.reshape(op.getIndices(), shape));
  return success();
}

LogicalResult lowerArgMax(Lowering &l, onnx::NodeOp node) {
  return lowerArg(l, node, /*smallest=*/false);
}

LogicalResult lowerArgMin(Lowering &l, onnx::NodeOp node) {
  return lowerArg(l, node, /*smallest=*/true);
}

/// on where the index along the new axis is the one given, else off.
LogicalResult lowerOneHot(Lowering &l, onnx::NodeOp node) {
  Value indices = l.get(node.getInput(0)), values = l.get(node.getInput(2));
  const HostTensor *known = l.getConstant(node.getInput(1));
  SmallVector<int64_t> shape(shapeOf(indices));
  auto axis = normalizeAxis(node.getInt("axis", -1),
                            static_cast<int64_t>(shape.size()) + 1);
  if (!known || known->getNumElements() != 1)
    return l.unsupported(node, "its depth depends on data");
  int64_t depth = known->isFloat() ? static_cast<int64_t>(known->front().f)
                                   : known->front().i;
  // A depth that is no depth would make a constant of its size.
  constexpr int64_t kMostDepth = 1 << 24;
  if (!axis || depth < 1 || depth > kMostDepth ||
      shapeOf(values) != ArrayRef<int64_t>{2})
    return l.unsupported(node, "its axis, depth or values do not fit");
  Type i64 = l.builder.getI64Type();
  indices = l.cast(indices, i64);
  shape.insert(shape.begin() + *axis, 1);
  indices = l.reshape(indices, shape);
  SmallVector<int64_t> line(shape.size(), 1);
  line[*axis] = shape[*axis] = depth;
  Value zero = l.constant(0, i64),
        size = l.constant(static_cast<double>(depth), i64);
  Value wrapped = l.binary<nn::AddOp>(indices, size);
  Value negative = nn::CompareOp::create(
      l.builder, l.loc, nn::ComparePredicate::lt, indices, zero);
  indices = nn::SelectOp::create(l.builder, l.loc, negative, wrapped, indices);
  Value places = nn::IotaOp::create(l.builder, l.loc,
                                    RankedTensorType::get(line, i64), *axis);
  Value hit = nn::CompareOp::create(l.builder, l.loc, nn::ComparePredicate::eq,
                                    indices, places);
  Value off = l.reshape(l.slice(values, 0, 0, 1), {});
  Value on = l.reshape(l.slice(values, 0, 1, 1), {});
  Value result = nn::SelectOp::create(l.builder, l.loc, hit, on, off);
  l.set(node->getResult(0), l.broadcast(result, shape));
  return success();
}

} // namespace

void addSelectionHandlers(HandlerTable &table) {
  table["TopK"] = lowerTopK;
  table["ArgMax"] = lowerArgMax;
  table["ArgMin"] = lowerArgMin;
  table["OneHot"] = lowerOneHot;
}

} // namespace shardonnx
