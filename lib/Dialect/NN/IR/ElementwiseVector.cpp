// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What each elementwise op computes on vectors (or scalars): arith and math
// ops on f32, which the kernel generator expands into polynomials.

#include "Evaluate.h"
#include "VectorBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

#define NN_EMIT(OP) Value OP::emitVector(OpBuilder &builder, ValueRange vectors)
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

/// The op for floats, or the one for integers.
template <typename FloatOp, typename IntOp>
static Value emitBinary(OpBuilder &builder, Location loc, ValueRange vectors) {
  if (isFloat(vectors[0]))
    return FloatOp::create(builder, loc, vectors[0], vectors[1]);
  return IntOp::create(builder, loc, vectors[0], vectors[1]);
}

NN_EMIT(AddOp) {
  return emitBinary<arith::AddFOp, arith::AddIOp>(builder, getLoc(), vectors);
}
NN_EMIT(SubOp) {
  return emitBinary<arith::SubFOp, arith::SubIOp>(builder, getLoc(), vectors);
}
NN_EMIT(MulOp) {
  return emitBinary<arith::MulFOp, arith::MulIOp>(builder, getLoc(), vectors);
}
NN_EMIT(MaxOp) {
  return emitBinary<arith::MaximumFOp, arith::MaxSIOp>(builder, getLoc(),
                                                       vectors);
}
NN_EMIT(MinOp) {
  return emitBinary<arith::MinimumFOp, arith::MinSIOp>(builder, getLoc(),
                                                       vectors);
}
NN_EMIT(DivOp) {
  return arith::DivFOp::create(builder, getLoc(), vectors[0], vectors[1]);
}
NN_EMIT(PowOp) {
  return math::PowFOp::create(builder, getLoc(), vectors[0], vectors[1]);
}
NN_EMIT(AndOp) {
  return arith::AndIOp::create(builder, getLoc(), vectors[0], vectors[1]);
}
NN_EMIT(OrOp) {
  return arith::OrIOp::create(builder, getLoc(), vectors[0], vectors[1]);
}
NN_EMIT(SelectOp) {
  return arith::SelectOp::create(builder, getLoc(), vectors[0], vectors[1],
                                 vectors[2]);
}

NN_EMIT(CompareOp) {
  using FP = arith::CmpFPredicate;
  using IP = arith::CmpIPredicate;
  static constexpr FP kFloat[] = {FP::OEQ, FP::UNE, FP::OLT,
                                  FP::OLE, FP::OGT, FP::OGE};
  static constexpr IP kSigned[] = {IP::eq,  IP::ne,  IP::slt,
                                   IP::sle, IP::sgt, IP::sge};
  // false < true
  static constexpr IP kBool[] = {IP::eq,  IP::ne,  IP::ult,
                                 IP::ule, IP::ugt, IP::uge};
  auto index = static_cast<unsigned>(getPredicate());
  if (isFloat(vectors[0]))
    return arith::CmpFOp::create(builder, getLoc(), kFloat[index], vectors[0],
                                 vectors[1]);
  bool isBool = getElementTypeOrSelf(vectors[0].getType()).isInteger(1);
  return arith::CmpIOp::create(builder, getLoc(),
                               isBool ? kBool[index] : kSigned[index],
                               vectors[0], vectors[1]);
}

/// The type of `like` with another element type.
static Type withElement(Type like, Type element) {
  if (auto shaped = dyn_cast<ShapedType>(like))
    return shaped.clone(element);
  return element;
}

