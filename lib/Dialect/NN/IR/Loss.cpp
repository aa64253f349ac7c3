// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses: shape rules, gradients, FLOPs.

#include "DefineOps.h"
#include "Evaluate.h"
#include "Shardable.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

static Type scalarF32(MLIRContext *context) {
  return RankedTensorType::get({}, Float32Type::get(context));
}

static LogicalResult checkLabels(std::optional<Location> loc, Value rows,
                                 Value labels) {
  auto type = tensorType(rows);
  if (type.getRank() == 2 &&
      shapeOf(labels) == ArrayRef<int64_t>(type.getDimSize(0)))
    return success();
  return misfit(loc, "needs rows [n, width] and labels [n], not ", type,
                " and ", labels.getType());
}

//===----------------------------------------------------------------------===//
// cross_entropy
//===----------------------------------------------------------------------===//

NN_INFER(CrossEntropyOp) {
  if (failed(checkLabels(loc, operands[0], operands[1])))
    return failure();
  inferred.push_back(scalarF32(context));
  return success();
}

NN_INFER(CrossEntropyGradOp) {
  if (failed(checkLabels(loc, operands[0], operands[1])))
    return failure();
  inferred.append({scalarF32(context), operands[0].getType()});
  return success();
}

NN_VJP(CrossEntropyOp) {
  if (!needed[0])
    return success();
  operandGrads[0] =
      CrossEntropyGradOp::create(builder, getLoc(), getLogits(), getLabels(),
                                 resultGrads[0], getIgnoreIndexAttr())
          .getLogitsGrad();
  return success();
}

//===----------------------------------------------------------------------===//
// linear_cross_entropy
//===----------------------------------------------------------------------===//

/// operand [rows, width], weight [width, vocab] or its transpose.
static LogicalResult checkLinear(std::optional<Location> loc, Value operand,
                                 Value weight, Value labels, bool transpose) {
  if (failed(checkLabels(loc, operand, labels)))
    return failure();
  auto type = tensorType(weight);
  if (type.getRank() == 2 &&
      type.getDimSize(transpose ? 1 : 0) == shapeOf(operand)[1] &&
      type.getElementType() == elementType(operand))
    return success();
  return misfit(loc,
                "operand and weight do not fit each other: ", operand.getType(),
                " and ", type);
}

NN_INFER(LinearCrossEntropyOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  if (failed(checkLinear(loc, operands[0], operands[1], operands[2],
                         adaptor.getTransposeWeight())))
    return failure();
  inferred.push_back(scalarF32(context));
  return success();
}

// The gradient op computes the sum too: the differentiator lets it stand for
// this one.
NN_VJP(LinearCrossEntropyOp) {
  Type weightGrad =
      tensorType(getWeight()).clone(gradientElementType(getWeight()));
  auto grad = LinearCrossEntropyGradOp::create(
      builder, getLoc(),
      TypeRange{getType(), getOperand().getType(), weightGrad}, getOperand(),
      getWeight(), getLabels(), resultGrads[0], getTransposeWeightAttr(),
      getIgnoreIndexAttr());
  if (needed[0])
    operandGrads[0] = grad.getOperandGrad();
  if (needed[1])
    operandGrads[1] = grad.getWeightGrad();
  return success();
}

int64_t LinearCrossEntropyOp::getFlops() {
  return 2 * shapeOf(getOperand())[0] *
         tensorType(getWeight()).getNumElements();
}

LogicalResult LinearCrossEntropyGradOp::verify() {
  if (failed(checkLinear(getLoc(), getOperand(), getWeight(), getLabels(),
                         getTransposeWeight())))
    return failure();
  if (tensorType(getSum()).getRank() != 0 ||
      getOperandGrad().getType() != getOperand().getType() ||
      shapeOf(getWeightGrad()) != shapeOf(getWeight()))
    return emitOpError("results must be a scalar, the operand's type and the "
                       "weight's shape");
  return success();
}

