// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Math of GPU kernels: a GPU has 2^x, 1/x, square roots and their inverses as
// instructions of about one unit in the last place; the rest are the
// polynomials of VectorMath. IEEE division and square root are subroutines of
// dozens of instructions there, so quotients take the two-ulp forms.

#include "DeviceEmitter.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "shardonnx/Codegen/Kernel/VectorMath.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::kernels;

namespace {

class DeviceMath : public VectorMath {
public:
  using VectorMath::VectorMath;
  Value expand(Operation *op) override;

protected:
  /// The argument reduced to 2^j · 2^r: j from a saturated product, so that
  /// both ends give zero and infinity by themselves, and a NaN stays one.
  Value exp(Value x) override;
  Value expCore(Value x) override { return exp(x); }
  Value rsqrt(Value x) override {
    return intrinsic("llvm.nvvm.rsqrt.approx.f", {x});
  }
  Value divide(Value x, Value y) override {
    return intrinsic("llvm.nvvm.div.full", {x, y});
  }

private:
  Value quotient(arith::DivFOp op);
  Value power(Value x, Value y);
  Value logarithm2(Value magnitude);
  Value exponential2(Value t);
  /// Of a scalar intrinsic, lane by lane.
  Value intrinsic(StringRef name, ArrayRef<Value> vectors);
  VectorType doubles() {
    return VectorType::get(type.getShape(), b.getF64Type());
  }
  Value d(double v) {
    return arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(doubles(), b.getF64FloatAttr(v)));
  }
  Value widen(Value x) { return arith::ExtFOp::create(b, loc, doubles(), x); }
  Value equal(Value x, Value y) {
    return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OEQ, x, y);
  }
};

} // namespace

Value DeviceMath::intrinsic(StringRef name, ArrayRef<Value> vectors) {
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < type.getNumElements(); ++lane) {
    SmallVector<Value> operands;
    for (Value vector : vectors)
      operands.push_back(vector::ExtractOp::create(b, loc, vector, lane));
    lanes.push_back(LLVM::CallIntrinsicOp::create(
                        b, loc, b.getF32Type(), b.getStringAttr(name), operands)
                        .getResult(0));
  }
  return vector::FromElementsOp::create(b, loc, type, lanes);
}

Value DeviceMath::exp(Value x) {
  // 252 = 126 + 126 exponents of normal numbers, log2(e) / 252 a step.
  Value scaled = fma(x, f(5.7249800302e-03f), f(0.5f));
  Value unit = intrinsic("llvm.nvvm.saturate.f", {scaled});
  Value shifted =
      intrinsic("llvm.nvvm.fma.rm.f", {unit, f(252.0f), f(0x1.8p23f + 1.0f)});
  Value exponent = sub(shifted, f(0x1.8p23f + 127.0f));
  Value minus = arith::NegFOp::create(b, loc, exponent);
  Value r = fma(x, f(1.4426950216e+00f), minus);
  r = fma(x, f(1.925963033e-08f), r);
  Value power = intrinsic("llvm.nvvm.ex2.approx.ftz", {r});
  Value scale = fromBits(arith::ShLIOp::create(b, loc, bits(shifted), i(23)));
  return mul(power, scale);
}

/// True for 1 + e^x, which lies in [1, ∞]: the quotient by it needs no scaling.
static bool isOnePlusExponential(Value value) {
  auto add = value.getDefiningOp<arith::AddFOp>();
  if (!add || !add.getLhs().getDefiningOp<math::ExpOp>())
    return false;
  auto constant = add.getRhs().getDefiningOp<arith::ConstantOp>();
  auto elements =
      constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : nullptr;
  return elements && elements.getSplatValue<APFloat>().isExactlyValue(1.0);
}

Value DeviceMath::quotient(arith::DivFOp op) {
  Value x = op.getLhs(), y = op.getRhs();
  if (!isOnePlusExponential(y))
    return divide(x, y);
  return mul(x, intrinsic("llvm.nvvm.rcp.approx.ftz.f", {y}));
}

