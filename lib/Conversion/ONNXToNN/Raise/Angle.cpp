// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Angle.h.

#include "Angle.h"

#include "Match.h"
#include "mlir/IR/Matchers.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include "shardonnx/Dialect/NN/Interpreter/HostTensor.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {

using nn::HostTensor;
using nn::Scalar;

namespace {

Value stripBroadcast(Value value) {
  auto broadcast = value.getDefiningOp<nn::BroadcastOp>();
  return broadcast ? broadcast.getOperand() : value;
}

/// What a constant holds, or 1 for no value; none for others.
std::optional<HostTensor> readSide(Value side, Type type) {
  DenseElementsAttr numbers;
  Scalar one;
  one.f = 1;
  if (!side)
    return HostTensor::splat({}, type, one);
  if (!matchPattern(side, m_Constant(&numbers)))
    return std::nullopt;
  return HostTensor::fromAttr(numbers);
}

/// Whether `condition` compares `side` with zero: as an op, or as what remains
/// of one where the side is constant.
bool isSignOf(Value condition, nn::ComparePredicate predicate, Value side,
              Type type) {
  side = side ? stripBroadcast(side) : side;
  if (auto compare = condition.getDefiningOp<nn::CompareOp>())
    return compare.getPredicate() == predicate && side &&
           stripBroadcast(compare.getLhs()) == side &&
           isSplatOf(compare.getRhs(), 0);
  DenseElementsAttr flags;
  std::optional<HostTensor> numbers = readSide(side, type);
  if (!numbers || !matchPattern(condition, m_Constant(&flags)))
    return false;
  bool less = predicate == nn::ComparePredicate::lt;
  auto differs =
      HostTensor::map({HostTensor::fromAttr(flags), *numbers},
                      flags.getElementType(), [&](ArrayRef<Scalar> of) {
                        bool flag = less ? of[1].f < 0 : of[1].f > 0;
                        return Scalar{flag != (of[0].i != 0)};
                      });
  return differs && llvm::none_of(differs->flattenInts(),
                                  [](int64_t differ) { return differ != 0; });
}

/// Whether it is angle + π, or with `Op` of a difference angle - π.
template <typename Op> bool isTurned(Value value, Value angle) {
  auto turned = value.getDefiningOp<Op>();
  return turned && turned.getLhs() == angle && isSplatOf(turned.getRhs(), M_PI);
}

struct Sides {
  /// None for 1, by which the quotient is a reciprocal.
  Value y, x;
};

/// The sides of a quotient; no x for what is none.
Sides matchQuotient(Value value) {
  if (auto div = value.getDefiningOp<nn::DivOp>())
    return {div.getLhs(), div.getRhs()};
  auto reciprocal = value.getDefiningOp<nn::ReciprocalOp>();
  return {Value(), reciprocal ? reciprocal.getOperand() : Value()};
}

/// The y and x of `x < 0 ? (y > 0 ? a + π : a - π) : a` with a = atan(y/x).
std::optional<Sides> matchAngle(nn::SelectOp op) {
  // Of 16 bits the arc tangent is computed in f32.
  Value angle = op.getFalseValue();
  Type type = elementType(angle);
  auto atan = stripCasts(angle).getDefiningOp<nn::AtanOp>();
  auto left = op.getTrueValue().getDefiningOp<nn::SelectOp>();
  if (!atan || !left)
    return std::nullopt;
  Sides sides = matchQuotient(stripCasts(atan.getOperand()));
  if (!sides.x || op.getType() != angle.getType() ||
      !isSignOf(op.getCondition(), nn::ComparePredicate::lt, sides.x, type) ||
      !isSignOf(left.getCondition(), nn::ComparePredicate::gt, sides.y, type) ||
      !isTurned<nn::AddOp>(left.getTrueValue(), angle) ||
      !isTurned<nn::SubOp>(left.getFalseValue(), angle))
    return std::nullopt;
  return sides;
}

/// Whether the sign bit is set: 1/x tells one zero from the other.
Value hasSignBit(nn::NNBuilder &b, Value value) {
  Value zero = b.constant(0, elementType(value));
  Value inverse = b.div(b.constant(1, elementType(value)), value);
  return b.binary<nn::OrOp>(b.compare(nn::ComparePredicate::lt, value, zero),
                            b.compare(nn::ComparePredicate::lt, inverse, zero));
}

/// PyTorch's atan2: the quotient is that of the smaller by the larger side, so
/// that neither it nor its gradient, (x dy - y dx) / (x² + y²), overflows.
Value makeAngle(nn::NNBuilder &b, Value y, Value x) {
  Type type = elementType(y);
  auto number = [&](double value) { return b.constant(value, type); };
  Value height = b.unary<nn::AbsOp>(y), width = b.unary<nn::AbsOp>(x);
  Value steep = b.compare(nn::ComparePredicate::gt, height, width);
  Value small = b.select(steep, x, y), large = b.select(steep, y, x);
  // PyTorch has no gradient where the sum of squares is 0, as that of 1e-30 is
  // in f32; the angle is still that of the sides, and 0 / 0 is none.
  Value squares = b.add(b.mul(y, y), b.mul(x, x));
  Value tiny = b.compare(nn::ComparePredicate::eq, squares, number(0));
  auto stopped = [&](Value side) {
    return b.select(tiny, b.unary<nn::StopGradientOp>(side), side);
  };
  // Both sides are compared, as one of them may not be a number.
  auto both = [&](double value) {
    return b.binary<nn::AndOp>(
        b.compare(nn::ComparePredicate::eq, height, number(value)),
        b.compare(nn::ComparePredicate::eq, width, number(value)));
  };
  Value slope =
      b.div(stopped(small), b.select(both(0), number(1), stopped(large)));
  // Equal sides are half a right angle, also infinite ones.
  Value sameSign = b.compare(nn::ComparePredicate::eq, y, x);
  slope = b.select(both(INFINITY), b.select(sameSign, number(1), number(-1)),
                   slope);
  Value part = b.unary<nn::AtanOp>(slope);

  Value down = hasSignBit(b, y), left = hasSignBit(b, x);
  Value upright = b.select(down, number(-M_PI_2), number(M_PI_2));
  Value opposite = b.select(down, number(-M_PI), number(M_PI));
  Value turn = b.select(left, opposite, number(0));
  return b.select(steep, b.sub(upright, part), b.add(part, turn));
}

struct RaiseAtan2 : OpRewritePattern<nn::SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::SelectOp op,
                                PatternRewriter &rewriter) const override {
    auto sides = matchAngle(op);
    if (!sides || elementType(op.getResult()).isF64())
      return failure();
    // What guards the angle against not being a number stays, whether it is the
    // exporter's or the model's own: 0 / 0 is none any more.
    nn::NNBuilder b(rewriter, op.getLoc());
    Type type = elementType(op.getResult()), f32 = rewriter.getF32Type();
    Value y = sides->y ? b.cast(sides->y, f32) : b.constant(1, f32);
    Value angle = makeAngle(b, y, b.cast(sides->x, f32));
    rewriter.replaceOp(op, b.cast(angle, type));
    return success();
  }
};

} // namespace

void addAnglePatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseAtan2>(patterns.getContext());
}

} // namespace shardonnx