// Forward and both gradients.
int64_t LinearCrossEntropyGradOp::getFlops() {
  return 6 * shapeOf(getOperand())[0] *
         tensorType(getWeight()).getNumElements();
}

//===----------------------------------------------------------------------===//
// mse
//===----------------------------------------------------------------------===//

NN_INFER(MseOp) {
  if (shapeOf(operands[0]) != shapeOf(operands[1]))
    return misfit(loc, "prediction and target differ in shape: ",
                  operands[0].getType(), " and ", operands[1].getType());
  inferred.push_back(scalarF32(context));
  return success();
}

FailureOr<SmallVector<Value>> MseOp::decompose(OpBuilder &builder) {
  NNBuilder b(builder, getLoc());
  Value error = b.sub(b.f32(getPrediction()), b.f32(getTarget()));
  auto axes = llvm::to_vector(
      llvm::seq<int64_t>(0, tensorType(getPrediction()).getRank()));
  return SmallVector<Value>{
      b.sum(b.mul(error, error), axes, /*keepdims=*/false)};
}

NN_VJP(MseOp) {
  NNBuilder b(builder, getLoc());
  Value error = b.sub(b.f32(getPrediction()), b.f32(getTarget()));
  Value g = b.mul(error, b.mul(resultGrads[0], 2.0));
  if (needed[0])
    operandGrads[0] = b.gradientFor(getPrediction(), g);
  if (needed[1])
    operandGrads[1] = b.gradientFor(getTarget(), b.unary<NegOp>(g));
  return success();
}

//===----------------------------------------------------------------------===//
// On a mesh
//===----------------------------------------------------------------------===//

namespace {
struct ShardableEntropy : ShardableModel<ShardableEntropy, CrossEntropyOp> {
  static LogicalResult rule(CrossEntropyOp op, ShardingQuery &query) {
    return shardEntropy(query);
  }
};
struct ShardableMse : ShardableModel<ShardableMse, MseOp> {
  static LogicalResult rule(MseOp op, ShardingQuery &query) {
    llvm::fill(query.needed, query.operands[query.splitOperand()]);
    query.sums = true;
    return success();
  }
};
} // namespace

LogicalResult nn::shardEntropy(ShardingQuery &query) {
  constexpr int64_t kRows = 0;
  const Sharding &given = query.operands[0];
  if (given.dim != kRows)
    return query.refuse("what is split are not its rows");
  query.needed.front() = query.needed.back() = given;
  query.sums = true;
  return success();
}

