// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Norms and softmax over the last axis. Forward decompositions and gradients
// are elementwise ops and row reductions, so the fuser makes one row kernel of
// each, and one column kernel of the weight and bias gradients.

#include "DefineOps.h"
#include "Evaluate.h"
#include "Shardable.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// A norm: the operand's type, then `statistics` f32 [..., 1]; the operands
/// after the first are [last axis].
static LogicalResult inferNorm(MLIRContext *context,
                               std::optional<Location> loc, ValueRange operands,
                               unsigned statistics,
                               SmallVectorImpl<Type> &inferred) {
  auto type = tensorType(operands[0]);
  if (type.getRank() < 1)
    return misfit(loc, "normalises the last axis, so not a scalar");
  int64_t width = type.getShape().back();
  for (Value scale : operands.drop_front())
    if (shapeOf(scale) != ArrayRef<int64_t>(width))
      return misfit(loc, "weight and bias must be [", width, "], not ",
                    scale.getType());
  SmallVector<int64_t> kept(type.getShape());
  kept.back() = 1;
  inferred.push_back(type);
  inferred.append(statistics,
                  RankedTensorType::get(kept, Float32Type::get(context)));
  return success();
}

static LogicalResult inferRows(std::optional<Location> loc, ValueRange operands,
                               SmallVectorImpl<Type> &inferred) {
  if (tensorType(operands[0]).getRank() < 1)
    return misfit(loc, "works on the last axis, so not a scalar");
  inferred.push_back(operands[0].getType());
  return success();
}

NN_INFER(LayerNormOp) { return inferNorm(context, loc, operands, 2, inferred); }
NN_INFER(RmsNormOp) { return inferNorm(context, loc, operands, 1, inferred); }
NN_INFER(SoftmaxOp) { return inferRows(loc, operands, inferred); }
NN_INFER(LogSoftmaxOp) { return inferRows(loc, operands, inferred); }

/// Gradients of `normed·weight + bias` and of the normalisation itself:
/// dx = rstd·(d - mean(d) - normed·mean(d·normed)), d = g·weight, where the
/// first mean is there only if the norm subtracts it.
static void normVjp(NNBuilder &b, Operation *op, Value g, Value normed,
                    Value rstd, bool centred,
                    const llvm::SmallBitVector &needed,
                    MutableArrayRef<Value> operandGrads) {
  Value x = op->getOperand(0), weight = op->getOperand(1);
  if (needed[0]) {
    Value d = b.mul(g, b.f32(weight));
    Value inner = b.mul(normed, b.rowMean(b.mul(d, normed)));
    Value rest = centred ? b.sub(d, b.rowMean(d)) : d;
    operandGrads[0] = b.cast(b.mul(rstd, b.sub(rest, inner)), elementType(x));
  }
  if (needed[1])
    operandGrads[1] = b.gradientFor(weight, b.mul(g, normed));
  if (op->getNumOperands() > 2 && needed[2])
    operandGrads[2] = b.gradientFor(op->getOperand(2), g);
}

/// Nothing may flow into the statistics that a norm keeps for its gradient.
static LogicalResult refuseStatistics(Operation *op, ValueRange resultGrads) {
  for (Value gradient : resultGrads.drop_front())
    if (gradient)
      return op->emitOpError("has no gradient through its statistics");
  return success();
}

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>> LayerNormOp::decompose(OpBuilder &builder) {
  NNBuilder b(builder, getLoc());
  Value x = b.f32(getOperand());
  Value mean = b.rowMean(x), centred = b.sub(x, mean);
  Value variance = b.rowMean(b.mul(centred, centred));
  Value rstd =
      b.unary<RsqrtOp>(b.add(variance, getEpsilon().convertToDouble()));
  Value result = b.mul(b.mul(centred, rstd), b.f32(getWeight()));
  if (getBias())
    result = b.add(result, b.f32(getBias()));
  return SmallVector<Value>{b.cast(result, elementType(getOperand())), mean,
                            rstd};
}

/// What flows into the mean is shared by the row; d rstd/dx is
/// -rstd²·normed/width.
static void addStatistics(NNBuilder &b, LayerNormOp op, Value normed,
                          ValueRange resultGrads, Value &gradient) {
  Value x = op.getOperand(), share;
  double width = shapeOf(x).back();
  if (resultGrads[1])
    share = b.broadcast(b.mul(resultGrads[1], 1 / width), shapeOf(x));
  if (resultGrads[2]) {
    Value square = b.mul(op.getRstd(), op.getRstd());
    Value slope = b.mul(b.mul(resultGrads[2], square), -1 / width);
    Value part = b.mul(normed, slope);
    share = share ? b.add(share, part) : part;
  }
  if (!share)
    return;
  if (gradient)
    share = b.add(b.f32(gradient), share);
  gradient = b.cast(share, elementType(x));
}

NN_VJP(LayerNormOp) {
  NNBuilder b(builder, getLoc());
  Value normed = b.mul(b.sub(b.f32(getOperand()), getMean()), getRstd());
  if (resultGrads[0])
    normVjp(b, *this, b.f32(resultGrads[0]), normed, getRstd(),
            /*centred=*/true, needed, operandGrads);
  if (needed[0])
    addStatistics(b, *this, normed, resultGrads, operandGrads[0]);
  return success();
}

//===----------------------------------------------------------------------===//
// rms_norm
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>> RmsNormOp::decompose(OpBuilder &builder) {
  NNBuilder b(builder, getLoc());
  Value x = b.f32(getOperand()), meanSquare = b.rowMean(b.mul(x, x));
  Value rstd =
      b.unary<RsqrtOp>(b.add(meanSquare, getEpsilon().convertToDouble()));
  Value result = b.mul(b.mul(x, rstd), b.f32(getWeight()));
  return SmallVector<Value>{b.cast(result, elementType(getOperand())), rstd};
}

