// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers matrix products. A linear layer has its rows flattened first.

#include "Handlers.h"

using namespace mlir;

namespace shardonnx {
namespace {

int64_t product(ArrayRef<int64_t> dims) {
  int64_t result = 1;
  for (int64_t dim : dims)
    result *= dim;
  return result;
}

Value matmul(Lowering &l, Value lhs, Value rhs, bool transposeLhs,
             bool transposeRhs) {
  ArrayRef<int64_t> a = shapeOf(lhs), b = shapeOf(rhs);
  SmallVector<int64_t> shape(*broadcastShapes(a.drop_back(2), b.drop_back(2)));
  shape.push_back(transposeLhs ? a.back() : a[a.size() - 2]);
  shape.push_back(transposeRhs ? b[b.size() - 2] : b.back());
  UnitAttr yes = l.builder.getUnitAttr();
  return nn::MatmulOp::create(
      l.builder, l.loc, RankedTensorType::get(shape, elementType(lhs)), lhs,
      rhs, transposeLhs ? yes : UnitAttr(), transposeRhs ? yes : UnitAttr());
}

/// An operand of a product of this type. Known integers are multiplied in f64,
/// exactly up to 2^53.
Value factor(Lowering &l, Value value, Type type) {
  return isa<FloatType>(type) ? value : l.cast(value, l.builder.getF64Type());
}

LogicalResult lowerMatMul(Lowering &l, onnx::NodeOp node) {
  Value lhs = l.get(node.getInput(0)), rhs = l.get(node.getInput(1));
  Type type = elementType(lhs);
  if (!isFloat(lhs) && !l.interpreting)
    return l.unsupported(node, "only of floats");
  lhs = factor(l, lhs, type);
  rhs = factor(l, rhs, type);
  SmallVector<int64_t> a(shapeOf(lhs)), b(shapeOf(rhs));
  // A vector is a matrix of one row or one column that is dropped again.
  bool dropRow = a.size() == 1, dropColumn = b.size() == 1;
  if (dropRow)
    lhs = l.reshape(lhs, {1, a[0]});
  if (dropColumn)
    rhs = l.reshape(rhs, {b[0], 1});
  a.assign(shapeOf(lhs).begin(), shapeOf(lhs).end());
  b.assign(shapeOf(rhs).begin(), shapeOf(rhs).end());
  if (a.back() != b[b.size() - 2] ||
      !broadcastShapes(ArrayRef<int64_t>(a).drop_back(2),
                       ArrayRef<int64_t>(b).drop_back(2)))
    return l.unsupported(node, "operands do not fit");
  Value result;
  if (b.size() == 2 && a.size() > 2) {
    int64_t rows = product(ArrayRef<int64_t>(a).drop_back());
    Value flat = l.reshape(lhs, {rows, a.back()});
    SmallVector<int64_t> shape(a);
    shape.back() = b.back();
    result = l.reshape(matmul(l, flat, rhs, false, false), shape);
  } else {
    result = matmul(l, lhs, rhs, false, false);
  }
  SmallVector<int64_t> shape(shapeOf(result));
  if (dropColumn)
    shape.pop_back();
  if (dropRow)
    shape.erase(shape.end() - (dropColumn ? 1 : 2));
  l.set(node->getResult(0), l.cast(l.reshape(result, shape), type));
  return success();
}

/// alpha·op(A)·op(B) + beta·C
LogicalResult lowerGemm(Lowering &l, onnx::NodeOp node) {
  Value a = l.get(node.getInput(0)), b = l.get(node.getInput(1));
  Type type = elementType(a);
  if ((!isFloat(a) && !l.interpreting) || rankOf(a) != 2 || rankOf(b) != 2)
    return l.unsupported(node, "only of matrices of floats");
  a = factor(l, a, type);
  b = factor(l, b, type);
  auto scaled = [&](Value value, double factor) {
    if (factor == 1)
      return value;
    return l.binary<nn::MulOp>(value, l.constant(factor, elementType(value)));
  };
  Value result = matmul(l, a, b, node.getInt("transA", 0) != 0,
                        node.getInt("transB", 0) != 0);
  result = scaled(result, node.getFloat("alpha", 1));
  if (Value c = node.getInput(2)) {
    if (!nn::broadcastsTo(l.getShape(c), shapeOf(result)))
      return l.unsupported(node, "its addend does not broadcast");
    Value addend = factor(l, l.getBroadcastable(c), type);
    result =
        l.binary<nn::AddOp>(result, scaled(addend, node.getFloat("beta", 1)));
  }
  l.set(node->getResult(0), l.cast(result, type));
  return success();
}

} // namespace

void addMatmulHandlers(HandlerTable &table) {
  table["MatMul"] = lowerMatMul;
  table["Gemm"] = lowerGemm;
}

} // namespace shardonnx
