// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transcendental functions on f32 vectors as polynomials: no math library call
// takes vectors everywhere, and a scalar call costs ten times as much. The
// coefficients are weighted least-squares fits of f64, sharpened towards the
// smallest maximum relative error.

#include "shardonnx/Codegen/Kernel/VectorMath.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

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
  Value quotient = divide(f(2.0f), add(e, f(1.0f)));
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

Value VectorMath::expand(Operation *op) {
  Value x = op->getOperand(0);
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<math::ExpOp>([&](auto) { return exp(x); })
      .Case<math::TanhOp>([&](auto) { return tanh(x); })
      .Case<math::ErfOp>([&](auto) { return erf(x); })
      .Case<math::LogOp>([&](auto) { return log(x); })
      .Case<math::SinOp>([&](auto) { return sinOrCos(x, false); })
      .Case<math::CosOp>([&](auto) { return sinOrCos(x, true); })
      .Case<math::RsqrtOp>([&](auto) { return rsqrt(x); })
      .Default(Value());
}

VectorType kernels::floatVectorOf(Operation *op) {
  if (op->getNumResults() != 1)
    return {};
  auto type = dyn_cast<VectorType>(op->getResult(0).getType());
  return type && type.getElementType().isF32() ? type : VectorType();
}
