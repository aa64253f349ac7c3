// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers normalisations over the last axes, and softmax.

#include "Handlers.h"

using namespace mlir;

namespace shardonnx {
namespace {

/// The type of a statistic: f32, one for each row.
Type rowType(Lowering &l, Value operand) {
  SmallVector<int64_t> shape(shapeOf(operand));
  shape.back() = 1;
  return RankedTensorType::get(shape, l.builder.getF32Type());
}

/// Joins the axes from `axis` on, over which ONNX normalises, to one.
Value joinFrom(Lowering &l, Value value, unsigned axis) {
  SmallVector<int64_t> shape(shapeOf(value).take_front(axis));
  int64_t width = 1;
  for (int64_t dim : shapeOf(value).drop_front(axis))
    width *= dim;
  shape.push_back(width);
  return l.reshape(value, shape);
}

/// A scale or bias as one axis of `width` elements.
Value asVector(Lowering &l, Value input, int64_t width) {
  Value value = l.get(input);
  int64_t count = 1;
  for (int64_t dim : shapeOf(value))
    count *= dim;
  if (count == 1 && width != 1)
    return l.broadcast(l.reshape(value, {1}), {width});
  return count == width ? l.reshape(value, {width}) : Value();
}

/// What both norms go over: the axes from `axis` on as one row, with its scale
/// (null where that is no vector).
struct NormRows {
  SmallVector<int64_t> shape; // of the operand
  int64_t axis = 0;
  Value x, weight;

  LogicalResult take(Lowering &l, onnx::NodeOp node) {
    Value operand = l.get(node.getInput(0));
    shape.assign(shapeOf(operand).begin(), shapeOf(operand).end());
    auto first = normalizeAxis(node.getInt("axis", -1),
                               static_cast<int64_t>(shape.size()));
    if (!first)
      return l.unsupported(node, "its axis is out of range");
    axis = *first;
    x = joinFrom(l, operand, axis);
    weight = asVector(l, node.getInput(1), shapeOf(x).back());
    return success();
  }
};

LogicalResult lowerLayerNorm(Lowering &l, onnx::NodeOp node) {
  NormRows rows;
  if (failed(rows.take(l, node)))
    return failure();
  auto &[shape, axis, x, weight] = rows;
  Value bias;
  if (node.getInput(2))
    bias = asVector(l, node.getInput(2), shapeOf(x).back());
  if (!weight || (node.getInput(2) && !bias))
    return l.unsupported(node, "its scale has another size than the row");
  Type row = rowType(l, x);
  auto norm = nn::LayerNormOp::create(
      l.builder, l.loc, TypeRange{x.getType(), row, row}, x, weight, bias,
      l.builder.getF32FloatAttr(
          static_cast<float>(node.getFloat("epsilon", 1e-5))));
  l.set(node->getResult(0), l.reshape(norm.getResult(), shape));
  // Mean and 1/deviation of each row.
  std::fill(shape.begin() + axis, shape.end(), 1);
  for (unsigned i = 1; i < node->getNumResults(); ++i) {
    auto type = dyn_cast<ShapedType>(node->getResult(i).getType());
    if (type)
      l.set(node->getResult(i), l.cast(l.reshape(norm->getResult(i), shape),
                                       type.getElementType()));
  }
  return success();
}

LogicalResult lowerRmsNorm(Lowering &l, onnx::NodeOp node) {
  NormRows rows;
  if (failed(rows.take(l, node)))
    return failure();
  auto &[shape, axis, x, weight] = rows;
  // A scale that differs between rows, of each head for instance, comes after.
  Value after = weight ? Value() : l.get(node.getInput(1));
  if (after) {
    auto full = broadcastShapes(shape, shapeOf(after));
    if (!full || ArrayRef<int64_t>(*full) != ArrayRef<int64_t>(shape))
      return l.unsupported(node, "its scale has another size than the row");
    weight = l.constant(1, elementType(x), {shapeOf(x).back()});
  }
  auto norm = nn::RmsNormOp::create(
      l.builder, l.loc, TypeRange{x.getType(), rowType(l, x)}, x, weight,
      l.builder.getF32FloatAttr(
          static_cast<float>(node.getFloat("epsilon", 1e-5))));
  Value result = l.reshape(norm.getResult(), shape);
  l.set(node->getResult(0),
        after ? l.binary<nn::MulOp>(result, after) : result);
  return success();
}

/// Moves the axis to the end, applies the op, and moves it back.
template <typename Op> LogicalResult lastAxis(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  int64_t rank = rankOf(operand);
  auto axis = normalizeAxis(node.getInt("axis", -1), rank);
  if (!axis || !isFloat(operand))
    return l.unsupported(node, "its axis is out of range");
  SmallVector<int64_t> permutation;
  for (int64_t i = 0; i < rank; ++i)
    permutation.push_back(i);
  std::swap(permutation[*axis], permutation.back());
  bool moved = *axis != rank - 1;
  if (moved)
    operand = l.transpose(operand, permutation);
  Value result = l.unary<Op>(operand);
  l.set(node->getResult(0), moved ? l.transpose(result, permutation) : result);
  return success();
}

} // namespace

void addNormHandlers(HandlerTable &table) {
  table["LayerNormalization"] = lowerLayerNorm;
  table["RMSNormalization"] = lowerRmsNorm;
  table["Softmax"] = lastAxis<nn::SoftmaxOp>;
  table["LogSoftmax"] = lastAxis<nn::LogSoftmaxOp>;
}

} // namespace shardonnx
