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

Value swapLastTwo(Lowering &l, Value value) {
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(value)));
  std::swap(axes[axes.size() - 2], axes.back());
  return l.transpose(value, axes);
}

/// Known integers wrap, as their products and sums do: the sum of a row times a
/// column of `rhs`, which is a row of `columns`.
Value productOfIntegers(Lowering &l, Value lhs, Value columns) {
  SmallVector<int64_t> left(shapeOf(lhs)), right(shapeOf(columns));
  left.insert(left.end() - 1, 1);
  right.insert(right.end() - 2, 1);
  Value products =
      l.binary<nn::MulOp>(l.reshape(lhs, left), l.reshape(columns, right));
  SmallVector<int64_t> shape(shapeOf(products).drop_back());
  return nn::ReduceSumOp::create(
      l.builder, l.loc, RankedTensorType::get(shape, elementType(lhs)),
      products, l.builder.getDenseI64ArrayAttr({rankOf(products) - 1}),
      UnitAttr());
}

Value matmul(Lowering &l, Value lhs, Value rhs, bool transposeLhs,
             bool transposeRhs) {
  if (!isFloat(lhs))
    return productOfIntegers(l, transposeLhs ? swapLastTwo(l, lhs) : lhs,
                             transposeRhs ? rhs : swapLastTwo(l, rhs));
  ArrayRef<int64_t> a = shapeOf(lhs), b = shapeOf(rhs);
  SmallVector<int64_t> shape(*broadcastShapes(a.drop_back(2), b.drop_back(2)));
  shape.push_back(transposeLhs ? a.back() : a[a.size() - 2]);
  shape.push_back(transposeRhs ? b[b.size() - 2] : b.back());
  UnitAttr yes = l.builder.getUnitAttr();
  return nn::MatmulOp::create(
      l.builder, l.loc, RankedTensorType::get(shape, elementType(lhs)), lhs,
      rhs, transposeLhs ? yes : UnitAttr(), transposeRhs ? yes : UnitAttr());
}

LogicalResult lowerMatMul(Lowering &l, onnx::NodeOp node) {
  Value lhs = l.get(node.getInput(0)), rhs = l.get(node.getInput(1));
  if (!isFloat(lhs) && !l.interpreting)
    return l.unsupported(node, "only of floats");
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
  l.set(node->getResult(0), l.reshape(result, shape));
  return success();
}

/// alpha·op(A)·op(B) + beta·C
LogicalResult lowerGemm(Lowering &l, onnx::NodeOp node) {
  Value a = l.get(node.getInput(0)), b = l.get(node.getInput(1));
  Type type = elementType(a);
  if ((!isFloat(a) && !l.interpreting) || rankOf(a) != 2 || rankOf(b) != 2)
    return l.unsupported(node, "only of matrices of floats");
  double alpha = node.getFloat("alpha", 1), beta = node.getFloat("beta", 1);
  // Integers that are scaled are so in f64.
  Type common =
      isFloat(a) || (alpha == 1 && beta == 1) ? type : l.builder.getF64Type();
  auto scaled = [&](Value value, double factor) {
    value = l.cast(value, common);
    return factor == 1 ? value
                       : l.binary<nn::MulOp>(value, l.constant(factor, common));
  };
  Value result = scaled(matmul(l, a, b, node.getInt("transA", 0) != 0,
                               node.getInt("transB", 0) != 0),
                        alpha);
  if (Value c = node.getInput(2)) {
    if (!nn::broadcastsTo(l.getShape(c), shapeOf(result)))
      return l.unsupported(node, "its addend does not broadcast");
    result = l.binary<nn::AddOp>(result, scaled(l.getBroadcastable(c), beta));
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
