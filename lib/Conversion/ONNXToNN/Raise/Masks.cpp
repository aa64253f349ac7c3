// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Masks that depend on data, as padding does: what a mask repeats is computed
// once, and its causal part becomes an attribute of attention.

#include "../Lower/CausalMask.h"
#include "MaskFlags.h"
#include "mlir/IR/Matchers.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NN.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {

#define GEN_PASS_DEF_RAISEMASKS
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

namespace {

/// Broadcasts move behind ops on booleans, and behind ops all of whose operands
/// are repeated or constant: these then compute each value once.
struct SinkBroadcast : OpInterfaceRewritePattern<nn::ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(nn::ElementwiseOpInterface interface,
                                PatternRewriter &rewriter) const override {
    Operation *op = interface;
    if (op->getNumResults() != 1)
      return failure();
    bool flags = elementType(op->getResult(0)).isInteger(1);
    SmallVector<Value> operands;
    bool repeats = false;
    for (Value operand : op->getOperands()) {
      auto broadcast = operand.getDefiningOp<nn::BroadcastOp>();
      if (!flags && !broadcast && !matchPattern(operand, m_Constant()))
        return failure();
      operands.push_back(broadcast ? broadcast.getOperand() : operand);
      repeats |= static_cast<bool>(broadcast);
    }
    if (!repeats)
      return failure();
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(operands);
    state.addAttributes(op->getAttrs());
    state.addTypes(type.clone(joinShapes(operands)));
    Value small = rewriter.create(state)->getResult(0);
    if (small.getType() == type)
      rewriter.replaceOp(op, small);
    else
      rewriter.replaceOpWithNewOp<nn::BroadcastOp>(op, type, small);
    return success();
  }
};

/// x ∧ true is x.
struct FoldTrue : OpRewritePattern<nn::AndOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AndOp op,
                                PatternRewriter &rewriter) const override {
    if (!elementType(op.getResult()).isInteger(1))
      return failure();
    auto isTrue = [](Value value) {
      DenseElementsAttr attr;
      return matchPattern(value, m_Constant(&attr)) && attr.isSplat() &&
             attr.getSplatValue<bool>();
    };
    Value other = isTrue(op.getRhs())   ? op.getLhs()
                  : isTrue(op.getLhs()) ? op.getRhs()
                                        : Value();
    if (!other)
      return failure();
    if (other.getType() == op.getType())
      rewriter.replaceOp(op, other);
    else
      rewriter.replaceOpWithNewOp<nn::BroadcastOp>(op, op.getType(), other);
    return success();
  }
};

/// Attention repeats its mask by itself.
struct FoldMaskBroadcast : OpRewritePattern<nn::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AttentionOp op,
                                PatternRewriter &rewriter) const override {
    auto broadcast = op.getMask()
                         ? op.getMask().getDefiningOp<nn::BroadcastOp>()
                         : nn::BroadcastOp();
    if (!broadcast)
      return failure();
    SmallVector<int64_t> shape(shapeOf(broadcast.getOperand()));
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    Value mask = nn::NNBuilder(rewriter, op.getLoc())
                     .reshape(broadcast.getOperand(), shape);
    rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().assign(mask); });
    return success();
  }
};

/// Numbers to add become booleans; what hides is said once. Beside a causal
/// mask they are another one's, unless both hide by -inf.
struct ReadNumbersAsFlags : OpRewritePattern<nn::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Value mask = op.getMask();
    if (!mask || !elementType(mask).isF32() || op.getHidden().isNonZero())
      return failure();
    std::optional<double> number = matchHidingNumber(mask);
    bool finite = number && std::isfinite(*number);
    if (!number || (finite && op.getCausal()))
      return failure();
    Value flags = buildFlags(mask, rewriter, op.getLoc());
    rewriter.modifyOpInPlace(op, [&] {
      op.getMaskMutable().assign(flags);
      if (!finite || op.getSink())
        return;
      op.setUnguarded(false);
      op.setHidden(APFloat(static_cast<float>(*number)));
      op.setAdded(true);
    });
    return success();
  }
};

/// The booleans whose conjunction `mask` is.
void collectTerms(Value mask, SmallVectorImpl<Value> &terms) {
  auto both = mask.getDefiningOp<nn::AndOp>();
  if (!both || matchCausalMask(mask)) {
    terms.push_back(mask);
    return;
  }
  collectTerms(both.getLhs(), terms);
  collectTerms(both.getRhs(), terms);
}

/// causal ∧ rest: the first becomes an attribute, the rest stays.
struct SplitCausalMask : OpRewritePattern<nn::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Value flags = op.getMask();
    if (!flags || !elementType(flags).isInteger(1) || op.getCausal() ||
        op.getWindow() != 0)
      return failure();
    SmallVector<Value> terms;
    collectTerms(flags, terms);
    std::optional<CausalMask> causal;
    for (Value &term : terms) {
      causal = matchCausalMask(term);
      if (causal && causal->rows == shapeOf(op.getQuery())[1] &&
          causal->columns == shapeOf(op.getKey())[1]) {
        terms.erase(&term);
        break;
      }
      causal.reset();
    }
    if (!causal || terms.empty())
      return failure();
    Value rest = joinFlags(terms, rewriter, op.getLoc());
    SmallVector<int64_t> shape(shapeOf(rest));
    shape.insert(shape.begin(), 4 - shape.size(), 1);
    rest = nn::NNBuilder(rewriter, op.getLoc()).reshape(rest, shape);
    rewriter.modifyOpInPlace(op, [&] {
      op.getMaskMutable().assign(rest);
      op.setCausal(true);
      op.setWindow(causal->window);
    });
    return success();
  }
};

struct RaiseMasks : impl::RaiseMasksBase<RaiseMasks> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FoldMaskBroadcast, FoldTrue, ReadNumbersAsFlags, SinkBroadcast,
                 SplitCausalMask>(&getContext());
    if (failed(rewriteInPlace(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace shardonnx
