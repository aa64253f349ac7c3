// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions over axes: shape rule and gradients.

#include "DefineOps.h"
#include "Evaluate.h"
#include "Shardable.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "shardonnx/Dialect/NN/IR/Ties.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

bool nn::isReduction(Operation *op) {
  return isa<ReduceSumOp, ReduceMeanOp, ReduceMaxOp>(op);
}

bool nn::sumsRows(Operation *op) {
  return isReduction(op) && !op->hasAttr("keepdims");
}

/// The operand's shape with the reduced axes as 1.
static SmallVector<int64_t> keptShape(RankedTensorType type,
                                      ArrayRef<int64_t> axes) {
  SmallVector<int64_t> shape(type.getShape());
  for (int64_t axis : axes)
    shape[axis] = 1;
  return shape;
}

static LogicalResult inferReduce(std::optional<Location> loc,
                                 RankedTensorType type, ArrayRef<int64_t> axes,
                                 bool keepdims,
                                 SmallVectorImpl<Type> &inferred) {
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis < 0 || axis >= type.getRank() || (i > 0 && axes[i - 1] >= axis))
      return misfit(loc, "axes [", axes, "] are not sorted, distinct axes of ",
                    type);
  SmallVector<int64_t> shape;
  for (auto [axis, size] : llvm::enumerate(type.getShape())) {
    bool reduced = llvm::is_contained(axes, static_cast<int64_t>(axis));
    if (!reduced)
      shape.push_back(size);
    else if (keepdims)
      shape.push_back(1);
  }
  inferred.push_back(type.clone(shape));
  return success();
}

#define NN_REDUCE_INFER(OP)                                                    \
  NN_INFER(OP) {                                                               \
    Adaptor adaptor(operands, attributes, properties, regions);                \
    return inferReduce(loc, tensorType(operands[0]), adaptor.getAxes(),        \
                       adaptor.getKeepdims(), inferred);                       \
  }
NN_REDUCE_INFER(ReduceSumOp)
NN_REDUCE_INFER(ReduceMeanOp)
NN_REDUCE_INFER(ReduceMaxOp)

/// How many elements become one.
static double reducedCount(RankedTensorType type, ArrayRef<int64_t> axes) {
  double count = 1;
  for (int64_t axis : axes)
    count *= type.getDimSize(axis);
  return count;
}

NN_VJP(ReduceSumOp) {
  NNBuilder b(builder, getLoc());
  auto type = tensorType(getOperand());
  Value g = b.reshape(resultGrads[0], keptShape(type, getAxes()));
  operandGrads[0] = b.broadcast(g, type.getShape());
  return success();
}

NN_VJP(ReduceMeanOp) {
  NNBuilder b(builder, getLoc());
  auto type = tensorType(getOperand());
  Value g = b.reshape(resultGrads[0], keptShape(type, getAxes()));
  Value share = b.mul(b.f32(g), 1.0 / reducedCount(type, getAxes()));
  operandGrads[0] = b.broadcast(b.cast(share, elementType(g)), type.getShape());
  return success();
}

/// Where the first of the maxima stands along the reduced axes, of those that
/// `isMax` says.
static Value isFirst(NNBuilder &b, Value isMax, ArrayRef<int64_t> axes) {
  Value place;
  int64_t step = 1;
  for (int64_t axis : llvm::reverse(axes)) {
    SmallVector<int64_t> line(shapeOf(isMax).size(), 1);
    line[axis] = shapeOf(isMax)[axis];
    Value along = b.mul(b.f32(b.iota(line, axis)), static_cast<double>(step));
    place = place ? b.add(place, along) : along;
    step *= line[axis];
  }
  // The largest of what counts down is the first.
  Value down = b.add(b.unary<NegOp>(place), static_cast<double>(step));
  down = b.select(isMax, down, b.constant(0.0));
  Value first = ReduceMaxOp::create(b.builder, b.loc, down, axes,
                                    /*keepdims=*/true);
  return b.binary<AndOp>(isMax, b.compare(ComparePredicate::eq, down, first));
}

/// Places are counted in f32.
static constexpr int64_t kMostPlaces = int64_t(1) << 24;

