// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions of NNMath: classes, shape rules, gradients, what they compute
// on vectors, and by their definition. On vectors these are polynomials where a
// formula would cancel, exponentials and logarithms elsewhere, all within a few
// ulp. The coefficients are least-squares fits of f64, sharpened towards the
// smallest maximum relative error.

#include "DefineOps.h"
#include "Evaluate.h"
#include "Shardable.h"
#include "VectorBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNMathOps.cpp.inc"

void nn::registerMathOps(NNDialect &dialect) {
  registerAll<
#define GET_OP_LIST
#include "shardonnx/Dialect/NN/IR/NNMathOps.cpp.inc"
      >(dialect);
}

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
NN_STEP(StopGradientOp)

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
    return misfit(loc, "operands do not fit: ", operands[0].getType(), " and ",
                  operands[1].getType());
  inferred.push_back(RankedTensorType::get(*shape, element));
  return success();
}

NN_INFER(QuotientOp) { return inferBinary(loc, operands, inferred); }

NN_INFER(RemainderOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  Type element = elementType(operands[0]);
  if (element.isInteger(1) || (adaptor.getFloor() && isa<FloatType>(element)))
    return misfit(loc, "is not defined for ", element);
  return inferBinary(loc, operands, inferred);
}

NN_VJP(RemainderOp) {
  NNBuilder b(builder, getLoc());
  if (needed[0])
    operandGrads[0] = b.gradientFor(getLhs(), resultGrads[0]);
  if (!needed[1])
    return success();
  // trunc(lhs/rhs), infinite over 0 as in PyTorch.
  Value quotient = b.div(b.f32(getLhs()), b.f32(getRhs()));
  Value negative = b.compare(ComparePredicate::lt, quotient,
                             b.constant(0, elementType(quotient)));
  Value steps =
      b.select(negative, b.unary<CeilOp>(quotient), b.unary<FloorOp>(quotient));
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
    return misfit(loc, "works on the last axis, so not a scalar");
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

// Every summand's share. That of nothing (a result of -inf) is NaN, as torch's.
NN_VJP(LogSumExpOp) {
  NNBuilder b(builder, getLoc());
  Value x = b.f32(getOperand()), r = b.f32(getResult());
  Value share = b.unary<ExpOp>(b.sub(x, r));
  operandGrads[0] =
      b.cast(b.mul(b.f32(resultGrads[0]), share), elementType(getOperand()));
  return success();
}

//===----------------------------------------------------------------------===//
// cumsum
//===----------------------------------------------------------------------===//

NN_INFER(CumSumOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  auto type = tensorType(operands[0]);
  int64_t axis = adaptor.getAxis();
  if (axis < 0 || axis >= type.getRank() ||
      elementType(operands[0]).isInteger(1))
    return misfit(loc, "cannot sum ", type, " along axis ", axis);
  inferred.push_back(type);
  return success();
}

// Element i is in the sums of i and what follows: these, summed backwards.
NN_VJP(CumSumOp) {
  operandGrads[0] = CumSumOp::create(builder, getLoc(), resultGrads[0],
                                     getAxis(), getExclusive(), !getReverse());
  return success();
}

//===----------------------------------------------------------------------===//
// On vectors
//===----------------------------------------------------------------------===//

static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

namespace {
/// The functions that others are made of.
struct MathVec : Vec {
  using Vec::Vec;

  /// log(u)·x/(u - 1) with u = 1 + x: what the sum rounds off is in both.
  Value log1p(Value x) {
    Value u = add(x, 1.0), difference = add(u, -1.0);
    Value result = mul(log(u), div(x, difference));
    Value same = compare(Predicate::OEQ, difference, constant(x, 0.0));
    Value isInfinite = greater(u, std::numeric_limits<float>::max());
    return select(same, x, select(isInfinite, u, result));
  }
  /// Near zero x + x²·P(x).
  Value expm1(Value x) {
    Value p = polynomial(x, {1.394758225e-03, 8.367239290e-03, 4.166626675e-02,
                             1.666653807e-01, 5.000000066e-01});
    Value small = fma(mul(x, x), p, x);
    return select(less(abs(x), 0.35), small, add(exp(x), -1.0));
  }
  /// asin(a) for |a| ≤ 1/2: a + a·a²·P(a²); `square` is a².
  Value asinCore(Value a, Value square) {
    Value p =
        polynomial(square, {4.221854614e-02, 2.414761186e-02, 4.547709711e-02,
                            7.495241777e-02, 1.666675393e-01});
    return fma(mul(a, square), p, a);
  }
  /// asin(sqrt((1 - a)/2)): half of acos(a).
  Value halfAcos(Value a) {
    Value square = mul(add(neg(a), 1.0), 0.5);
    return asinCore(sqrt(square), square);
  }
  /// (e^a, scaled by 1/2) in two steps, which overflow no sooner than it does.
  Value halfExp(Value a) {
    Value h = exp(mul(a, 0.5));
    return mul(mul(h, 0.5), h);
  }
  /// log(a + …): `near` up to a size where the 1 beside a² no longer counts.
  Value orLogOfDouble(Value near, Value a) {
    Value far = add(log(a), std::log(2.0));
    return select(greater(a, 1e8), far, near);
  }
};
} // namespace

NN_EMIT(FloorOp) {
  return math::FloorOp::create(builder, getLoc(), vectors[0]);
}
NN_EMIT(StopGradientOp) { return vectors[0]; }
NN_EMIT(CeilOp) { return math::CeilOp::create(builder, getLoc(), vectors[0]); }
NN_EMIT(RoundOp) {
  return math::RoundEvenOp::create(builder, getLoc(), vectors[0]);
}

// What is neither above nor below zero is zero or NaN: it is its own sign.
NN_EMIT(SignOp) {
  MathVec v(builder, getLoc());
  Value x = vectors[0];
  Value rest = v.select(v.less(x, 0.0), v.constant(x, -1.0), x);
  return v.select(v.greater(x, 0.0), v.constant(x, 1.0), rest);
}

NN_EMIT(Expm1Op) { return MathVec(builder, getLoc()).expm1(vectors[0]); }
NN_EMIT(Log1pOp) { return MathVec(builder, getLoc()).log1p(vectors[0]); }

// max(x, 0) + log(1 + e^-|x|)
NN_EMIT(SoftplusOp) {
  MathVec v(builder, getLoc());
  Value x = vectors[0];
  Value positive =
      arith::MaximumFOp::create(builder, getLoc(), x, v.constant(x, 0.0));
  return v.add(positive, v.log1p(v.exp(v.neg(v.abs(x)))));
}

NN_EMIT(TanOp) {
  MathVec v(builder, getLoc());
  Value sine = math::SinOp::create(builder, getLoc(), vectors[0]);
  return v.div(sine, math::CosOp::create(builder, getLoc(), vectors[0]));
}

NN_EMIT(AsinOp) {
  MathVec v(builder, getLoc());
  Value x = vectors[0], a = v.abs(x);
  Value small = v.asinCore(a, v.mul(a, a));
  Value large = v.add(v.mul(v.halfAcos(a), -2.0), M_PI_2);
  return v.copySign(v.select(v.greater(a, 0.5), large, small), x);
}

NN_EMIT(AcosOp) {
  MathVec v(builder, getLoc());
  Value x = vectors[0], a = v.abs(x);
  Value middle = v.add(v.neg(v.asinCore(x, v.mul(x, x))), M_PI_2);
  Value right = v.mul(v.halfAcos(a), 2.0);
  Value left = v.add(v.neg(right), M_PI);
  Value outside = v.select(v.greater(x, 0.0), right, left);
  return v.select(v.greater(a, 0.5), outside, middle);
}

// By atan(a) = π/4 + atan((a - 1)/(a + 1)) and = π/2 - atan(1/a), an argument
// below tan(π/8).
NN_EMIT(AtanOp) {
  MathVec v(builder, getLoc());
  Value x = vectors[0], a = v.abs(x);
  Value large = v.greater(a, 2.414213562373095);
  Value middle = v.greater(a, 0.4142135623730951);
  Value above = v.select(large, v.constant(a, -1.0), v.add(a, -1.0));
  Value below = v.select(large, a, v.add(a, 1.0));
  Value z = v.select(middle, v.div(above, below), a);
  Value base = v.select(large, v.constant(a, M_PI_2), v.constant(a, M_PI_4));
  base = v.select(middle, base, v.constant(a, 0.0));
  Value square = v.mul(z, z);
  Value p = v.polynomial(square, {8.060298061e-02, -1.387984627e-01,
                                  1.997792569e-01, -3.333295524e-01});
  Value reduced = v.fma(v.mul(z, square), p, z);
  return v.copySign(v.add(base, reduced), x);
}

NN_EMIT(SinhOp) {
  MathVec v(builder, getLoc());
  Value x = vectors[0], a = v.abs(x), square = v.mul(x, x);
  Value p =
      v.polynomial(square, {2.037740596e-04, 8.330211401e-03, 1.666671825e-01});
  Value small = v.fma(v.mul(x, square), p, x);
  Value large = v.sub(v.halfExp(a), v.mul(v.exp(v.neg(a)), 0.5));
  return v.select(v.less(a, 1.0), small, v.copySign(large, x));
}

NN_EMIT(CoshOp) {
  MathVec v(builder, getLoc());
  Value a = v.abs(vectors[0]);
  return v.add(v.halfExp(a), v.mul(v.exp(v.neg(a)), 0.5));
}

// log(a + sqrt(a² + 1)) = log1p(a + a²/(1 + sqrt(a² + 1)))
NN_EMIT(AsinhOp) {
  MathVec v(builder, getLoc());
  Value x = vectors[0], a = v.abs(x), square = v.mul(a, a);
  Value root = v.sqrt(v.add(square, 1.0));
  Value near = v.log1p(v.add(a, v.div(square, v.add(root, 1.0))));
  return v.copySign(v.orLogOfDouble(near, a), x);
}

// With t = x - 1: log(x + sqrt(x² - 1)) = log1p(t + sqrt(t² + 2·t)).
NN_EMIT(AcoshOp) {
  MathVec v(builder, getLoc());
  Value x = vectors[0], t = v.add(x, -1.0);
  Value root = v.sqrt(v.mul(t, v.add(t, 2.0)));
  Value result = v.orLogOfDouble(v.log1p(v.add(t, root)), x);
  return v.select(v.less(x, 1.0), v.constant(x, kNaN), result);
}

// log((1 + a)/(1 - a))/2 = log1p(2·a/(1 - a))/2
NN_EMIT(AtanhOp) {
  MathVec v(builder, getLoc());
  Value x = vectors[0], a = v.abs(x);
  Value ratio = v.div(v.add(a, a), v.add(v.neg(a), 1.0));
  return v.copySign(v.mul(v.log1p(ratio), 0.5), x);
}

//===----------------------------------------------------------------------===//
// Quotients and remainders on vectors
//===----------------------------------------------------------------------===//

namespace {
/// Integer division that no operand makes a machine trap: by 0 or -1 it is by
/// 1 instead, and the result is chosen afterwards.
struct Division {
  Division(OpBuilder &b, Location loc, Value lhs, Value rhs)
      : b(b), loc(loc), lhs(lhs), rhs(rhs), zero(constant(0)),
        byZero(equal(rhs, zero)), byMinusOne(equal(rhs, constant(-1))) {
    Value unsafe = arith::OrIOp::create(b, loc, byZero, byMinusOne);
    divisor = select(unsafe, constant(1), rhs);
  }
  Value quotient() {
    Value result = arith::DivSIOp::create(b, loc, lhs, divisor);
    Value negated = arith::SubIOp::create(b, loc, zero, lhs);
    return select(byZero, zero, select(byMinusOne, negated, result));
  }
  Value remainder(bool floor) {
    Value result = arith::RemSIOp::create(b, loc, lhs, divisor);
    if (!floor)
      return result;
    // Where it has the other sign than the divisor: one divisor more.
    Value signs = arith::XOrIOp::create(b, loc, result, rhs);
    Value differs =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, signs, zero);
    Value moved = arith::AddIOp::create(b, loc, result, rhs);
    Value exact = equal(result, zero);
    return select(exact, zero, select(differs, moved, result));
  }
  Value constant(double value) {
    return constantOf(b, loc, lhs.getType(), value);
  }
  Value equal(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, y);
  }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(b, loc, c, x, y);
  }
  OpBuilder &b;
  Location loc;
  Value lhs, rhs, zero, byZero, byMinusOne, divisor;
};
} // namespace

