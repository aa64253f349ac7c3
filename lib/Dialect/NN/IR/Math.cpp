// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of NNMath: classes, shape rules and gradients. What they
// compute on vectors is in MathVector.cpp.

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNMathOps.cpp.inc"

template <typename... Ops> static void registerAll(NNDialect &dialect) {
  (RegisteredOperationName::insert<Ops>(dialect), ...);
}

void nn::registerMathOps(NNDialect &dialect) {
  registerAll<
#define GET_OP_LIST
#include "shardonnx/Dialect/NN/IR/NNMathOps.cpp.inc"
      >(dialect);
}

#define NN_INFER(OP)                                                           \
  LogicalResult OP::inferReturnTypes(                                          \
      MLIRContext *context, std::optional<Location> loc, ValueRange operands,  \
      DictionaryAttr attributes, OpaqueProperties properties,                  \
      RegionRange regions, SmallVectorImpl<Type> &inferred)
#define NN_VJP(OP)                                                             \
  LogicalResult OP::buildVjp(OpBuilder &builder, ValueRange resultGrads,       \
                             const llvm::SmallBitVector &needed,               \
                             MutableArrayRef<Value> operandGrads)

//===----------------------------------------------------------------------===//
// Functions of one number
//===----------------------------------------------------------------------===//

namespace {
/// f32 views of an op's operand, result and cotangent, for its gradient.
struct Unary {
  Unary(Operation *op, OpBuilder &builder, ValueRange resultGrads)
      : b(builder, op->getLoc()), x(b.f32(op->getOperand(0))),
        r(b.f32(op->getResult(0))), g(b.f32(resultGrads[0])) {}
  /// 1 + sign·x²
  Value onePlusSquare(double sign) {
    return b.add(b.mul(b.mul(x, x), sign), 1.0);
  }
  NNBuilder b;
  Value x, r, g;
};
} // namespace

/// An op whose gradient is the value of GRADIENT, in terms of u.
#define NN_MATH(OP, GRADIENT)                                                  \
  NN_INFER(OP) {                                                               \
    inferred.push_back(operands[0].getType());                                 \
    return success();                                                          \
  }                                                                            \
  NN_VJP(OP) {                                                                 \
    Unary u(*this, builder, resultGrads);                                      \
    operandGrads[0] = u.b.gradientFor(getOperand(), GRADIENT);                 \
    return success();                                                          \
  }

/// An op of steps, through which nothing flows.
#define NN_STEP(OP)                                                            \
  NN_INFER(OP) {                                                               \
    inferred.push_back(operands[0].getType());                                 \
    return success();                                                          \
  }                                                                            \
  NN_VJP(OP) { return success(); }

NN_STEP(FloorOp)
NN_STEP(CeilOp)
NN_STEP(RoundOp)
NN_STEP(SignOp)

NN_MATH(Expm1Op, u.b.mul(u.g, u.b.add(u.r, 1.0)))
NN_MATH(Log1pOp, u.b.div(u.g, u.b.add(u.x, 1.0)))
NN_MATH(SoftplusOp, u.b.mul(u.g, u.b.unary<SigmoidOp>(u.x)))
NN_MATH(TanOp, u.b.mul(u.g, u.b.add(u.b.mul(u.r, u.r), 1.0)))
NN_MATH(AsinOp, u.b.mul(u.g, u.b.unary<RsqrtOp>(u.onePlusSquare(-1.0))))
NN_MATH(AcosOp,
        u.b.unary<NegOp>(u.b.mul(u.g,
                                 u.b.unary<RsqrtOp>(u.onePlusSquare(-1.0)))))
NN_MATH(AtanOp, u.b.div(u.g, u.onePlusSquare(1.0)))
NN_MATH(SinhOp, u.b.mul(u.g, u.b.unary<CoshOp>(u.x)))
NN_MATH(CoshOp, u.b.mul(u.g, u.b.unary<SinhOp>(u.x)))
NN_MATH(AsinhOp, u.b.mul(u.g, u.b.unary<RsqrtOp>(u.onePlusSquare(1.0))))
NN_MATH(AcoshOp, u.b.mul(u.g, u.b.unary<RsqrtOp>(u.b.mul(u.b.add(u.x, -1.0),
                                                         u.b.add(u.x, 1.0)))))
