// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What each elementwise op computes on vectors (or scalars): arith and math
// ops on f32, which the kernel generator expands into polynomials.

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