void nn::attachLossShardings(MLIRContext &context) {
  CrossEntropyOp::attachInterface<ShardableEntropy>(context);
  MseOp::attachInterface<ShardableMse>(context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

/// The sum over rows of logits, whose gradient is seed·(softmax - one-hot);
/// none where a label is no class.
static std::optional<double> crossEntropy(const Elements &logits,
                                          const HostTensor &labels,
                                          int64_t ignore, double seed,
                                          Elements *grad) {
  std::vector<Scalar> classes = labels.flatten();
  double sum = 0;
  bool inside = true;
  forEachRow(logits, [&](size_t row, ArrayRef<Scalar> values) {
    int64_t label = classes[row].i;
    if (label == ignore)
      return;
    if (label < 0 || label >= int64_t(values.size())) {
      inside = false;
      return;
    }
    double lse = logSumExp(values);
    sum += lse - values[label].f;
    for (size_t i = 0; grad && i < values.size(); ++i)
      grad->values[row * values.size() + i].f =
          seed * (std::exp(values[i].f - lse) - (int64_t(i) == label));
  });
  return inside ? std::optional(sum) : std::nullopt;
}

/// Evaluates a cross-entropy of these logits, and their gradient where asked.
template <typename Op>
static LogicalResult evaluateLoss(Op op, Interpreter &interpreter,
                                  const Elements &logits, double seed = 0,
                                  Elements *grad = nullptr) {
  if (grad)
    *grad = Elements(logits.shape, ofFloat(0));
  auto sum = crossEntropy(logits, interpreter.get(op.getLabels()),
                          op.getIgnoreIndex(), seed, grad);
  if (!sum)
    return interpreter.refuse(op, "a label is no class");
  return interpreter.set(op.getSum(), {ofFloat(*sum)});
}

NN_EVALUATE(CrossEntropyOp) {
  if (!interpreter.allows(*this))
    return failure();
  return evaluateLoss(*this, interpreter,
                      Elements(interpreter.get(getLogits())));
}

NN_EVALUATE(CrossEntropyGradOp) {
  if (!interpreter.allows(*this))
    return failure();
  Elements grad;
  if (failed(evaluateLoss(*this, interpreter,
                          Elements(interpreter.get(getLogits())),
                          interpreter.get(getSeed()).front().f, &grad)))
    return failure();
  return interpreter.set(getLogitsGrad(), std::move(grad.values));
}

namespace {
/// operand·op(weight), and what its gradient adds to those of both.
struct LinearLogits {
  template <typename Op>
  LinearLogits(Op op, Interpreter &interpreter)
      : x(interpreter.get(op.getOperand())), w(interpreter.get(op.getWeight())),
        transpose(op.getTransposeWeight()),
        logits({x.shape[0], w.shape[transpose ? 0 : 1]}, ofFloat(0)) {
    forEach([&](ArrayRef<int64_t> to, ArrayRef<int64_t> left,
                ArrayRef<int64_t> right) {
      logits.at(to).f += x.at(left).f * w.at(right).f;
    });
  }
  void addGradients(const Elements &g, Elements &dx, Elements &dw) {
    forEach([&](ArrayRef<int64_t> to, ArrayRef<int64_t> left,
                ArrayRef<int64_t> right) {
      dx.at(left).f += g.at(to).f * w.at(right).f;
      dw.at(right).f += g.at(to).f * x.at(left).f;
    });
  }
  /// Calls `body` with the indices of a logit and of the factors of each of its
  /// summands.
  template <typename Body> void forEach(Body body) {
    forEachIndex(logits.shape, [&](ArrayRef<int64_t> to) {
      for (int64_t i = 0; i < x.shape[1]; ++i) {
        SmallVector<int64_t, 2> left = {to[0], i}, right = {i, to[1]};
        if (transpose)
          std::swap(right[0], right[1]);
        body(to, left, right);
      }
    });
  }
  Elements x, w;
  bool transpose;
  Elements logits;
};
} // namespace

/// Whether a linear loss's logits may be computed.
template <typename Op>
static bool allowsLogits(Op op, Interpreter &interpreter) {
  ArrayRef<int64_t> x = shapeOf(op.getOperand()), w = shapeOf(op.getWeight());
  return interpreter.allowsSteps(op, {x[0], w[0], w[1]});
}

NN_EVALUATE(LinearCrossEntropyOp) {
  if (!allowsLogits(*this, interpreter))
    return failure();
  return evaluateLoss(*this, interpreter,
                      LinearLogits(*this, interpreter).logits);
}

NN_EVALUATE(LinearCrossEntropyGradOp) {
  if (!allowsLogits(*this, interpreter))
    return failure();
  LinearLogits linear(*this, interpreter);
  Elements g, dx(linear.x.shape, ofFloat(0)), dw(linear.w.shape, ofFloat(0));
  if (failed(evaluateLoss(*this, interpreter, linear.logits,
                          interpreter.get(getSeed()).front().f, &g)))
    return failure();
  linear.addGradients(g, dx, dw);
  (void)interpreter.set(getOperandGrad(), std::move(dx.values));
  return interpreter.set(getWeightGrad(), std::move(dw.values));
}

NN_EVALUATE(MseOp) {
  if (!interpreter.allows(*this))
    return failure();
  double sum = 0;
  for (auto [a, b] : llvm::zip_equal(interpreter.get(getPrediction()).flatten(),
                                     interpreter.get(getTarget()).flatten()))
    sum += (a.f - b.f) * (a.f - b.f);
  return interpreter.set(getSum(), {ofFloat(sum)});
}
