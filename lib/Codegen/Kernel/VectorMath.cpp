// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transcendental functions on f32 vectors as polynomials: no math library call
// takes vectors everywhere, and a scalar call costs ten times as much. The
// coefficients are weighted least-squares fits of f64, sharpened towards the
// smallest maximum relative error.

#include "shardonnx/Codegen/Kernel/VectorMath.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
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
  // A NaN's bits do not always survive the arithmetic on them.
  Value above =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGT, x, f(kHigh));
  y = select(above, add(x, f(INFINITY)), y);
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
  return select(less(f(0.625f), a), large, small); // a NaN is small
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
  return select(less(f(0.925f), a), large, small); // a NaN is small
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

namespace {
/// Arithmetic on vectors of i64.
struct Wide {
  Wide(OpBuilder &b, Location loc, VectorType like)
      : b(b), loc(loc), type(VectorType::get(like.getShape(), b.getI64Type())) {
  }
  Value constant(int64_t value) {
    return arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(type, b.getI64IntegerAttr(value)));
  }
  template <typename Op> Value op(Value x, Value y) {
    return Op::create(b, loc, x, y);
  }
  template <typename Op> Value op(Value x, int64_t y) {
    return op<Op>(x, constant(y));
  }
  OpBuilder &b;
  Location loc;
  VectorType type;
};
} // namespace

/// |x|·2/π modulo 4 for large x, by the bits of 2/π that matter (Payne and
/// Hanek, "Radian reduction for trigonometric functions", 1983), as a quadrant
/// and what is left of x within it, in [-π/4, π/4].
std::pair<Value, Value> VectorMath::reduceLarge(Value x) {
  static constexpr uint32_t kTwoOverPi[] = {0,          0xa2f9836e, 0x4e441529,
                                            0xfc2757d1, 0xf534ddc0, 0xdb629599,
                                            0x3c439041, 0xfe5163ab};
  Wide w(b, loc, type);
  Value raw = arith::ExtUIOp::create(b, loc, w.type, bits(abs(x)));
  Value mantissa =
      w.op<arith::OrIOp>(w.op<arith::AndIOp>(raw, 0x7fffff), 0x800000);
  // Those before this bit give multiples of 4.
  Value first = w.op<arith::SubIOp>(w.op<arith::ShRUIOp>(raw, 23), 127 - 7);
  Value word = w.op<arith::ShRUIOp>(first, 5);
  Value shift = w.op<arith::AndIOp>(first, 31);
  auto wordsFrom = [&](size_t offset) {
    Value pair;
    for (size_t i = 0; i < 5; ++i) {
      auto high = uint64_t(kTwoOverPi[i + offset]) << 32;
      Value here =
          w.constant(static_cast<int64_t>(high | kTwoOverPi[i + offset + 1]));
      Value isHere = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge,
                                           word, w.constant(int64_t(i)));
      pair = pair ? select(isHere, here, pair) : here;
    }
    return pair;
  };
  Value high = wordsFrom(0), low = wordsFrom(2);
  Value above = w.op<arith::OrIOp>(
      w.op<arith::ShLIOp>(high, shift),
      w.op<arith::ShRUIOp>(w.op<arith::ShRUIOp>(low, 1),
                           w.op<arith::SubIOp>(w.constant(63), shift)));
  Value below = w.op<arith::ShRUIOp>(w.op<arith::ShLIOp>(low, shift), 32);
  Value product = w.op<arith::AddIOp>(
      w.op<arith::MulIOp>(mantissa, above),
      w.op<arith::ShRUIOp>(w.op<arith::MulIOp>(mantissa, below), 32));
  Value quadrant =
      w.op<arith::ShRUIOp>(w.op<arith::AddIOp>(product, int64_t(1) << 61), 62);
  Value rest = w.op<arith::SubIOp>(product, w.op<arith::ShLIOp>(quadrant, 62));
  Value r = mul(arith::SIToFPOp::create(b, loc, type, rest),
                f(0x1.921fb54442d18p-62f));
  r = select(less(abs(x), f(INFINITY)), r, f(NAN));
  quadrant = arith::TruncIOp::create(b, loc, bitsType, quadrant);
  Value negative = less(x, f(0.0f));
  return {
      select(negative, arith::SubIOp::create(b, loc, i(0), quadrant), quadrant),
      select(negative, arith::NegFOp::create(b, loc, r), r)};
}

/// x - n·π/2 by three parts of π/2, then one of the two polynomials. Where some
/// element is too large for that, all are reduced in the other way.
Value VectorMath::sinOrCos(Value x, bool cosine) {
  Value n;
  Value shifted = fma(x, f(6.366197724e-01f), f(0x1.8p23f));
  Value quadrant = roundToBits(shifted, n);
  Value r = fma(n, f(-1.570796371e+00f), x);
  r = fma(n, f(4.371138829e-08f), r);
  r = fma(n, f(1.715124510e-15f), r);
  Value large =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UGT, abs(x), f(1e5f));
  Value anyLarge =
      vector::ReductionOp::create(b, loc, vector::CombiningKind::OR, large);
  auto branch = scf::IfOp::create(
      b, loc, anyLarge,
      [&](OpBuilder &inner, Location) {
        VectorMath there(inner, loc, type);
        auto [largeQuadrant, largeRest] = there.reduceLarge(x);
        scf::YieldOp::create(
            inner, loc,
            ValueRange{there.select(large, largeQuadrant, quadrant),
                       there.select(large, largeRest, r)});
      },
      [&](OpBuilder &inner, Location) {
        scf::YieldOp::create(inner, loc, ValueRange{quadrant, r});
      });
  quadrant = branch.getResult(0);
  r = branch.getResult(1);
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