NN_VJP(ReduceMaxOp) {
  NNBuilder b(builder, getLoc());
  auto type = tensorType(getOperand());
  SmallVector<int64_t> kept = keptShape(type, getAxes());
  Value g = b.f32(b.reshape(resultGrads[0], kept));
  Value wins = b.compare(ComparePredicate::eq, getOperand(),
                         b.reshape(getResult(), kept));
  if ((*this)->hasAttr(kFirstAttr) &&
      reducedCount(type, getAxes()) < kMostPlaces) {
    Value first = isFirst(b, wins, getAxes());
    operandGrads[0] =
        b.cast(b.select(first, g, b.constant(0.0)), elementType(getOperand()));
    return success();
  }
  Value isMax = b.f32(wins);
  Value share = b.div(g, b.sum(isMax, getAxes()));
  operandGrads[0] = b.cast(b.mul(isMax, share), elementType(getOperand()));
  return success();
}

//===----------------------------------------------------------------------===//
// On a mesh
//===----------------------------------------------------------------------===//

namespace {
/// What is not summed up may be split.
template <typename Op>
struct ShardableReduction : ShardableModel<ShardableReduction<Op>, Op> {
  static LogicalResult rule(Op op, ShardingQuery &query) {
    const Sharding &given = query.operands[0];
    int64_t dim = given.dim;
    for (int64_t axis : op.getAxes()) {
      if (axis == given.dim)
        return query.refuse("it reduces the dimension that is split");
      if (axis < given.dim && !op.getKeepdims())
        --dim;
    }
    query.needed[0] = given;
    query.results[0] = given.along(dim);
    return success();
  }
};
} // namespace

void nn::attachReduceShardings(MLIRContext &context) {
  attachSharding<ShardableReduction, ReduceSumOp, ReduceMeanOp, ReduceMaxOp>(
      context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

/// Combines the elements of the reduced axes, in row-major order, from `start`
/// on; then `finish` makes the result of what came of them.
template <typename Combine, typename Finish>
static LogicalResult evaluateReduction(Operation *op, Interpreter &interpreter,
                                       ArrayRef<int64_t> axes, Scalar start,
                                       Combine combine, Finish finish) {
  // Axes that stay and do not vary are computed once.
  const HostTensor &operand = interpreter.get(op->getOperand(0));
  HostTensor::Dims stored(operand.compact().getShape()), kept(stored),
      full(operand.getShape());
  for (int64_t axis : axes) {
    stored[axis] = operand.getShape()[axis];
    kept[axis] = full[axis] = 1;
  }
  HostTensor x = operand.compact().broadcast(stored);
  if (!interpreter.allowsElements(op, stored))
    return failure();
  Elements sums(kept, start);
  std::vector<Scalar> elements = x.flatten();
  size_t n = 0;
  forEachIndex(stored, [&](ArrayRef<int64_t> index) {
    Scalar &sum = sums.at(index);
    sum = combine(sum, elements[n++]);
  });
  for (Scalar &sum : sums.values)
    sum = finish(sum);
  Value result = op->getResult(0);
  return interpreter.set(result, HostTensor::dense(kept, elementType(result),
                                                   std::move(sums.values))
                                     .broadcast(full)
                                     .reshape(shapeOf(result)));
}

/// Floats are summed in double and rounded once.
static LogicalResult evaluateSum(Operation *op, Interpreter &interpreter,
                                 ArrayRef<int64_t> axes, double divisor) {
  Arithmetic type = interpreter.arithmetic(op->getResult(0));
  return evaluateReduction(
      op, interpreter, axes, type.zero(),
      [&](Scalar sum, Scalar x) {
        return type.isFloat() ? ofFloat(sum.f + x.f) : type.add(sum, x);
      },
      [&](Scalar sum) {
        if (type.isFloat())
          return ofFloat(type.round(sum.f / divisor));
        return divisor == 1 ? sum : type.divide(sum, type.of(divisor));
      });
}

NN_EVALUATE(ReduceSumOp) {
  return evaluateSum(*this, interpreter, getAxes(), 1);
}

NN_EVALUATE(ReduceMeanOp) {
  double count = 1;
  for (int64_t axis : getAxes())
    count *= double(interpreter.get(getOperand()).getShape()[axis]);
  return evaluateSum(*this, interpreter, getAxes(), count);
}

// A NaN is the maximum, as in NumPy.
NN_EVALUATE(ReduceMaxOp) {
  Arithmetic type = interpreter.arithmetic(getResult());
  return evaluateReduction(
      *this, interpreter, getAxes(), type.least(),
      [&](Scalar max, Scalar x) { return type.max(max, x); },
      [](Scalar max) { return max; });
}