NN_VJP(RmsNormOp) {
  if (failed(refuseStatistics(*this, resultGrads)))
    return failure();
  NNBuilder b(builder, getLoc());
  Value normed = b.mul(b.f32(getOperand()), getRstd());
  normVjp(b, *this, b.f32(resultGrads[0]), normed, getRstd(),
          /*centred=*/false, needed, operandGrads);
  return success();
}

//===----------------------------------------------------------------------===//
// softmax, log_softmax
//===----------------------------------------------------------------------===//

FailureOr<SmallVector<Value>> SoftmaxOp::decompose(OpBuilder &builder) {
  NNBuilder b(builder, getLoc());
  Value x = b.f32(getOperand());
  Value e = b.unary<ExpOp>(b.sub(x, b.rowMax(x)));
  Value scale = b.unary<ReciprocalOp>(b.rowSum(e));
  return SmallVector<Value>{b.cast(b.mul(e, scale), elementType(getOperand()))};
}

// dx = y·(g - Σ g·y).
NN_VJP(SoftmaxOp) {
  NNBuilder b(builder, getLoc());
  Value y = b.f32(getResult()), g = b.f32(resultGrads[0]);
  Value dx = b.mul(y, b.sub(g, b.rowSum(b.mul(g, y))));
  operandGrads[0] = b.cast(dx, elementType(getOperand()));
  return success();
}

FailureOr<SmallVector<Value>> LogSoftmaxOp::decompose(OpBuilder &builder) {
  NNBuilder b(builder, getLoc());
  Value x = b.f32(getOperand());
  Value shifted = b.sub(x, b.rowMax(x));
  Value logSum = b.unary<LogOp>(b.rowSum(b.unary<ExpOp>(shifted)));
  return SmallVector<Value>{
      b.cast(b.sub(shifted, logSum), elementType(getOperand()))};
}

// dx = g - exp(y)·Σ g.
NN_VJP(LogSoftmaxOp) {
  NNBuilder b(builder, getLoc());
  Value y = b.f32(getResult()), g = b.f32(resultGrads[0]);
  Value dx = b.sub(g, b.mul(b.unary<ExpOp>(y), b.rowSum(g)));
  operandGrads[0] = b.cast(dx, elementType(getOperand()));
  return success();
}

//===----------------------------------------------------------------------===//
// On a mesh
//===----------------------------------------------------------------------===//

void nn::attachNormShardings(MLIRContext &context) {
  attachSharding<ShardableRows, LayerNormOp, RmsNormOp, SoftmaxOp,
                 LogSoftmaxOp>(context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

double nn::logSumExp(ArrayRef<Scalar> row) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (Scalar x : row)
    max = std::isnan(x.f) || x.f > max ? x.f : max;
  if (std::isinf(max))
    return max;
  for (Scalar x : row)
    sum += std::exp(x.f - max);
  return max + std::log(sum);
}

/// Subtracts the mean where the norm has one, and scales.
template <typename Op>
static LogicalResult evaluateNorm(Op op, Interpreter &interpreter, Value mean,
                                  const HostTensor *bias) {
  if (!interpreter.allows(op))
    return failure();
  Elements x(interpreter.get(op.getOperand()));
  std::vector<Scalar> scale = interpreter.get(op.getWeight()).flatten(), shift,
                      means, rstds, result;
  if (bias)
    shift = bias->flatten();
  double epsilon = op.getEpsilon().convertToDouble();
  forEachRow(x, [&](size_t, ArrayRef<Scalar> row) {
    double centre = 0, square = 0, width = double(row.size());
    for (Scalar item : row)
      centre += mean ? item.f / width : 0;
    for (Scalar item : row)
      square += (item.f - centre) * (item.f - centre) / width;
    double rstd = 1 / std::sqrt(square + epsilon);
    means.push_back(ofFloat(centre));
    rstds.push_back(ofFloat(rstd));
    for (auto [i, item] : llvm::enumerate(row))
      result.push_back(ofFloat((item.f - centre) * rstd * scale[i].f +
                               (bias ? shift[i].f : 0)));
  });
  if (mean)
    (void)interpreter.set(mean, std::move(means));
  (void)interpreter.set(op.getRstd(), std::move(rstds));
  return interpreter.set(op.getResult(), std::move(result));
}

NN_EVALUATE(LayerNormOp) {
  return evaluateNorm(*this, interpreter, getMean(),
                      interpreter.find(getBias()));
}

NN_EVALUATE(RmsNormOp) {
  return evaluateNorm(*this, interpreter, Value(), nullptr);
}

/// Sets the result to `function` of each element and its row's log-sum-exp. A
/// row whose largest element is infinite has none: inf - inf is NaN.
template <typename Op, typename Function>
static LogicalResult evaluateSoftmax(Op op, Interpreter &interpreter,
                                     Function function) {
  if (!interpreter.allows(op))
    return failure();
  Elements x(interpreter.get(op.getOperand()));
  std::vector<Scalar> result;
  forEachRow(x, [&](size_t, ArrayRef<Scalar> row) {
    double lse = logSumExp(row);
    if (std::isinf(lse))
      lse = std::numeric_limits<double>::quiet_NaN();
    for (Scalar item : row)
      result.push_back(ofFloat(function(item.f - lse)));
  });
  return interpreter.set(op.getResult(), std::move(result));
}

NN_EVALUATE(SoftmaxOp) {
  return evaluateSoftmax(*this, interpreter,
                         [](double x) { return std::exp(x); });
}

NN_EVALUATE(LogSoftmaxOp) {
  return evaluateSoftmax(*this, interpreter, [](double x) { return x; });
}
