// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds GELU, SiLU and the logarithms of a sigmoid and of a sum of two
// exponentials that the exporter has written out.

#include "Angle.h"
#include "Match.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"

#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {

#define GEN_PASS_DEF_RAISEACTIVATION
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

namespace {

/// Whether `number` is `expected` to the precision of a constant of `type`.
bool isNear(double number, double expected, Type type) {
  double tolerance = type.isBF16() ? 2e-2 : type.isF16() ? 2e-3 : 1e-5;
  return std::fabs(number - expected) <= tolerance * std::fabs(expected);
}

/// Matches sqrt(2/π)·(x + 0.044715·x³), the argument of GELU's tanh.
Value matchTanhArgument(Value value) {
  double outer = 1;
  Type type = elementType(value);
  Value sum = stripScale(value, outer);
  auto add = sum.getDefiningOp<nn::AddOp>();
  if (!add || !isNear(outer, std::sqrt(2 / M_PI), type))
    return {};
  auto match = [&](Value x, Value rest) {
    double inner = 1;
    Value cube = stripScale(rest, inner);
    return isNear(inner, 0.044715, type) && isCube(cube, x);
  };
  if (match(add.getLhs(), add.getRhs()))
    return add.getLhs();
  if (match(add.getRhs(), add.getLhs()))
    return add.getRhs();
  return {};
}

/// The x of 1 + tanh(…) or 1 + erf(x/√2), and which of them it is.
Value matchGate(Value value, bool &isTanh) {
  auto sum = matchWithSplat<nn::AddOp>(value);
  if (!sum || !isNear(sum->second, 1, elementType(value)))
    return {};
  if (auto tanh = sum->first.getDefiningOp<nn::TanhOp>()) {
    isTanh = true;
    return matchTanhArgument(tanh.getOperand());
  }
  auto erf = sum->first.getDefiningOp<nn::ErfOp>();
  double scale = 1;
  Value x = erf ? stripScale(erf.getOperand(), scale) : Value();
  isTanh = false;
  return x && isNear(scale, M_SQRT1_2, elementType(value)) ? x : Value();
}

/// The factors of a product, down to `x`; numbers are multiplied together.
void collectFactors(Value value, Value x, double &scale,
                    SmallVectorImpl<Value> &factors, unsigned depth = 0) {
  if (value != x && depth < 3) {
    if (auto product = matchWithSplat<nn::MulOp>(value)) {
      scale *= product->second;
      return collectFactors(product->first, x, scale, factors, depth + 1);
    }
    if (auto mul = value.getDefiningOp<nn::MulOp>()) {
      collectFactors(mul.getLhs(), x, scale, factors, depth + 1);
      return collectFactors(mul.getRhs(), x, scale, factors, depth + 1);
    }
  }
  factors.push_back(value);
}

/// Any order of 0.5·x·(1 + …).
struct RaiseGelu : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::MulOp op,
                                PatternRewriter &rewriter) const override {
    SmallVector<Value> factors;
    double scale = 1;
    collectFactors(op.getResult(), Value(), scale, factors);
    for (Value gate : factors) {
      bool isTanh = false;
      Value x = matchGate(gate, isTanh);
      if (!x)
        continue;
      SmallVector<Value> rest;
      double half = 1;
      collectFactors(op.getResult(), x, half, rest);
      if (rest.size() != 2 || !llvm::is_contained(rest, gate) ||
          !llvm::is_contained(rest, x) || !isNear(half, 0.5, elementType(x)) ||
          x.getType() != op.getType())
        continue;
      rewriter.replaceOpWithNewOp<nn::GeluOp>(op, op.getType(), x, isTanh);
      return success();
    }
    return failure();
  }
};

