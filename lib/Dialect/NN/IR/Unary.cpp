// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions of one number: shape rule, gradient, what they compute on vectors
// (arith and math ops on f32, which the kernel generator expands into
// polynomials), and by their definition.

#include "DefineOps.h"
#include "Evaluate.h"
#include "Shardable.h"
#include "VectorBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

#define NN_UNARY_INFER(OP)                                                     \
  NN_INFER(OP) {                                                               \
    inferred.push_back(operands[0].getType());                                 \
    return success();                                                          \
  }
NN_UNARY_INFER(NegOp)
NN_UNARY_INFER(ExpOp)
NN_UNARY_INFER(LogOp)
NN_UNARY_INFER(SqrtOp)
NN_UNARY_INFER(RsqrtOp)
NN_UNARY_INFER(ReciprocalOp)
NN_UNARY_INFER(TanhOp)
NN_UNARY_INFER(ErfOp)
NN_UNARY_INFER(SigmoidOp)
NN_UNARY_INFER(ReluOp)
NN_UNARY_INFER(AbsOp)
NN_UNARY_INFER(SinOp)
NN_UNARY_INFER(CosOp)
NN_UNARY_INFER(SiluOp)
NN_UNARY_INFER(GeluOp)

//===----------------------------------------------------------------------===//
// Gradients. Each computes in f32 from what is saved anyway: the operand, or
// the result where the formula is shorter.
//===----------------------------------------------------------------------===//

namespace {
/// The parts of a unary gradient: `gradient` is given as x's, r's, g's f32.
struct Unary {
  Unary(Operation *op, OpBuilder &builder, ValueRange resultGrads)
      : b(builder, op->getLoc()), op(op), g(b.f32(resultGrads[0])) {}
  Value x() { return b.f32(op->getOperand(0)); }
  Value r() { return b.f32(op->getResult(0)); }
  LogicalResult done(Value gradient, MutableArrayRef<Value> operandGrads) {
    operandGrads[0] = b.gradientFor(op->getOperand(0), gradient);
    return success();
  }
  NNBuilder b;
  Operation *op;
  Value g;
};
} // namespace

NN_VJP(NegOp) {
  Unary u(*this, builder, resultGrads);
  return u.done(u.b.unary<NegOp>(u.g), operandGrads);
}

NN_VJP(ExpOp) {
  Unary u(*this, builder, resultGrads);
  return u.done(u.b.mul(u.g, u.r()), operandGrads);
}

NN_VJP(LogOp) {
  Unary u(*this, builder, resultGrads);
  return u.done(u.b.div(u.g, u.x()), operandGrads);
}

NN_VJP(SqrtOp) {
  Unary u(*this, builder, resultGrads);
  return u.done(u.b.div(u.b.mul(u.g, 0.5), u.r()), operandGrads);
}

NN_VJP(RsqrtOp) {
  Unary u(*this, builder, resultGrads);
  Value r = u.r(), cube = u.b.mul(u.b.mul(r, r), r);
  return u.done(u.b.mul(u.b.mul(u.g, -0.5), cube), operandGrads);
}

NN_VJP(ReciprocalOp) {
  Unary u(*this, builder, resultGrads);
  Value r = u.r();
  return u.done(u.b.unary<NegOp>(u.b.mul(u.g, u.b.mul(r, r))), operandGrads);
}

NN_VJP(TanhOp) {
  Unary u(*this, builder, resultGrads);
  Value r = u.r();
  return u.done(u.b.mul(u.g, u.b.oneMinus(u.b.mul(r, r))), operandGrads);
}

NN_VJP(ErfOp) {
  Unary u(*this, builder, resultGrads);
  Value x = u.x();
  Value bell = u.b.unary<ExpOp>(u.b.unary<NegOp>(u.b.mul(x, x)));
  return u.done(u.b.mul(u.g, u.b.mul(bell, 2.0 / std::sqrt(M_PI))),
                operandGrads);
}

NN_VJP(SigmoidOp) {
  Unary u(*this, builder, resultGrads);
  Value r = u.r();
  return u.done(u.b.mul(u.g, u.b.mul(r, u.b.oneMinus(r))), operandGrads);
}

NN_VJP(ReluOp) {
  Unary u(*this, builder, resultGrads);
  Value zero = u.b.constant(0.0);
  // A NaN hands its gradient on, as in PyTorch.
  Value flat = u.b.compare(ComparePredicate::le, u.r(), zero);
  return u.done(u.b.select(flat, zero, u.g), operandGrads);
}

NN_VJP(AbsOp) {
  Unary u(*this, builder, resultGrads);
  Value x = u.x(), zero = u.b.constant(0.0);
  Value negative = u.b.compare(ComparePredicate::lt, x, zero);
  Value positive = u.b.compare(ComparePredicate::gt, x, zero);
  Value rest = u.b.select(negative, u.b.unary<NegOp>(u.g), zero);
  return u.done(u.b.select(positive, u.g, rest), operandGrads);
}

NN_VJP(SinOp) {
  Unary u(*this, builder, resultGrads);
  return u.done(u.b.mul(u.g, u.b.unary<CosOp>(u.x())), operandGrads);
}

NN_VJP(CosOp) {
  Unary u(*this, builder, resultGrads);
  Value sine = u.b.unary<SinOp>(u.x());
  return u.done(u.b.unary<NegOp>(u.b.mul(u.g, sine)), operandGrads);
}

// silu'(x) = s·(1 + x·(1 - s)), s = sigmoid(x).
NN_VJP(SiluOp) {
  Unary u(*this, builder, resultGrads);
  Value x = u.x(), s = u.b.unary<SigmoidOp>(x);
  Value slope = u.b.add(u.b.mul(x, u.b.oneMinus(s)), 1.0);
  return u.done(u.b.mul(u.g, u.b.mul(s, slope)), operandGrads);
}