// Floats are f32 here whatever they are in memory, so a cast between them
// happens where the value is stored.
NN_EMIT(CastOp) {
  Value x = vectors[0];
  Type from = getElementTypeOrSelf(x.getType()), to = elementType(getResult());
  Location loc = getLoc();
  if (isa<FloatType>(to)) {
    if (isa<FloatType>(from))
      return x;
    Type type = withElement(x.getType(), builder.getF32Type());
    if (from.isInteger(1))
      return arith::UIToFPOp::create(builder, loc, type, x);
    return arith::SIToFPOp::create(builder, loc, type, x);
  }
  Type type = withElement(x.getType(), to);
  if (to.isInteger(1)) {
    Value zero = constantOf(builder, loc, x.getType(), 0.0);
    if (isa<FloatType>(from))
      return arith::CmpFOp::create(builder, loc, arith::CmpFPredicate::UNE, x,
                                   zero);
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, x,
                                 zero);
  }
  if (isa<FloatType>(from))
    return arith::FPToSIOp::create(builder, loc, type, x);
  if (from == to)
    return x;
  if (from.isInteger(1))
    return arith::ExtUIOp::create(builder, loc, type, x);
  if (from.getIntOrFloatBitWidth() < to.getIntOrFloatBitWidth())
    return arith::ExtSIOp::create(builder, loc, type, x);
  return arith::TruncIOp::create(builder, loc, type, x);
}

//===----------------------------------------------------------------------===//
// Reference evaluation
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

NN_EVALUATE(CastOp) {
  Arithmetic from = interpreter.arithmetic(getOperand()),
             to = interpreter.arithmetic(getResult());
  return interpreter.map(
      *this, [&](ArrayRef<Scalar> x) { return to.convert(x[0], from); });
}

/// An op of two elements of the result's type.
template <typename Function>
static LogicalResult evaluateBinary(Operation *op, Interpreter &interpreter,
                                    Function function) {
  Arithmetic type = interpreter.arithmetic(op->getResult(0));
  return interpreter.map(
      op, [&](ArrayRef<Scalar> x) { return (type.*function)(x[0], x[1]); });
}

NN_EVALUATE(AddOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::add);
}
NN_EVALUATE(MulOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::multiply);
}
NN_EVALUATE(DivOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::divide);
}
NN_EVALUATE(PowOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::power);
}
NN_EVALUATE(MaxOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::max);
}
NN_EVALUATE(MinOp) {
  return evaluateBinary(*this, interpreter, &Arithmetic::min);
}

// Indices of rows less those of columns are stored by diagonals.
NN_EVALUATE(SubOp) {
  if (auto difference = HostTensor::indexDifference(interpreter.get(getLhs()),
                                                    interpreter.get(getRhs())))
    return interpreter.set(getResult(), *difference);
  return evaluateBinary(*this, interpreter, &Arithmetic::subtract);
}

/// Whether a comparison holds of operands of this order (Arithmetic::compare).
static bool holds(ComparePredicate predicate, int order) {
  switch (predicate) {
  case ComparePredicate::eq:
    return order == 0;
  case ComparePredicate::ne:
    return order != 0;
  case ComparePredicate::lt:
    return order == -1;
  case ComparePredicate::le:
    return order == -1 || order == 0;
  case ComparePredicate::gt:
    return order == 1;
  case ComparePredicate::ge:
    return order == 1 || order == 0;
  }
  llvm_unreachable("six comparisons");
}

NN_EVALUATE(CompareOp) {
  Arithmetic type = interpreter.arithmetic(getLhs());
  ComparePredicate predicate = getPredicate();
  // Indices of rows against those of columns: the difference against 0.
  if (auto difference = HostTensor::indexDifference(interpreter.get(getLhs()),
                                                    interpreter.get(getRhs())))
    return interpreter.set(
        getResult(),
        *HostTensor::map(
            {*difference}, elementType(getResult()), [&](ArrayRef<Scalar> x) {
              return ofInt(holds(predicate, type.compare(x[0], ofInt(0))));
            }));
  return interpreter.map(*this, [&](ArrayRef<Scalar> x) {
    return ofInt(holds(predicate, type.compare(x[0], x[1])));
  });
}

NN_EVALUATE(AndOp) {
  return interpreter.map(
      *this, [](ArrayRef<Scalar> x) { return ofInt(x[0].i && x[1].i); });
}
NN_EVALUATE(OrOp) {
  return interpreter.map(
      *this, [](ArrayRef<Scalar> x) { return ofInt(x[0].i || x[1].i); });
}
NN_EVALUATE(SelectOp) {
  return interpreter.map(
      *this, [](ArrayRef<Scalar> x) { return x[0].i ? x[1] : x[2]; });
}