/// x·sigmoid(x)
struct RaiseSilu : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::MulOp op,
                                PatternRewriter &rewriter) const override {
    auto match = [&](Value x, Value gate) {
      auto sigmoid = gate.getDefiningOp<nn::SigmoidOp>();
      return sigmoid && sigmoid.getOperand() == x;
    };
    Value x;
    if (match(op.getLhs(), op.getRhs()))
      x = op.getLhs();
    else if (match(op.getRhs(), op.getLhs()))
      x = op.getRhs();
    if (!x)
      return failure();
    rewriter.replaceOpWithNewOp<nn::SiluOp>(op, op.getType(), x);
    return success();
  }
};

/// log(sigmoid(x)), as exporters write torch's logsigmoid: below -88 f32 has no
/// such sigmoid, above 17 it is 1. -softplus(-x) has all of them. The older
/// exporter's binary cross-entropy of logits also has log(1 - sigmoid(x)),
/// which is -softplus(x).
struct RaiseLogSigmoid : OpRewritePattern<nn::LogOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::LogOp op,
                                PatternRewriter &rewriter) const override {
    Value inner = op.getOperand();
    auto rest = inner.getDefiningOp<nn::SubOp>();
    if (rest && isSplatOf(rest.getLhs(), 1))
      inner = rest.getRhs();
    else
      rest = {};
    auto sigmoid = inner.getDefiningOp<nn::SigmoidOp>();
    if (!sigmoid || inner.getType() != op.getType())
      return failure();
    nn::NNBuilder b(rewriter, op.getLoc());
    Value x = sigmoid.getOperand();
    Value soft = b.unary<nn::SoftplusOp>(rest ? x : b.unary<nn::NegOp>(x));
    rewriter.replaceOp(op, b.unary<nn::NegOp>(soft));
    return success();
  }
};

/// The x of exp(x), which exporters fold where x is constant.
Value matchExponent(nn::NNBuilder &b, Value value) {
  if (auto exp = value.getDefiningOp<nn::ExpOp>())
    return exp.getOperand();
  // What is 0 or infinite may be of any exponent beyond those of f32.
  DenseElementsAttr numbers;
  if (!elementType(value).isF32() ||
      !matchPattern(value, m_Constant(&numbers)) ||
      llvm::any_of(numbers.getValues<float>(),
                   [](float c) { return !(c > 0) || std::isinf(c); }))
    return {};
  auto logarithm = [](const APFloat &c) {
    return APFloat(std::log(c.convertToFloat())).bitcastToAPInt();
  };
  return nn::ConstantOp::create(
      b.builder, b.loc, numbers.getType(),
      numbers.mapValues(numbers.getElementType(), logarithm));
}

/// log(exp(a) + exp(b)), as exporters write torch.logaddexp: f32 has no
/// exponentials above 88, and takes those below -103 for 0. The same holds
/// for log(exp(a) + 1), which is softplus, and other positive numbers.
struct RaiseLogAddExp : OpRewritePattern<nn::LogOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::LogOp op,
                                PatternRewriter &rewriter) const override {
    auto sum = op.getOperand().getDefiningOp<nn::AddOp>();
    if (!sum || (!sum.getLhs().getDefiningOp<nn::ExpOp>() &&
                 !sum.getRhs().getDefiningOp<nn::ExpOp>()))
      return failure();
    nn::NNBuilder b(rewriter, op.getLoc());
    Value x = matchExponent(b, sum.getLhs()),
          y = matchExponent(b, sum.getRhs());
    if (!x || !y)
      return failure();
    // Of equal infinities the difference would not be a number.
    Value same = b.compare(nn::ComparePredicate::eq, x, y);
    Value difference =
        b.select(same, b.constant(0, elementType(x)), b.sub(x, y));
    Value distance = b.unary<nn::AbsOp>(difference);
    rewriter.replaceOp(
        op, b.add(b.binary<nn::MaxOp>(x, y),
                  b.unary<nn::SoftplusOp>(b.unary<nn::NegOp>(distance))));
    return success();
  }
};

struct RaiseActivation : impl::RaiseActivationBase<RaiseActivation> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RaiseGelu, RaiseSilu, RaiseLogSigmoid, RaiseLogAddExp>(
        &getContext());
    addAnglePatterns(patterns);
    if (failed(rewriteInPlace(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace shardonnx
