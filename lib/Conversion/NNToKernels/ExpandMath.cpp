// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transcendental functions on f32 vectors as polynomials: no math library call
// takes vectors everywhere, and a scalar call costs ten times as much. The
// coefficients are weighted least-squares fits of f64, sharpened towards the
// smallest maximum relative error.

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "shardonnx/Conversion/NNToKernels/Emit.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

namespace {

/// Arithmetic on vectors of f32 and of their bits.
class VectorMath {
public:
  VectorMath(OpBuilder &b, Location loc, VectorType type)
      : b(b), loc(loc), type(type),
        bitsType(VectorType::get(type.getShape(), b.getI32Type())) {}

  Value exp(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value log(Value x);
  Value sinOrCos(Value x, bool cosine);
  Value rsqrt(Value x) {
    return arith::DivFOp::create(b, loc, f(1.0f),
                                 math::SqrtOp::create(b, loc, x));
  }

private:
  Value f(float v) {
    return arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(type, b.getF32FloatAttr(v)));
  }
  Value i(int32_t v) {
    return arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(bitsType, b.getI32IntegerAttr(v)));
  }
  Value fma(Value x, Value y, Value z) {
    return math::FmaOp::create(b, loc, x, y, z);
  }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value bits(Value x) { return arith::BitcastOp::create(b, loc, bitsType, x); }
  Value fromBits(Value x) { return arith::BitcastOp::create(b, loc, type, x); }
  Value abs(Value x) { return math::AbsFOp::create(b, loc, x); }
  Value copySign(Value x, Value sign) {
    return math::CopySignOp::create(b, loc, x, sign);
  }
  Value less(Value x, Value y) {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, x, y);
  }
  Value select(Value c, Value x, Value y) {
    return arith::SelectOp::create(b, loc, c, x, y);
  }
  /// The smaller or larger, x where x is NaN: one instruction each.
  Value atMost(Value x, float v) { return select(less(f(v), x), f(v), x); }
  Value atLeast(Value x, float v) { return select(less(x, f(v)), f(v), x); }
  /// Horner's rule, the highest power first.
  Value polynomial(Value x, ArrayRef<float> coefficients);
  Value roundToBits(Value scaled, Value &rounded);
  Value expCore(Value x);

  OpBuilder &b;
  Location loc;
  VectorType type, bitsType;
};

} // namespace

Value VectorMath::polynomial(Value x, ArrayRef<float> coefficients) {
  Value result = f(coefficients.front());
  for (float c : coefficients.drop_front())
    result = fma(result, x, f(c));
  return result;
}

/// Rounds |scaled| < 2^22 to an integer: adding 1.5·2^23 leaves the integer in
/// the low bits, and subtracting it again gives it as a float.
Value VectorMath::roundToBits(Value shifted, Value &rounded) {
  rounded = sub(shifted, f(0x1.8p23f));
  return bits(shifted);
}

/// e^x for x in [-87.33, 88.72]: 2^n · e^r with |r| ≤ ln2 / 2.
Value VectorMath::expCore(Value x) {
  Value n;
  Value shifted = fma(x, f(0x1.715476p0f), f(0x1.8p23f));
  Value nBits = roundToBits(shifted, n);
  Value r = fma(n, f(-6.931471825e-01f), x);
  r = fma(n, f(1.904654212e-09f), r);
  Value p = polynomial(r, {1.381313959e-03f, 8.369419310e-03f, 4.166845689e-02f,
                           1.666651479e-01f, 4.999999305e-01f});
  Value e = add(fma(mul(r, r), p, r), f(1.0f));
  Value exponent = arith::ShLIOp::create(b, loc, nBits, i(23));
  return fromBits(arith::AddIOp::create(b, loc, bits(e), exponent));
}

Value VectorMath::exp(Value x) {
  constexpr float kLow = -87.336544f, kHigh = 88.722832f;
  Value y = expCore(atLeast(atMost(x, kHigh), kLow));
  y = select(less(f(kHigh), x), f(INFINITY), y);
  return select(less(x, f(kLow)), f(0.0f), y);
}

/// Near zero x + x³·P(x²), elsewhere 1 - 2 / (e^2|x| + 1).
Value VectorMath::tanh(Value x) {
  Value a = abs(x), square = mul(x, x);
  Value p = polynomial(square,
                       {-5.717025792e-03f, 2.065056846e-02f, -5.374349167e-02f,
                        1.333149120e-01f, -3.333328392e-01f});
  Value small = fma(mul(x, square), p, x);
  Value clamped = atMost(a, 10.0f);
  Value e = expCore(add(clamped, clamped));
  Value quotient = arith::DivFOp::create(b, loc, f(2.0f), add(e, f(1.0f)));
  Value large = copySign(sub(f(1.0f), quotient), x);
  return select(less(a, f(0.625f)), small, large);
}