/// log2 of a finite positive f32 in f64: m = 2^e · m' with m' near 1, then
/// atanh((m' - 1) / (m' + 1)) as a series, within 1e-13.
Value DeviceMath::logarithm2(Value magnitude) {
  Value tiny = less(magnitude, f(0x1p-126f));
  Value raw = bits(select(tiny, mul(magnitude, f(0x1p23f)), magnitude));
  Value e = arith::ShRSIOp::create(
      b, loc, arith::SubIOp::create(b, loc, raw, i(0x3f3504f3)), i(23));
  Value mantissa = fromBits(arith::SubIOp::create(
      b, loc, raw, arith::ShLIOp::create(b, loc, e, i(23))));
  Value n = arith::SIToFPOp::create(b, loc, type, e);
  n = widen(sub(n, select(tiny, f(23.0f), f(0.0f))));
  Value m = widen(mantissa);
  Value above = sub(m, d(1.0)), below = add(m, d(1.0));
  Value guess =
      widen(intrinsic("llvm.nvvm.rcp.approx.ftz.f", {add(mantissa, f(1.0f))}));
  guess = mul(guess, sub(d(2.0), mul(below, guess)));
  Value z = mul(above, guess), square = mul(z, z);
  Value series = d(1.0 / 19.0);
  for (int k = 17; k >= 1; k -= 2)
    series = fma(series, square, d(1.0 / k));
  return fma(mul(z, series), d(2.885390081777926815), n);
}

/// 2^t of a bounded f64.
Value DeviceMath::exponential2(Value t) {
  constexpr double kMagic = 0x1.8p52;
  Value clamped = select(less(t, d(-250.0)), d(-250.0), t);
  clamped = select(less(d(250.0), clamped), d(250.0), clamped);
  Value n = sub(add(clamped, d(kMagic)), d(kMagic));
  Value fraction = arith::TruncFOp::create(b, loc, type, sub(clamped, n));
  Value power = intrinsic("llvm.nvvm.ex2.approx.ftz", {fraction});
  Value whole = arith::FPToSIOp::create(b, loc, bitsType, n);
  Value half = arith::ShRSIOp::create(b, loc, whole, i(1));
  Value rest = arith::SubIOp::create(b, loc, whole, half);
  for (Value part : {half, rest}) {
    Value biased = arith::AddIOp::create(b, loc, part, i(127));
    power = mul(power, fromBits(arith::ShLIOp::create(b, loc, biased, i(23))));
  }
  return power;
}

/// |x|^y, then the sign and what has none: in f64, since a relative error of
/// the exponent is an absolute one of the result's logarithm.
Value DeviceMath::power(Value x, Value y) {
  Value a = abs(x), wide = widen(y);
  Value logarithm = logarithm2(a);
  logarithm = select(equal(a, f(0.0f)), d(-1e30), logarithm);
  logarithm = select(equal(a, f(INFINITY)), d(1e30), logarithm);
  Value magnitude = exponential2(mul(wide, logarithm));
  Value halves = mul(y, f(0.5f));
  Value integral = equal(math::TruncOp::create(b, loc, y), y);
  Value even = equal(math::TruncOp::create(b, loc, halves), halves);
  Value negative =
      select(even, magnitude, arith::NegFOp::create(b, loc, magnitude));
  negative = select(integral, negative, f(NAN));
  Value inFront = less(x, f(0.0f));
  Value result = select(inFront, negative, magnitude);
  Value unordered =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNO, x, y);
  result = select(unordered, f(NAN), result);
  result = select(equal(x, f(1.0f)), f(1.0f), result);
  return select(equal(y, f(0.0f)), f(1.0f), result);
}

Value DeviceMath::expand(Operation *op) {
  if (auto division = dyn_cast<arith::DivFOp>(op))
    return quotient(division);
  if (isa<math::SqrtOp>(op))
    return intrinsic("llvm.nvvm.sqrt.approx.f", {op->getOperand(0)});
  if (isa<math::PowFOp>(op))
    return power(op->getOperand(0), op->getOperand(1));
  return VectorMath::expand(op);
}

void kernels::expandDeviceMath(Operation *function) {
  SmallVector<Operation *> ops;
  function->walk([&](Operation *op) {
    bool math = isa_and_nonnull<math::MathDialect>(op->getDialect());
    if ((math || isa<arith::DivFOp>(op)) && floatVectorOf(op))
      ops.push_back(op);
  });
  // From the last to the first: a quotient looks at how its divisor came about.
  for (Operation *op : llvm::reverse(ops)) {
    OpBuilder b(op);
    Value result = DeviceMath(b, op->getLoc(), floatVectorOf(op)).expand(op);
    if (!result)
      continue;
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }
}
