// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds masks of zeros and ones that are drawn with one chance, as stochastic
// depth writes them out.

#include "Match.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include "shardonnx/Support/SpelledOption.h"

using namespace mlir;

namespace shardonnx {

#define GEN_PASS_DEF_RAISEDROPOUT
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

namespace {

/// Uniform numbers that nothing else reads.
nn::RandomUniformOp matchDrawn(Value value) {
  value = stripCasts(value);
  auto drawn = value.getDefiningOp<nn::RandomUniformOp>();
  return drawn && drawn->hasOneUse() ? drawn : nn::RandomUniformOp();
}

/// What decides, and the chance that it does.
struct Chance {
  nn::RandomUniformOp drawn;
  double of;
};

/// u < p and its other spellings.
std::optional<Chance> matchChance(Value flag) {
  using Predicate = nn::ComparePredicate;
  auto compare = flag.getDefiningOp<nn::CompareOp>();
  if (!compare)
    return std::nullopt;
  Predicate predicate = compare.getPredicate();
  bool below = predicate == Predicate::lt || predicate == Predicate::le;
  if (!below && predicate != Predicate::gt && predicate != Predicate::ge)
    return std::nullopt;
  nn::RandomUniformOp drawn = matchDrawn(compare.getLhs());
  std::optional<double> bound = matchSplat(compare.getRhs());
  if (!drawn) {
    drawn = matchDrawn(compare.getRhs());
    bound = matchSplat(compare.getLhs());
    below = !below;
  }
  if (!drawn || !bound)
    return std::nullopt;
  return Chance{drawn, below ? *bound : 1 - *bound};
}

/// A flag as a number.
std::optional<Chance> matchMask(nn::CastOp op) {
  return isa<FloatType>(elementType(op.getResult()))
             ? matchChance(op.getOperand())
             : std::nullopt;
}

/// ⌊p + u⌋
std::optional<Chance> matchMask(nn::FloorOp op) {
  auto sum = matchWithSplat<nn::AddOp>(stripCasts(op.getOperand()));
  nn::RandomUniformOp drawn =
      sum ? matchDrawn(sum->first) : nn::RandomUniformOp();
  return drawn ? std::optional<Chance>({drawn, sum->second}) : std::nullopt;
}

/// Replaces a mask by the dropout of its chance: it is one where that is kept,
/// and where nothing is dropped the chance, its mean.
template <typename Op> struct RaiseMask : OpRewritePattern<Op> {
  RaiseMask(MLIRContext *context, bool dropped)
      : OpRewritePattern<Op>(context), dropped(dropped) {}

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    std::optional<Chance> chance = matchMask(op);
    auto type = cast<RankedTensorType>(op.getResult().getType());
    if (!chance || !(chance->of > 0 && chance->of < 1) ||
        type.getShape() != chance->drawn.getType().getShape())
      return failure();
    nn::RandomUniformOp drawn = chance->drawn;
    Value mean = nn::NNBuilder(rewriter, op.getLoc()).splat(chance->of, type);
    if (dropped)
      mean = nn::DropoutOp::create(
          rewriter, op.getLoc(), type, mean, drawn.getRandom(),
          rewriter.getF64FloatAttr(1 - chance->of), drawn.getStreamAttr(),
          drawn.getSamplesAttr());
    rewriter.replaceOp(op, mean);
    return success();
  }

  bool dropped;
};

struct RaiseDropout : impl::RaiseDropoutBase<RaiseDropout> {
  using RaiseDropoutBase::RaiseDropoutBase;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RaiseMask<nn::CastOp>, RaiseMask<nn::FloorOp>>(
        &getContext(), dropout != DropoutMode::Off);
    if (failed(rewriteInPlace(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace shardonnx
