// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See MaskFlags.h.

#include "MaskFlags.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace shardonnx {

SmallVector<int64_t> joinShapes(ArrayRef<Value> values) {
  SmallVector<int64_t> joined;
  for (Value value : values) {
    ArrayRef<int64_t> shape = shapeOf(value);
    if (shape.size() > joined.size())
      joined.insert(joined.begin(), shape.size() - joined.size(), 1);
    auto at = joined.end() - static_cast<ptrdiff_t>(shape.size());
    for (auto [i, dim] : llvm::enumerate(shape))
      at[i] = at[i] == 1 ? dim : at[i];
  }
  return joined;
}

Value joinFlags(ArrayRef<Value> flags, PatternRewriter &rewriter,
                Location loc) {
  Value all = flags.front();
  for (Value more : flags.drop_front())
    all = nn::AndOp::create(
        rewriter, loc,
        RankedTensorType::get(joinShapes({all, more}), rewriter.getI1Type()),
        all, more);
  return all;
}

/// Whether `value` is `flag` everywhere.
static bool isFlag(Value value, bool flag) {
  DenseElementsAttr attr;
  return matchPattern(value, m_Constant(&attr)) &&
         attr.getElementType().isInteger(1) && attr.isSplat() &&
         attr.getSplatValue<bool>() == flag;
}

Value invertFlags(Value flags, PatternRewriter &rewriter) {
  if (auto select = flags.getDefiningOp<nn::SelectOp>())
    if (isFlag(select.getTrueValue(), false) &&
        isFlag(select.getFalseValue(), true))
      return select.getCondition();
  auto compare = flags.getDefiningOp<nn::CompareOp>();
  bool equal = compare && compare.getPredicate() == nn::ComparePredicate::eq;
  if (equal && isFlag(compare.getRhs(), false))
    return compare.getLhs();
  Location loc = flags.getLoc();
  nn::CompareOp inverted;
  if (equal) {
    inverted = nn::CompareOp::create(rewriter, loc, flags.getType(),
                                     nn::ComparePredicate::ne, compare.getLhs(),
                                     compare.getRhs());
  } else {
    auto scalar = RankedTensorType::get({}, rewriter.getI1Type());
    Value no = nn::ConstantOp::create(rewriter, loc,
                                      DenseElementsAttr::get(scalar, false));
    inverted = nn::CompareOp::create(rewriter, loc, flags.getType(),
                                     nn::ComparePredicate::eq, flags, no);
  }
  if (Operation *source = flags.getDefiningOp())
    nn::inheritPlace(inverted, source);
  return inverted;
}

/// The number that `value` is everywhere, if it hides.
static std::optional<double> hidingSplat(Value value) {
  std::optional<double> number = matchSplat(value);
  return number && *number <= kHiddenScore ? number : std::nullopt;
}

std::optional<double> matchHidingNumber(Value mask) {
  Operation *op = mask.getDefiningOp();
  if (isa_and_nonnull<nn::CastOp>(op) &&
      !isa<FloatType>(elementType(op->getOperand(0))))
    return std::nullopt;
  if (isa_and_nonnull<nn::ReshapeOp, nn::BroadcastOp, nn::CastOp>(op))
    return matchHidingNumber(op->getOperand(0));
  auto select = dyn_cast_or_null<nn::SelectOp>(op);
  if (!select)
    return std::nullopt;
  for (bool whenTrue : {true, false}) {
    Value hides = whenTrue ? select.getTrueValue() : select.getFalseValue();
    Value other = whenTrue ? select.getFalseValue() : select.getTrueValue();
    std::optional<double> number = hidingSplat(hides);
    if (number && (isSplatOf(other, 0) || matchHidingNumber(other) == number))
      return number;
  }
  return std::nullopt;
}

Value buildFlags(Value mask, PatternRewriter &rewriter, Location loc) {
  nn::NNBuilder b(rewriter, loc);
  Operation *op = mask.getDefiningOp();
  if (!isa<nn::SelectOp>(op)) {
    Value flags = buildFlags(op->getOperand(0), rewriter, loc);
    if (isa<nn::ReshapeOp>(op))
      return b.reshape(flags, shapeOf(mask));
    return isa<nn::BroadcastOp>(op) ? b.broadcast(flags, shapeOf(mask)) : flags;
  }
  auto select = cast<nn::SelectOp>(op);
  bool hides = hidingSplat(select.getTrueValue()).has_value();
  Value shown = hides ? invertFlags(select.getCondition(), rewriter)
                      : Value(select.getCondition());
  Value other = hides ? select.getFalseValue() : select.getTrueValue();
  if (!isSplatOf(other, 0))
    shown = joinFlags({shown, buildFlags(other, rewriter, loc)}, rewriter, loc);
  return shapeOf(shown) == shapeOf(mask) ? shown
                                         : b.broadcast(shown, shapeOf(mask));
}

} // namespace shardonnx
