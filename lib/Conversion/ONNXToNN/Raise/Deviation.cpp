// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds standard deviations that the exporter has written out.

#include "../Lower/Rearrange.h"
#include "Match.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NN.h"

using namespace mlir;

namespace shardonnx {

#define GEN_PASS_DEF_RAISEDEVIATION
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

namespace {

/// What is summed or averaged, by whatever factor; null for others.
Value matchSumOf(Value value) {
  double scale = 1;
  value = stripScale(stripCasts(value), scale);
  if (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
    value = stripScale(reshape.getOperand(), scale);
  if (auto mean = value.getDefiningOp<nn::ReduceMeanOp>())
    return mean.getOperand();
  auto sum = value.getDefiningOp<nn::ReduceSumOp>();
  return sum ? sum.getOperand() : Value();
}

/// Whether it is the sum of (x - mean(x))², by whatever factor.
bool isVariance(Value value) {
  Value squares = matchSumOf(value);
  Value centered = squares ? matchSquare(stripCasts(squares)) : Value();
  auto sub =
      centered ? stripCasts(centered).getDefiningOp<nn::SubOp>() : nn::SubOp();
  return sub && matchSumOf(sub.getRhs()) == sub.getLhs();
}

struct SafeDeviation : OpRewritePattern<nn::SqrtOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::SqrtOp op,
                                PatternRewriter &rewriter) const override {
    Value variance = op.getOperand();
    if (!elementType(variance).isF32() || !isVariance(variance))
      return failure();
    nn::NNBuilder builder(rewriter, op.getLoc());
    rewriter.replaceOp(op, safeSqrt(builder, variance));
    return success();
  }
};

struct RaiseDeviation : impl::RaiseDeviationBase<RaiseDeviation> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<SafeDeviation>(&getContext());
    if (failed(rewriteInPlace(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

} // namespace shardonnx