NN_EMIT(QuotientOp) {
  return Division(builder, getLoc(), vectors[0], vectors[1]).quotient();
}

NN_EMIT(RemainderOp) {
  if (isFloat(vectors[0]))
    return arith::RemFOp::create(builder, getLoc(), vectors[0], vectors[1]);
  return Division(builder, getLoc(), vectors[0], vectors[1])
      .remainder(getFloor());
}

//===----------------------------------------------------------------------===//
// On a mesh
//===----------------------------------------------------------------------===//

void nn::attachMathShardings(MLIRContext &context) {
  attachSharding<ShardableElementwise, FloorOp, CeilOp, RoundOp, SignOp,
                 StopGradientOp, Expm1Op, Log1pOp, SoftplusOp, TanOp, AsinOp,
                 AcosOp, AtanOp, SinhOp, CoshOp, AsinhOp, AcoshOp, AtanhOp,
                 QuotientOp, RemainderOp>(context);
  attachSharding<ShardableRows, LogSumExpOp>(context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

NN_EVALUATE_AS(FloorOp, std::floor(x))
NN_EVALUATE_AS(CeilOp, std::ceil(x))
NN_EVALUATE_AS(StopGradientOp, x)
NN_EVALUATE_AS(RoundOp, std::nearbyint(x))
NN_EVALUATE_AS(SignOp, x > 0 ? 1 : x < 0 ? -1 : x)
NN_EVALUATE_AS(Expm1Op, std::expm1(x))
NN_EVALUATE_AS(Log1pOp, std::log1p(x))
NN_EVALUATE_AS(SoftplusOp,
               std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))))
