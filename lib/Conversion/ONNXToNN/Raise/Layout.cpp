// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Takes away what exporters add around matrix products: transposes that a
// product can do itself, and batches merged with heads or only to transpose a
// matrix.

#include "Match.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NN.h"

using namespace mlir;

namespace shardonnx {

#define GEN_PASS_DEF_RAISELAYOUT
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

namespace {

/// Whether a permutation swaps the last two axes and no others.
bool swapsLastTwo(ArrayRef<int64_t> permutation) {
  int64_t rank = static_cast<int64_t>(permutation.size());
  if (rank < 2 || permutation[rank - 1] != rank - 2 ||
      permutation[rank - 2] != rank - 1)
    return false;
  for (int64_t i = 0; i < rank - 2; ++i)
    if (permutation[i] != i)
      return false;
  return true;
}

/// A matrix transposed while its batch axes are merged, split again after: the
/// split can as well come first, where it meets what merged them.
struct UnmergeTranspose : OpRewritePattern<nn::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto transpose = op.getOperand().getDefiningOp<nn::TransposeOp>();
    if (!transpose || !swapsLastTwo(transpose.getPermutation()))
      return failure();
    ArrayRef<int64_t> to = shapeOf(op.getResult());
    size_t rank = to.size();
    if (rank <= transpose.getPermutation().size() ||
        to.take_back(2) != shapeOf(transpose.getResult()).take_back(2))
      return failure();
    SmallVector<int64_t> shape(to), permutation(rank);
    std::swap(shape[rank - 1], shape[rank - 2]);
    for (size_t i = 0; i < rank; ++i)
      permutation[i] = static_cast<int64_t>(i);
    std::swap(permutation[rank - 1], permutation[rank - 2]);
    Value split = nn::NNBuilder(rewriter, op.getLoc())
                      .reshape(transpose.getOperand(), shape);
    rewriter.replaceOpWithNewOp<nn::TransposeOp>(
        op, op.getType(), split, rewriter.getDenseI64ArrayAttr(permutation));
    return success();
  }
};

/// A product reads a transposed matrix as well as any other.
struct FoldTransposeIntoMatmul : OpRewritePattern<nn::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::MatmulOp op,
                                PatternRewriter &rewriter) const override {
    auto lhs = op.getLhs().getDefiningOp<nn::TransposeOp>();
    auto rhs = op.getRhs().getDefiningOp<nn::TransposeOp>();
    bool foldLhs = lhs && swapsLastTwo(lhs.getPermutation());
    bool foldRhs = rhs && swapsLastTwo(rhs.getPermutation());
    if (!foldLhs && !foldRhs)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      if (foldLhs) {
        op.getLhsMutable().assign(lhs.getOperand());
        op.setTransposeLhs(!op.getTransposeLhs());
      }
      if (foldRhs) {
        op.getRhsMutable().assign(rhs.getOperand());
        op.setTransposeRhs(!op.getTransposeRhs());
      }
    });
    return success();
  }
};

/// 1/x as a division is a reciprocal, and 1/sqrt(x) one op.
struct RaiseReciprocal : OpRewritePattern<nn::DivOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::DivOp op,
                                PatternRewriter &rewriter) const override {
    if (!isSplatOf(op.getLhs(), 1) || op.getRhs().getType() != op.getType())
      return failure();
    rewriter.replaceOpWithNewOp<nn::ReciprocalOp>(op, op.getType(),
                                                  op.getRhs());
    return success();
  }
};

struct RaiseRsqrt : OpRewritePattern<nn::ReciprocalOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::ReciprocalOp op,
                                PatternRewriter &rewriter) const override {
    auto sqrt = op.getOperand().getDefiningOp<nn::SqrtOp>();
    if (!sqrt)
      return failure();
    rewriter.replaceOpWithNewOp<nn::RsqrtOp>(op, op.getType(),
                                             sqrt.getOperand());
    return success();
  }
};

/// The [batch, heads, …] behind [batch·heads, …] of rank 3, or null.
Value beforeMerge(Value value) {
  auto merge = value.getDefiningOp<nn::ReshapeOp>();
  if (!merge || shapeOf(value).size() != 3)
    return {};
  ArrayRef<int64_t> from = shapeOf(merge.getOperand());
  if (from.size() != 4 || from.take_back(2) != shapeOf(value).take_back(2))
    return {};
  return merge.getOperand();
}

RankedTensorType withLeading(Value value, ArrayRef<int64_t> leading) {
  SmallVector<int64_t> shape(leading);
  llvm::append_range(shape, shapeOf(value).take_back(2));
  return RankedTensorType::get(shape, elementType(value));
}

/// A product of batches and heads that were merged (torch.bmm and baddbmm) is
/// one of batches and heads, merged afterwards.
struct MergeAfterMatmul : OpRewritePattern<nn::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::MatmulOp op,
                                PatternRewriter &rewriter) const override {
    Value lhs = beforeMerge(op.getLhs()), rhs = beforeMerge(op.getRhs());
    if (!lhs || !rhs ||
        shapeOf(lhs).take_front(2) != shapeOf(rhs).take_front(2))
      return failure();
    auto product = cast<nn::MatmulOp>(rewriter.clone(*op));
    rewriter.modifyOpInPlace(product, [&] {
      product.getLhsMutable().assign(lhs);
      product.getRhsMutable().assign(rhs);
      product.getResult().setType(
          withLeading(op.getResult(), shapeOf(lhs).take_front(2)));
    });
    rewriter.replaceOpWithNewOp<nn::ReshapeOp>(op, op.getType(),
                                               product.getResult());
    return success();
  }
};

/// What is done to merged scores, a factor or a bias such as ALiBi's, is done
/// before they are merged.
template <typename Op> struct MergeAfterScores : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    bool left = static_cast<bool>(scoresBehind(op.getLhs()));
    Value scores = scoresBehind(left ? op.getLhs() : op.getRhs());
    Value other = left ? op.getRhs() : op.getLhs();
    if (!scores ||
        shapeOf(left ? op.getLhs() : op.getRhs()) != shapeOf(op.getResult()))
      return failure();
    ArrayRef<int64_t> leading = shapeOf(scores).take_front(2);
    ArrayRef<int64_t> shape = shapeOf(other);
    if (shape.size() == 3 && shape[0] == leading[0] * leading[1])
      other = nn::NNBuilder(rewriter, op.getLoc())
                  .reshape(other, withLeading(other, leading).getShape());
    else if (!shape.empty() && !(shape.size() == 3 && shape[0] == 1))
      return failure();
    auto result =
        Op::create(rewriter, op.getLoc(), withLeading(op.getResult(), leading),
                   left ? scores : other, left ? other : scores);
    rewriter.replaceOpWithNewOp<nn::ReshapeOp>(op, op.getType(),
                                               result.getResult());
    return success();
  }

  /// Scores of rank 4 behind a merge: a product, and what was done to it.
  static Value scoresBehind(Value value) {
    Value scores = beforeMerge(value);
    return scores && scores.getDefiningOp() &&
                   isa<nn::MatmulOp, nn::AddOp, nn::MulOp>(
                       scores.getDefiningOp())
               ? scores
               : Value();
  }
};

struct RaiseLayout : impl::RaiseLayoutBase<RaiseLayout> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FoldTransposeIntoMatmul, MergeAfterMatmul,
                 MergeAfterScores<nn::AddOp>, MergeAfterScores<nn::MulOp>,
                 RaiseReciprocal, RaiseRsqrt, UnmergeTranspose>(&getContext());
    if (failed(rewriteInPlace(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace shardonnx
