// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds RMS and layer normalisation that the exporter has written out.

#include "Match.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NN.h"

using namespace mlir;

namespace shardonnx {

#define GEN_PASS_DEF_RAISENORM
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

namespace {

/// The x of mean(x) over the last axis, kept as size 1.
Value matchRowMean(Value value) {
  auto mean = value.getDefiningOp<nn::ReduceMeanOp>();
  int64_t last = mean ? rankOf(mean.getOperand()) - 1 : 0;
  if (!mean || !mean.getKeepdims() || mean.getAxes().size() != 1 ||
      mean.getAxes()[0] != last)
    return {};
  return mean.getOperand();
}

/// What the square root is taken of in 1/sqrt(…), or null.
Value matchInverseRoot(Value value) {
  value = stripCasts(value);
  if (auto rsqrt = value.getDefiningOp<nn::RsqrtOp>())
    return rsqrt.getOperand();
  if (auto pow = value.getDefiningOp<nn::PowOp>())
    return isSplatOf(pow.getRhs(), -0.5) ? Value(pow.getLhs()) : Value();
  auto reciprocal = value.getDefiningOp<nn::ReciprocalOp>();
  auto sqrt = reciprocal ? reciprocal.getOperand().getDefiningOp<nn::SqrtOp>()
                         : nn::SqrtOp();
  return sqrt ? sqrt.getOperand() : Value();
}

/// Whether `value` is mean(x²) + epsilon. Exporters drop a small epsilon.
bool isMeanSquare(Value value, Value x, double &epsilon) {
  auto sum = matchWithSplat<nn::AddOp>(value);
  Value squares = matchRowMean(sum ? sum->first : value);
  Value operand = squares ? matchSquare(squares) : Value();
  epsilon = sum ? sum->second : 0;
  return operand && stripCasts(operand) == stripCasts(x);
}

/// Matches x·1/sqrt(mean(x²) + epsilon), the core of both norms.
bool matchNormalized(Value value, Value &x, double &epsilon) {
  if (auto mul = value.getDefiningOp<nn::MulOp>())
    for (bool first : {true, false}) {
      Value inside = matchInverseRoot(first ? mul.getRhs() : mul.getLhs());
      x = first ? mul.getLhs() : mul.getRhs();
      if (inside && isMeanSquare(inside, x, epsilon))
        return true;
    }
  auto div = value.getDefiningOp<nn::DivOp>();
  auto sqrt =
      div ? stripCasts(div.getRhs()).getDefiningOp<nn::SqrtOp>() : nn::SqrtOp();
  if (!sqrt)
    return false;
  x = div.getLhs();
  return isMeanSquare(sqrt.getOperand(), x, epsilon);
}

/// The x of x - mean(x), or null.
Value matchCentered(Value value) {
  auto sub = value.getDefiningOp<nn::SubOp>();
  if (!sub || matchRowMean(sub.getRhs()) != sub.getLhs())
    return {};
  return sub.getLhs();
}

/// One number for each element of a row.
bool isRowVector(Value value, int64_t width) {
  ArrayRef<int64_t> shape = shapeOf(value);
  return !shape.empty() && shape.back() == width &&
         cast<RankedTensorType>(value.getType()).getNumElements() == width;
}

Type rowType(OpBuilder &builder, Value value) {
  SmallVector<int64_t> shape(shapeOf(value));
  shape.back() = 1;
  return RankedTensorType::get(shape, builder.getF32Type());
}

/// The norm of x, which is centred or not, with a scale of one row.
Value buildNorm(OpBuilder &builder, Location loc, Value x, Value weight,
                double epsilon, Type resultElement) {
  Value centered = matchCentered(stripCasts(x));
  Value operand = stripCasts(centered ? centered : x);
  weight = nn::NNBuilder(builder, loc).cast(weight, elementType(operand));
  FloatAttr eps = builder.getF32FloatAttr(static_cast<float>(epsilon));
  Type row = rowType(builder, operand);
  Value result;
  if (centered)
    result = nn::LayerNormOp::create(builder, loc,
                                     TypeRange{operand.getType(), row, row},
                                     operand, weight, Value(), eps)
                 .getResult();
  else
    result =
        nn::RmsNormOp::create(builder, loc, TypeRange{operand.getType(), row},
                              operand, weight, eps)
            .getResult();
  return nn::NNBuilder(builder, loc).cast(result, resultElement);
}

/// normalized·weight becomes rms_norm, or layer_norm when it was centred.
struct RaiseScaledNorm : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::MulOp op,
                                PatternRewriter &rewriter) const override {
    return success(succeeded(raise(op, op.getLhs(), op.getRhs(), rewriter)) ||
                   succeeded(raise(op, op.getRhs(), op.getLhs(), rewriter)));
  }