NN_EVALUATE_AS(TanOp, std::tan(x))
NN_EVALUATE_AS(AsinOp, std::asin(x))
NN_EVALUATE_AS(AcosOp, std::acos(x))
NN_EVALUATE_AS(AtanOp, std::atan(x))
NN_EVALUATE_AS(SinhOp, std::sinh(x))
NN_EVALUATE_AS(CoshOp, std::cosh(x))
NN_EVALUATE_AS(AsinhOp, std::asinh(x))
NN_EVALUATE_AS(AcoshOp, std::acosh(x))
NN_EVALUATE_AS(AtanhOp, std::atanh(x))

NN_EVALUATE(QuotientOp) {
  Arithmetic type = interpreter.arithmetic(getResult());
  return interpreter.map(
      *this, [&](ArrayRef<Scalar> x) { return type.divide(x[0], x[1]); });
}

NN_EVALUATE(RemainderOp) {
  Arithmetic type = interpreter.arithmetic(getResult());
  bool floor = getFloor();
  return interpreter.map(*this, [&](ArrayRef<Scalar> x) {
    return type.remainder(x[0], x[1], floor);
  });
}

NN_EVALUATE(LogSumExpOp) {
  if (!interpreter.allows(*this))
    return failure();
  std::vector<Scalar> result;
  forEachRow(Elements(interpreter.get(getOperand())),
             [&](size_t, ArrayRef<Scalar> row) {
               result.push_back(ofFloat(logSumExp(row)));
             });
  return interpreter.set(getResult(), std::move(result));
}

