// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Angle.h.

#include "Angle.h"

#include "Match.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

/// The left side of a comparison with zero; null for others.
Value matchSign(Value condition, nn::ComparePredicate predicate) {
  auto compare = condition.getDefiningOp<nn::CompareOp>();
  return compare && compare.getPredicate() == predicate &&
                 isSplatOf(compare.getRhs(), 0)
             ? compare.getLhs()
             : Value();
}

/// Whether it is angle + π, or with `Op` of a difference angle - π.
template <typename Op> bool isTurned(Value value, Value angle) {
  auto turned = value.getDefiningOp<Op>();
  return turned && turned.getLhs() == angle && isSplatOf(turned.getRhs(), M_PI);
}

/// The y and x of `x < 0 ? (y > 0 ? a + π : a - π) : a` with a = atan(y/x).
std::optional<std::pair<Value, Value>> matchAngle(nn::SelectOp op) {
  auto atan = op.getFalseValue().getDefiningOp<nn::AtanOp>();
  auto slope = atan ? atan.getOperand().getDefiningOp<nn::DivOp>() : nullptr;
  auto left = op.getTrueValue().getDefiningOp<nn::SelectOp>();
  if (!slope || !left)
    return std::nullopt;
  Value y = slope.getLhs(), x = slope.getRhs(), angle = atan.getResult();
  if (matchSign(op.getCondition(), nn::ComparePredicate::lt) != x ||
      matchSign(left.getCondition(), nn::ComparePredicate::gt) != y ||
      !isTurned<nn::AddOp>(left.getTrueValue(), angle) ||
      !isTurned<nn::SubOp>(left.getFalseValue(), angle))
    return std::nullopt;
  return std::make_pair(y, x);
}

/// Whether the sign bit is set: 1/x tells one zero from the other.
Value isNegative(nn::NNBuilder &b, Value value) {
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
  auto compare = [&](nn::ComparePredicate p, Value lhs, Value rhs) {
    return b.compare(p, lhs, rhs);
  };
  Value height = b.unary<nn::AbsOp>(y), width = b.unary<nn::AbsOp>(x);
  Value steep = compare(nn::ComparePredicate::gt, height, width);
  Value small = b.select(steep, x, y), large = b.select(steep, y, x);
  // Equal sides are half a right angle, also infinite ones, and nothing at 0,
  // where there is no gradient either.
  Value none = compare(nn::ComparePredicate::eq, large, number(0));
  Value slope = b.div(small, b.select(none, number(1), large));
  Value sameSign = compare(nn::ComparePredicate::eq, y, x);
  Value endless = compare(nn::ComparePredicate::eq, b.unary<nn::AbsOp>(small),
                          number(INFINITY));
  slope = b.select(endless, b.select(sameSign, number(1), number(-1)), slope);
  Value part = b.unary<nn::AtanOp>(slope);

  Value down = isNegative(b, y), left = isNegative(b, x);
  Value upright = b.select(down, number(-M_PI_2), number(M_PI_2));
  Value opposite = b.select(down, number(-M_PI), number(M_PI));
  Value turn = b.select(left, opposite, number(0));
  Value flat = b.select(none, turn, b.add(part, turn));
  return b.select(steep, b.sub(upright, part), flat);
}

struct RaiseAtan2 : OpRewritePattern<nn::SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::SelectOp op,
                                PatternRewriter &rewriter) const override {
    auto sides = matchAngle(op);
    if (!sides || !elementType(op.getResult()).isF32())
      return failure();
    auto [y, x] = *sides;
    // The newer exporter writes 0 for what is not a number, which 0/0 is; of
    // what is not a number itself PyTorch makes none.
    Operation *replaced = op;
    for (Operation *user : op->getUsers())
      if (auto guarded = dyn_cast<nn::SelectOp>(user);
          guarded && guarded.getFalseValue() == op.getResult() &&
          isSplatOf(guarded.getTrueValue(), 0) &&
          isNaNOf(guarded.getCondition(), op.getResult()))
        replaced = guarded;
    nn::NNBuilder b(rewriter, op.getLoc());
    Value angle = makeAngle(b, y, x);
    if (replaced != op)
      rewriter.replaceOp(replaced, angle);
    rewriter.replaceOp(op, angle);
    return success();
  }

  /// Whether it is `value != value`.
  static bool isNaNOf(Value condition, Value value) {
    auto compare = condition.getDefiningOp<nn::CompareOp>();
    return compare && compare.getPredicate() == nn::ComparePredicate::ne &&
           compare.getLhs() == value && compare.getRhs() == value;
  }
};

} // namespace

void addAnglePatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseAtan2>(patterns.getContext());
}

} // namespace shardonnx