// With tanh: gelu(x) = x·s(p), s = sigmoid, p = 2·sqrt(2/π)·(x + 0.044715·x³),
// so gelu'(x) = s·(1 + x·(1 - s)·p'). Else: Φ(x) + x·φ(x).
NN_VJP(GeluOp) {
  Unary u(*this, builder, resultGrads);
  NNBuilder &b = u.b;
  Value x = u.x(), square = b.mul(x, x);
  if (getTanh()) {
    const double scale = 2.0 * std::sqrt(2.0 / M_PI), cubic = scale * 0.044715;
    Value p = b.mul(x, b.add(b.mul(square, cubic), scale));
    Value s = b.unary<SigmoidOp>(p);
    Value slope = b.add(b.mul(square, 3.0 * cubic), scale);
    Value factor = b.add(b.mul(b.mul(x, b.oneMinus(s)), slope), 1.0);
    return u.done(b.mul(u.g, b.mul(s, factor)), operandGrads);
  }
  Value erf = b.unary<ErfOp>(b.mul(x, std::sqrt(0.5)));
  Value cdf = b.mul(b.add(erf, 1.0), 0.5);
  Value density =
      b.mul(b.unary<ExpOp>(b.mul(square, -0.5)), 1.0 / std::sqrt(2.0 * M_PI));
  return u.done(b.mul(u.g, b.add(cdf, b.mul(x, density))), operandGrads);
}

//===----------------------------------------------------------------------===//
// On vectors
//===----------------------------------------------------------------------===//

#define NN_EMIT_AS(OP, TARGET)                                                 \
  NN_EMIT(OP) { return TARGET::create(builder, getLoc(), vectors[0]); }

NN_EMIT_AS(NegOp, arith::NegFOp)
NN_EMIT_AS(ExpOp, math::ExpOp)
NN_EMIT_AS(LogOp, math::LogOp)
NN_EMIT_AS(SqrtOp, math::SqrtOp)
NN_EMIT_AS(RsqrtOp, math::RsqrtOp)
NN_EMIT_AS(TanhOp, math::TanhOp)
NN_EMIT_AS(ErfOp, math::ErfOp)
NN_EMIT_AS(AbsOp, math::AbsFOp)
NN_EMIT_AS(SinOp, math::SinOp)
NN_EMIT_AS(CosOp, math::CosOp)

NN_EMIT(ReciprocalOp) { return Vec(builder, getLoc()).reciprocal(vectors[0]); }

NN_EMIT(SigmoidOp) { return Vec(builder, getLoc()).sigmoid(vectors[0]); }

// maximumf, so that a NaN stays one.
NN_EMIT(ReluOp) {
  Value zero = constantOf(builder, getLoc(), vectors[0].getType(), 0.0);
  return arith::MaximumFOp::create(builder, getLoc(), vectors[0], zero);
}

NN_EMIT(SiluOp) {
  Vec v(builder, getLoc());
  Value x = vectors[0];
  return v.div(x, v.add(v.exp(v.neg(x)), 1.0));
}

// With u = sqrt(2/π)·(x + 0.044715·x³), 0.5·(1 + tanh(u)) = sigmoid(2·u): one
// exponential and one division.
NN_EMIT(GeluOp) {
  Vec v(builder, getLoc());
  Value x = vectors[0];
  if (getTanh()) {
    const double scale = -2.0 * std::sqrt(2.0 / M_PI);
    Value cubic = v.fma(v.mul(x, x), v.constant(x, scale * 0.044715), scale);
    return v.div(x, v.add(v.exp(v.mul(x, cubic)), 1.0));
  }
  Value inner = v.erf(v.mul(x, std::sqrt(0.5)));
  return v.mul(v.mul(x, 0.5), v.add(inner, 1.0));
}

//===----------------------------------------------------------------------===//
// On a mesh
//===----------------------------------------------------------------------===//

void nn::attachUnaryShardings(MLIRContext &context) {
  attachSharding<ShardableElementwise, NegOp, ExpOp, LogOp, SqrtOp, RsqrtOp,
                 ReciprocalOp, TanhOp, ErfOp, SigmoidOp, ReluOp, AbsOp, SinOp,
                 CosOp, SiluOp, GeluOp>(context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

NN_EVALUATE_AS(NegOp, -x)
NN_EVALUATE_AS(ExpOp, std::exp(x))
NN_EVALUATE_AS(LogOp, std::log(x))
NN_EVALUATE_AS(SqrtOp, std::sqrt(x))
NN_EVALUATE_AS(RsqrtOp, 1 / std::sqrt(x))
NN_EVALUATE_AS(ReciprocalOp, 1 / x)
NN_EVALUATE_AS(TanhOp, std::tanh(x))
NN_EVALUATE_AS(ErfOp, std::erf(x))
NN_EVALUATE_AS(SigmoidOp, 1 / (1 + std::exp(-x)))
NN_EVALUATE_AS(ReluOp, x > 0 || std::isnan(x) ? x : 0)
NN_EVALUATE_AS(AbsOp, std::fabs(x))
NN_EVALUATE_AS(SinOp, std::sin(x))
NN_EVALUATE_AS(CosOp, std::cos(x))
NN_EVALUATE_AS(SiluOp, x / (1 + std::exp(-x)))

NN_EVALUATE(GeluOp) {
  bool tanh = getTanh();
  return evaluateReal(*this, interpreter, [tanh](double x) {
    double inner =
        tanh ? std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))
             : std::erf(x / std::sqrt(2.0));
    return 0.5 * x * (1 + inner);
  });
}