  LogicalResult raise(nn::MulOp op, Value normalized, Value weight,
                      PatternRewriter &rewriter) const {
    Value x;
    double epsilon = 0;
    if (!matchNormalized(stripCasts(normalized), x, epsilon))
      return failure();
    int64_t width = shapeOf(x).back();
    if (!isRowVector(weight, width) ||
        shapeOf(op.getResult()) != shapeOf(normalized))
      return failure();
    Value vector =
        nn::NNBuilder(rewriter, op.getLoc()).reshape(weight, {width});
    rewriter.replaceOp(op, buildNorm(rewriter, op.getLoc(), x, vector, epsilon,
                                     elementType(op.getResult())));
    return success();
  }
};

/// A norm whose scale differs between rows (one for each head) or is missing:
/// a norm with a scale of ones. Comes after all others were found.
template <typename Op> struct RaiseBareNorm : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    Value x;
    double epsilon = 0;
    if (!matchNormalized(op.getResult(), x, epsilon) ||
        shapeOf(x) != shapeOf(op.getResult()))
      return failure();
    Type type = elementType(op.getResult());
    auto one =
        DenseElementsAttr::get(RankedTensorType::get({shapeOf(x).back()}, type),
                               rewriter.getFloatAttr(type, 1));
    Value ones = nn::ConstantOp::create(rewriter, op.getLoc(), one);
    rewriter.replaceOp(
        op, buildNorm(rewriter, op.getLoc(), x, ones, epsilon, type));
    return success();
  }
};

/// rms_norm of x - mean(x), as the exporter's own rewriting has it.
struct CenteredRmsNorm : OpRewritePattern<nn::RmsNormOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::RmsNormOp op,
                                PatternRewriter &rewriter) const override {
    if (!matchCentered(stripCasts(op.getOperand())) ||
        !op.getRstd().use_empty())
      return failure();
    Value norm = buildNorm(rewriter, op.getLoc(), op.getOperand(),
                           op.getWeight(), op.getEpsilon().convertToFloat(),
                           elementType(op.getResult()));
    rewriter.replaceAllUsesWith(op.getResult(), norm);
    rewriter.eraseOp(op);
    return success();
  }
};

/// layer_norm without bias, then a row added to it.
struct FoldBiasIntoNorm : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AddOp op,
                                PatternRewriter &rewriter) const override {
    auto norm = op.getLhs().getDefiningOp<nn::LayerNormOp>();
    Value bias = op.getRhs();
    if (!norm) {
      norm = op.getRhs().getDefiningOp<nn::LayerNormOp>();
      bias = op.getLhs();
    }
    if (!norm || norm.getBias() || !norm.getResult().hasOneUse() ||
        !isRowVector(bias, shapeOf(norm.getOperand()).back()) ||
        op.getType() != norm.getResult().getType())
      return failure();
    int64_t width = shapeOf(bias).back();
    Value vector = nn::NNBuilder(rewriter, op.getLoc()).reshape(bias, {width});
    auto biased = nn::LayerNormOp::create(
        rewriter, op.getLoc(), norm->getResultTypes(), norm.getOperand(),
        norm.getWeight(), vector, norm.getEpsilonAttr());
    rewriter.replaceOp(op, biased.getResult());
    return success();
  }
};

struct RaiseNorm : impl::RaiseNormBase<RaiseNorm> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<CenteredRmsNorm, FoldBiasIntoNorm, RaiseScaledNorm>(
        &getContext());
    RewritePatternSet rest(&getContext());
    rest.add<RaiseBareNorm<nn::MulOp>, RaiseBareNorm<nn::DivOp>>(&getContext());
    if (failed(rewriteInPlace(getOperation(), std::move(patterns))) ||
        failed(rewriteInPlace(getOperation(), std::move(rest))))
      signalPassFailure();
  }
};

} // namespace
} // namespace shardonnx