// Floats are summed in double and rounded once. Only the axis must be stored.
NN_EVALUATE(CumSumOp) {
  if (!interpreter.allows(*this))
    return failure();
  Arithmetic type = interpreter.arithmetic(getResult());
  const HostTensor &operand = interpreter.get(getOperand());
  HostTensor::Dims full(operand.getShape()),
      stored(operand.compact().getShape());
  int64_t axis = getAxis(), size = full[axis], step = 1;
  stored[axis] = size;
  for (int64_t after : ArrayRef<int64_t>(stored).drop_front(axis + 1))
    step *= after;
  std::vector<Scalar> x = operand.compact().broadcast(stored).flatten();
  for (int64_t first = 0; first < int64_t(x.size()); ++first) {
    if (first / step % size != 0)
      continue;
    Scalar sum = type.zero();
    for (int64_t i = 0; i < size; ++i) {
      Scalar &element = x[first + (getReverse() ? size - 1 - i : i) * step];
      Scalar before = sum;
      sum =
          type.isFloat() ? ofFloat(sum.f + element.f) : type.add(sum, element);
      element = getExclusive() ? before : sum;
      if (type.isFloat())
        element = ofFloat(type.round(element.f));
    }
  }
  return interpreter.set(
      getResult(),
      HostTensor::dense(stored, elementType(getResult()), std::move(x))
          .broadcast(full));
}
