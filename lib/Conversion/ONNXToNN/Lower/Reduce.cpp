// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers reductions and running sums. Sums, means and maxima of floats are what
// kernels reduce; other reductions combine halves of the axis elementwise, as
// often as it can be halved, which is exact for integers, and whose gradient
// is right where a factor is zero.

#include "Rearrange.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include "shardonnx/Dialect/NN/IR/Ties.h"

using namespace mlir;

namespace shardonnx {
namespace {

using nn::ComparePredicate;
using nn::NNBuilder;

/// What a node reduces: its axes, sorted, and whether they stay.
struct Reduction {
  Value operand;
  SmallVector<int64_t> axes;
  bool keep;
  SmallVector<int64_t> shape; // of the result
};

std::optional<Reduction> readReduction(Lowering &l, onnx::NodeOp node) {
  Reduction r;
  r.operand = l.get(node.getInput(0));
  int64_t rank = rankOf(r.operand);
  const HostTensor *list = l.getConstant(node.getInput(1));
  if (node.getInput(1) && !list)
    return l.unsupported(node, "its axes depend on data");
  auto axes = readReducedAxes(node, list, rank);
  if (!axes)
    return l.unsupported(node, "its axes are out of range");
  r.axes = *axes;
  r.keep = node.getInt("keepdims", 1) != 0;
  for (int64_t i = 0; i < rank; ++i) {
    bool reduced = llvm::is_contained(r.axes, i);
    if (!reduced || r.keep)
      r.shape.push_back(reduced ? 1 : shapeOf(r.operand)[i]);
  }
  return r;
}

/// `combine` over all elements of an axis, which stays as size 1.
template <typename Fn>
Value combineAxis(Lowering &l, Value value, unsigned axis, Fn combine) {
  Value odd;
  for (int64_t size = shapeOf(value)[axis]; size > 1; size /= 2) {
    if (size % 2 == 1) {
      Value last = l.slice(value, axis, size - 1, 1);
      odd = odd ? combine(odd, last) : last;
    }
    Value low = l.slice(value, axis, 0, size / 2);
    Value high = l.slice(value, axis, size / 2, size / 2);
    value = combine(low, high);
  }
  return odd ? combine(value, odd) : value;
}

template <typename Fn>
Value combineAxes(Lowering &l, const Reduction &r, Value value, double neutral,
                  Fn combine) {
  if (llvm::is_contained(shapeOf(value), 0))
    return l.constant(neutral, elementType(value), r.shape);
  for (int64_t axis : r.axes)
    value = combineAxis(l, value, static_cast<unsigned>(axis), combine);
  return l.reshape(value, r.shape);
}

template <typename Op>
Value reduceAll(NNBuilder &b, const Reduction &r, Value value) {
  if (r.axes.empty())
    return value;
  return Op::create(b.builder, b.loc, value, r.axes, r.keep);
}

/// Integers and booleans, by halves: programs reduce floats alone.
template <typename Combine>
LogicalResult combineIntegers(Lowering &l, onnx::NodeOp node,
                              const Reduction &r) {
  if (llvm::is_contained(shapeOf(r.operand), 0))
    return l.unsupported(node, "its operand is empty");
  l.set(node->getResult(0),
        combineAxes(l, r, r.operand, /*neutral=*/0,
                    [&](Value x, Value y) { return l.binary<Combine>(x, y); }));
  return success();
}

/// torch.max(x, dim) and min give the gradient to the first, where the exporter
/// says that a reduction is one.
void keepFirst(onnx::NodeOp node, const Reduction &r, Value result) {
  auto most = result.getDefiningOp<nn::ReduceMaxOp>();
  if (most && !r.axes.empty() && node.getNodeAttr("first"))
    most->setAttr(nn::kFirstAttr, UnitAttr::get(node.getContext()));
}

template <typename Op, typename Combine>
LogicalResult reduce(Lowering &l, onnx::NodeOp node) {
  auto r = readReduction(l, node);
  if (!r)
    return failure();
  if (!isFloat(r->operand) && !l.interpreting)
    return combineIntegers<Combine>(l, node, *r);
  Value result = reduceAll<Op>(l, *r, r->operand);
  keepFirst(node, *r, result);
  l.set(node->getResult(0), result);
  return success();
}

LogicalResult lowerReduceMean(Lowering &l, onnx::NodeOp node) {
  auto r = readReduction(l, node);
  if (!r)
    return failure();
  if (!isFloat(r->operand))
    return l.unsupported(node, "only of floats");
  l.set(node->getResult(0), reduceAll<nn::ReduceMeanOp>(l, *r, r->operand));
  return success();
}

/// Of booleans: whether any, or all, are true.
template <typename Op, typename Combine, typename Logic>
LogicalResult extremum(Lowering &l, onnx::NodeOp node) {
  auto type = cast<ShapedType>(node.getInputs()[0].getType());
  if (type.getElementType().isInteger(1))
    return reduce<Op, Logic>(l, node);
  return reduce<Op, Combine>(l, node);
}

LogicalResult lowerReduceMin(Lowering &l, onnx::NodeOp node) {
  auto r = readReduction(l, node);
  if (!r)
    return failure();
  if (elementType(r->operand).isInteger(1))
    return combineIntegers<nn::AndOp>(l, node, *r);
  if (!isFloat(r->operand))
    return combineIntegers<nn::MinOp>(l, node, *r);
  Value negated = l.unary<nn::NegOp>(r->operand);
  Value least = reduceAll<nn::ReduceMaxOp>(l, *r, negated);
  keepFirst(node, *r, least);
  l.set(node->getResult(0), l.unary<nn::NegOp>(least));
  return success();
}

LogicalResult lowerReduceProd(Lowering &l, onnx::NodeOp node) {
  auto r = readReduction(l, node);
  if (!r)
    return failure();
  Type type = elementType(r->operand);
  Value x = isFloat(r->operand) ? l.f32(r->operand) : r->operand;
  Value product = combineAxes(l, *r, x, /*neutral=*/1, [&](Value x, Value y) {
    return l.binary<nn::MulOp>(x, y);
  });
  l.set(node->getResult(0), l.cast(product, type));
  return success();
}

/// A reduction of floats as `fn` of the f32 operand.
template <typename Fn>
LogicalResult composite(Lowering &l, onnx::NodeOp node, Fn fn) {
  auto r = readReduction(l, node);
  if (!r)
    return failure();
  if (!isFloat(r->operand))
    return l.unsupported(node, "only of floats");
  Value result = fn(l, *r, l.f32(r->operand));
  l.set(node->getResult(0), l.cast(result, elementType(r->operand)));
  return success();
}

LogicalResult lowerReduceL1(Lowering &l, onnx::NodeOp node) {
  return composite(l, node, [](NNBuilder &b, const Reduction &r, Value x) {
    return reduceAll<nn::ReduceSumOp>(b, r, b.unary<nn::AbsOp>(x));
  });
}

LogicalResult lowerReduceSumSquare(Lowering &l, onnx::NodeOp node) {
  return composite(l, node, [](NNBuilder &b, const Reduction &r, Value x) {
    return reduceAll<nn::ReduceSumOp>(b, r, b.mul(x, x));
  });
}

LogicalResult lowerReduceL2(Lowering &l, onnx::NodeOp node) {
  return composite(l, node, [](NNBuilder &b, const Reduction &r, Value x) {
    return safeSqrt(b, reduceAll<nn::ReduceSumOp>(b, r, b.mul(x, x)));
  });
}

LogicalResult lowerReduceLogSum(Lowering &l, onnx::NodeOp node) {
  return composite(l, node, [](NNBuilder &b, const Reduction &r, Value x) {
    return b.unary<nn::LogOp>(reduceAll<nn::ReduceSumOp>(b, r, x));
  });
}

LogicalResult lowerReduceLogSumExp(Lowering &l, onnx::NodeOp node) {
  return composite(l, node, [&](NNBuilder &b, const Reduction &r, Value x) {
    if (r.axes.empty())
      return x;
    int64_t rank = rankOf(x), width = 1;
    SmallVector<int64_t> permutation, shape;
    for (int64_t axis = 0; axis < rank; ++axis)
      if (!llvm::is_contained(r.axes, axis)) {
        permutation.push_back(axis);
        shape.push_back(shapeOf(x)[axis]);
      }
    for (int64_t axis : r.axes) {
      permutation.push_back(axis);
      width *= shapeOf(x)[axis];
    }
    if (!llvm::is_sorted(permutation))
      x = b.transpose(x, permutation);
    shape.push_back(width);
    Value rows = nn::LogSumExpOp::create(b.builder, b.loc, b.reshape(x, shape));
    return b.reshape(rows, r.shape);
  });
}

//===----------------------------------------------------------------------===//
// Running sums and products
//===----------------------------------------------------------------------===//

/// Every element with the one `by` places before it (behind it in reverse),
/// `neutral` where there is none: log2(n) such steps reach all of them.
Value shifted(Lowering &l, Value value, unsigned axis, int64_t by, bool reverse,
              double neutral) {
  int64_t size = shapeOf(value)[axis];
  if (by >= size)
    return l.constant(neutral, elementType(value), shapeOf(value));
  Value part = l.slice(value, axis, reverse ? by : 0, size - by);
  return padAxis(l, part, axis, reverse ? 0 : by, reverse ? by : 0, neutral);
}

template <typename Op, int Neutral>
LogicalResult running(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  SmallVector<int64_t> given;
  if (!l.getInts(node.getInput(1), given) || given.size() != 1)
    return l.unsupported(node, "its axis depends on data");
  auto axis = normalizeAxis(given[0], rankOf(operand));
  Type type = elementType(operand);
  if (!axis || type.isInteger(1))
    return l.unsupported(node, "its axis is out of range");
  bool reverse = node.getInt("reverse", 0) != 0;
  Value sum = isa<FloatType>(type) ? l.f32(operand) : operand;
  if (node.getInt("exclusive", 0) != 0)
    sum = shifted(l, sum, *axis, 1, reverse, Neutral);
  for (int64_t by = 1; by < shapeOf(sum)[*axis]; by *= 2)
    sum = l.binary<Op>(sum, shifted(l, sum, *axis, by, reverse, Neutral));
  l.set(node->getResult(0), l.cast(sum, type));
  return success();
}

LogicalResult lowerCumSum(Lowering &l, onnx::NodeOp node) {
  Value x = l.get(node.getInput(0));
  SmallVector<int64_t> given;
  if (!l.getInts(node.getInput(1), given) || given.size() != 1)
    return l.unsupported(node, "its axis depends on data");
  auto axis = normalizeAxis(given[0], rankOf(x));
  if (!axis)
    return l.unsupported(node, "its axis is out of range");
  l.set(node->getResult(0),
        nn::CumSumOp::create(l.builder, l.loc, x, *axis,
                             node.getInt("exclusive", 0) != 0,
                             node.getInt("reverse", 0) != 0));
  return success();
}

} // namespace

Value safeSqrt(NNBuilder &b, Value square) {
  Value positive = b.compare(ComparePredicate::gt, square, b.constant(0));
  Value root = b.unary<nn::SqrtOp>(b.select(positive, square, b.constant(1)));
  return b.select(positive, root, square);
}

void addReduceHandlers(HandlerTable &table) {
  table["ReduceSum"] = reduce<nn::ReduceSumOp, nn::AddOp>;
  table["ReduceMean"] = lowerReduceMean;
  table["ReduceMax"] = extremum<nn::ReduceMaxOp, nn::MaxOp, nn::OrOp>;
  table["ReduceMin"] = lowerReduceMin;
  table["ReduceProd"] = lowerReduceProd;
  table["ReduceL1"] = lowerReduceL1;
  table["ReduceL2"] = lowerReduceL2;
  table["ReduceSumSquare"] = lowerReduceSumSquare;
  table["ReduceLogSum"] = lowerReduceLogSum;
  table["ReduceLogSumExp"] = lowerReduceLogSumExp;
  table["CumSum"] = lowerCumSum;
  table["CumProd"] = running<nn::MulOp, 1>;
}

} // namespace shardonnx