NN_MATH(AtanhOp, u.b.div(u.g, u.onePlusSquare(-1.0)))

//===----------------------------------------------------------------------===//
// quotient, remainder
//===----------------------------------------------------------------------===//

static LogicalResult inferBinary(std::optional<Location> loc,
                                 ValueRange operands,
                                 SmallVectorImpl<Type> &inferred) {
  Type element = elementType(operands[0]);
  auto shape = broadcastShapes(shapeOf(operands[0]), shapeOf(operands[1]));
  if (element != elementType(operands[1]) || failed(shape))
    return emitOptionalError(loc,
                             "operands do not fit: ", operands[0].getType(),
                             " and ", operands[1].getType());
  inferred.push_back(RankedTensorType::get(*shape, element));
  return success();
}

NN_INFER(QuotientOp) { return inferBinary(loc, operands, inferred); }

NN_INFER(RemainderOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  Type element = elementType(operands[0]);
  if (element.isInteger(1) || (adaptor.getFloor() && isa<FloatType>(element)))
    return emitOptionalError(loc, "is not defined for ", element);
  return inferBinary(loc, operands, inferred);
}

NN_VJP(RemainderOp) {
  NNBuilder b(builder, getLoc());
  if (needed[0])
    operandGrads[0] = b.gradientFor(getLhs(), resultGrads[0]);
  if (!needed[1])
    return success();
  // lhs - result is trunc(lhs/rhs)·rhs, so the rounded quotient is trunc's.
  Value whole =
      b.div(b.sub(b.f32(getLhs()), b.f32(getResult())), b.f32(getRhs()));
  Value steps = b.unary<RoundOp>(whole);
  operandGrads[1] = b.gradientFor(
      getRhs(), b.unary<NegOp>(b.mul(b.f32(resultGrads[0]), steps)));
  return success();
}

//===----------------------------------------------------------------------===//
// log_sum_exp
//===----------------------------------------------------------------------===//

NN_INFER(LogSumExpOp) {
  auto type = tensorType(operands[0]);
  if (type.getRank() < 1)
    return emitOptionalError(loc, "works on the last axis, so not a scalar");
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = 1;
  inferred.push_back(type.clone(shape));
  return success();
}

// A maximum that is infinite is not subtracted: inf - inf would be NaN.
FailureOr<SmallVector<Value>> LogSumExpOp::decompose(OpBuilder &builder) {
  NNBuilder b(builder, getLoc());
  Value x = b.f32(getOperand()), max = b.rowMax(x);
  Value infinity = b.constant(std::numeric_limits<double>::infinity());
  Value finite = b.compare(ComparePredicate::lt, b.unary<AbsOp>(max), infinity);
  Value shift = b.select(finite, max, b.constant(0.0));
  Value sum = b.rowSum(b.unary<ExpOp>(b.sub(x, shift)));
  Value result = b.add(b.unary<LogOp>(sum), shift);
  return SmallVector<Value>{b.cast(result, elementType(getOperand()))};
}

// Σ e^x is zero where the result is -inf, and so is every summand's share.
NN_VJP(LogSumExpOp) {
  NNBuilder b(builder, getLoc());
  Value x = b.f32(getOperand()), r = b.f32(getResult());
  Value empty = b.compare(ComparePredicate::eq, r,
                          b.constant(-std::numeric_limits<double>::infinity()));
  Value shift = b.select(empty, b.constant(0.0), r);
  Value share = b.unary<ExpOp>(b.sub(x, shift));
  operandGrads[0] =
      b.cast(b.mul(b.f32(resultGrads[0]), share), elementType(getOperand()));
  return success();
}