/// Near zero x + x·P(x²), elsewhere 1 - e^-(t + t·Q(t)) with t = |x|.
Value VectorMath::erf(Value x) {
  Value a = abs(x), square = mul(x, x);
  Value p = polynomial(square,
                       {-5.976890567e-04f, 4.990979556e-03f, -2.676556647e-02f,
                        1.128180276e-01f, -3.761249432e-01f, 1.283791500e-01f});
  Value small = fma(x, p, x);
  Value t = atMost(a, 4.0f);
  Value q =
      polynomial(t, {1.123172511e-05f, -3.228078797e-04f, 3.642474668e-03f,
                     -2.376209447e-02f, 1.062369125e-01f, 6.351512964e-01f,
                     1.286484949e-01f});
  Value e = expCore(arith::NegFOp::create(b, loc, fma(t, q, t)));
  Value large = copySign(sub(f(1.0f), e), x);
  return select(less(a, f(0.925f)), small, large);
}

/// x = 2^e · m with m in [sqrt(1/2), sqrt(2)); log m by a polynomial in m - 1.
Value VectorMath::log(Value x) {
  Value tiny = less(x, f(0x1p-126f));
  Value scaled = select(tiny, mul(x, f(0x1p23f)), x);
  Value raw = bits(scaled);
  Value e = arith::ShRSIOp::create(
      b, loc, arith::SubIOp::create(b, loc, raw, i(0x3f3504f3)), i(23));
  Value mantissa = fromBits(arith::SubIOp::create(
      b, loc, raw, arith::ShLIOp::create(b, loc, e, i(23))));
  Value n = arith::SIToFPOp::create(b, loc, type, e);
  n = sub(n, select(tiny, f(23.0f), f(0.0f)));
  Value m = sub(mantissa, f(1.0f));
  Value p =
      polynomial(m, {6.746551643e-02f, -1.167562818e-01f, 1.188819035e-01f,
                     -1.240559455e-01f, 1.421954904e-01f, -1.666799543e-01f,
                     2.000211883e-01f, -2.500000961e-01f, 3.333331260e-01f});
  Value square = mul(m, m);
  Value tail = fma(square, f(-0.5f), mul(mul(square, m), p));
  tail = fma(n, f(-1.904654212e-09f), tail);
  Value result = fma(n, f(6.931471825e-01f), add(m, tail));
  result = select(less(x, f(INFINITY)), result, x);
  Value zero =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, f(0.0f));
  result = select(zero, f(-INFINITY), result);
  return select(less(x, f(0.0f)), f(NAN), result);
}

/// x - n·π/2 by three parts of π/2, then one of the two polynomials.
Value VectorMath::sinOrCos(Value x, bool cosine) {
  Value n;
  Value shifted = fma(x, f(6.366197724e-01f), f(0x1.8p23f));
  Value quadrant = roundToBits(shifted, n);
  Value r = fma(n, f(-1.570796371e+00f), x);
  r = fma(n, f(4.371138829e-08f), r);
  r = fma(n, f(1.715124510e-15f), r);
  Value square = mul(r, r);
  Value s = polynomial(square, {2.717564285e-06f, -1.983925661e-04f,
                                8.333329144e-03f, -1.666666664e-01f});
  s = fma(mul(r, square), s, r);
  Value c = polynomial(square, {-2.720330123e-07f, 2.479943637e-05f,
                                -1.388888344e-03f, 4.166666662e-02f});
  c = fma(mul(square, square), c, fma(square, f(-0.5f), f(1.0f)));
  if (cosine)
    quadrant = arith::AddIOp::create(b, loc, quadrant, i(1));
  Value odd = arith::CmpIOp::create(
      b, loc, arith::CmpIPredicate::ne,
      arith::AndIOp::create(b, loc, quadrant, i(1)), i(0));
  Value negative = arith::ShLIOp::create(
      b, loc, arith::AndIOp::create(b, loc, quadrant, i(2)), i(30));
  Value result = select(odd, c, s);
  return fromBits(arith::XOrIOp::create(b, loc, bits(result), negative));
}

void kernels::expandMath(LLVM::LLVMFuncOp function) {
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) {
    if (isa_and_nonnull<math::MathDialect>(op->getDialect()))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    auto type = dyn_cast<VectorType>(op->getResult(0).getType());
    if (!type || !type.getElementType().isF32())
      continue;
    OpBuilder b(op);
    VectorMath math(b, op->getLoc(), type);
    Value x = op->getOperand(0);
    Value result =
        llvm::TypeSwitch<Operation *, Value>(op)
            .Case<math::ExpOp>([&](auto) { return math.exp(x); })
            .Case<math::TanhOp>([&](auto) { return math.tanh(x); })
            .Case<math::ErfOp>([&](auto) { return math.erf(x); })
            .Case<math::LogOp>([&](auto) { return math.log(x); })
            .Case<math::SinOp>([&](auto) { return math.sinOrCos(x, false); })
            .Case<math::CosOp>([&](auto) { return math.sinOrCos(x, true); })
            .Case<math::RsqrtOp>([&](auto) { return math.rsqrt(x); })
            .Default(Value());
    if (!result)
      continue;
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
}
