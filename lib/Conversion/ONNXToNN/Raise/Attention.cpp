// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds attention that the exporter has written out as two products around a
// softmax, and simplifies attention: masks that are causal become an attribute,
// key and value heads that were repeated are read once.

#include "../Lower/CausalMask.h"
#include "MaskFlags.h"
#include "Scores.h"
#include "mlir/IR/Matchers.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NN.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace shardonnx {

#define GEN_PASS_DEF_RAISEATTENTION
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

namespace {

/// A condition that holds nowhere.
bool isNever(Value condition) {
  DenseElementsAttr attr;
  return matchPattern(condition, m_Constant(&attr)) &&
         attr.getElementType().isInteger(1) && attr.isSplat() &&
         !attr.getSplatValue<bool>();
}

bool isMinusInfinity(Value value) {
  std::optional<double> splat = matchSplat(value);
  return splat && *splat == -std::numeric_limits<double>::infinity();
}

/// Whether a condition holds only for rows of `weights`, a softmax, that see
/// no key: their weights are no numbers, or their largest score is -inf.
bool holdsForEmptyRows(Value condition, Value weights) {
  if (isNever(condition))
    return true;
  auto compare = condition.getDefiningOp<nn::CompareOp>();
  if (!compare)
    return false;
  if (compare.getPredicate() == nn::ComparePredicate::ne)
    return compare.getLhs() == compare.getRhs() && compare.getLhs() == weights;
  auto softmax = stripCasts(weights).getDefiningOp<nn::SoftmaxOp>();
  auto largest = stripCasts(compare.getLhs()).getDefiningOp<nn::ReduceMaxOp>();
  return compare.getPredicate() == nn::ComparePredicate::eq && softmax &&
         largest && isMinusInfinity(compare.getRhs()) &&
         stripCasts(largest.getOperand()) == stripCasts(softmax.getOperand());
}

/// The value behind `select(empty, 0, p)`, the guard of rows that see nothing.
Value stripEmptyRowGuard(Value value, bool &guarded) {
  auto select = value.getDefiningOp<nn::SelectOp>();
  if (!select || !isSplatOf(select.getTrueValue(), 0) ||
      select.getFalseValue().getType() != select.getType() ||
      !holdsForEmptyRows(select.getCondition(), select.getFalseValue()))
    return value;
  guarded = !isNever(select.getCondition());
  return select.getFalseValue();
}

/// Several masks as one: beside numbers to add, booleans become such, `hidden`
/// where they are false.
Value joinMasks(ArrayRef<Mask> masks, float hidden, PatternRewriter &rewriter,
                Location loc) {
  if (masks.empty())
    return {};
  auto toRank4 = [&](Value mask) {
    SmallVector<int64_t> shape(shapeOf(mask));
    while (shape.size() < 4)
      shape.insert(shape.begin(), 1);
    return nn::NNBuilder(rewriter, loc).reshape(mask, shape);
  };
  if (llvm::all_of(masks, isCondition)) {
    auto values = llvm::map_to_vector(masks, [](auto &m) { return m.value; });
    return toRank4(joinFlags(values, rewriter, loc));
  }
  Type f32 = rewriter.getF32Type();
  auto number = [&](float value) -> Value {
    return nn::ConstantOp::create(
        rewriter, loc,
        DenseElementsAttr::get(RankedTensorType::get({}, f32), value));
  };
  auto scaled = [&](Value term, double scale) -> Value {
    if (scale == 1)
      return term;
    return nn::MulOp::create(rewriter, loc, term.getType(), term,
                             number(static_cast<float>(scale)));
  };
  Value sum;
  for (const Mask &mask : masks) {
    Value term = toRank4(mask.value);
    if (elementType(term).isInteger(1))
      term = nn::SelectOp::create(rewriter, loc,
                                  RankedTensorType::get(shapeOf(term), f32),
                                  term, number(0), number(hidden));
    else
      term = scaled(nn::NNBuilder(rewriter, loc).cast(term, f32), mask.scale);
    if (!sum) {
      sum = term;
      continue;
    }
    SmallVector<int64_t> shape;
    for (auto [a, b] : llvm::zip(shapeOf(sum), shapeOf(term)))
      shape.push_back(std::max(a, b));
    sum = nn::AddOp::create(rewriter, loc, RankedTensorType::get(shape, f32),
                            sum, term);
  }
  return sum;
}

/// The causal mask behind a boolean, or behind numbers that hide by their size,
/// which `number` then says.
std::optional<CausalMask> readCausalMask(const Mask &added,
                                         std::optional<double> &number) {
  Value mask = added.value;
  if (elementType(mask).isInteger(1))
    return matchCausalMask(mask);
  while (Operation *op = mask.getDefiningOp()) {
    if (!isa<nn::ReshapeOp, nn::CastOp, nn::BroadcastOp>(op))
      break;
    mask = op->getOperand(0);
  }
  auto select = mask.getDefiningOp<nn::SelectOp>();
  if (!select || !isSplatOf(select.getTrueValue(), 0))
    return std::nullopt;
  std::optional<double> hidden = matchSplat(select.getFalseValue());
  if (!hidden || *hidden * added.scale > kHiddenScore)
    return std::nullopt;
  number = *hidden * added.scale;
  return matchCausalMask(select.getCondition());
}

/// Takes one causal mask of `rows` × `columns` out of the masks.
std::optional<CausalMask> takeCausalMask(Scores &scores, int64_t rows,
                                         int64_t columns) {
  for (Mask &mask : scores.masks) {
    std::optional<double> number;
    std::optional<CausalMask> causal = readCausalMask(mask, number);
    if (!causal || causal->rows != rows || causal->columns != columns)
      continue;
    if (number) {
      scores.hidden = number;
      scores.added = true;
    }
    scores.masks.erase(&mask);
    return causal;
  }
  return std::nullopt;
}

/// Beside what is added to scores, a query of which conditions hide every key
/// by a number has that number everywhere: the mean of all values, and no
/// gradient of scores.
class HiddenQueries {
public:
  /// Of the masks as they stand on the way from the softmax to the product.
  HiddenQueries(const Scores &scores, int64_t rows, int64_t columns) {
    if (!scores.hidesByNumbers() || llvm::all_of(scores.masks, isCondition))
      return;
    for (const Mask &mask : scores.masks) {
      if (!isCondition(mask))
        continue;
      conditions.push_back(mask.value);
      // Behind a causal mask alone there is none.
      std::optional<CausalMask> causal = matchCausalMask(mask.value);
      some |= !causal || causal->rows != rows || causal->columns != columns ||
              rows > columns;
    }
    // What is added behind a condition is added to its number, too.
    addedBehind = !std::is_partitioned(scores.masks.begin(), scores.masks.end(),
                                       isCondition);
  }

  /// Whether there are none, or they can be told from the others; the heads of
  /// values are not shared then.
  bool canBeRestored(int64_t heads, int64_t valueHeads) const {
    return !some || (!addedBehind && (valueHeads == 1 || valueHeads == heads));
  }

  /// `result` [batch, heads, seq, dim], theirs from `values` of such a shape.
  Value restore(Value result, Value values, PatternRewriter &rewriter) const {
    if (!some)
      return result;
    nn::NNBuilder b(rewriter, result.getLoc());
    Value seen = joinFlags(conditions, rewriter, result.getLoc());
    seen = b.rowMax(b.cast(seen, rewriter.getF32Type()));
    seen = b.compare(nn::ComparePredicate::gt, seen, b.constant(0));
    Value mean = nn::ReduceMeanOp::create(rewriter, result.getLoc(),
                                          b.f32(values), ArrayRef<int64_t>{2},
                                          /*keepdims=*/true);
    return b.select(seen, result, b.cast(mean, elementType(result)));
  }

private:
  SmallVector<Value> conditions;
  bool some = false, addedBehind = false;
};

/// Whether every mask broadcasts to the scores that it is added to, of four
/// axes or of three.
bool fitMasks(const Scores &scores, ArrayRef<int64_t> full) {
  return llvm::all_of(scores.masks, [&](const Mask &mask) {
    ArrayRef<int64_t> shape = shapeOf(mask.value);
    if (mask.batched && shape.size() == 3 && shape[0] == full[0] * full[1])
      shape = shape.drop_front();
    else if (mask.batched && shape.size() > 2 &&
             shape.drop_back(2).front() != 1)
      return false;
    return shape.size() <= full.size() &&
           llvm::all_of(llvm::zip(llvm::reverse(shape), llvm::reverse(full)),
                        [](auto dims) {
                          auto [dim, whole] = dims;
                          return dim == 1 || dim == whole;
                        });
  });
}

/// softmax(scale·q·kᵀ + masks)·v
struct RaiseScaledDotProduct : OpRewritePattern<nn::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::MatmulOp op,
                                PatternRewriter &rewriter) const override {
    if (!hasHeads(op.getResult()) || op.getTransposeLhs())
      return failure();
    bool guarded = false;
    std::optional<BatchHeads> merged;
    Value weights =
        stripCasts(stripEmptyRowGuard(stripCasts(op.getLhs()), guarded));
    if (auto reshape = weights.getDefiningOp<nn::ReshapeOp>();
        reshape && isOfBatchHeads(reshape, merged))
      weights = stripCasts(reshape.getOperand());
    std::optional<WeightedScores> weighted = matchWeights(weights);
    if (!weighted)
      return failure();
    std::optional<Scores> scores = matchScores(weighted->scores);
    if (!scores || !hasHeads(scores->product.getResult()))
      return failure();
    if (!scores->batchHeads)
      scores->batchHeads = merged;
    return build(op, *scores, weighted->sink, guarded, rewriter);
  }

  /// [batch, heads, …], or both as one axis.
  static bool hasHeads(Value value) {
    return rankOf(value) == 4 || rankOf(value) == 3;
  }

  /// Batch and heads of a product that has both as one axis: as a reshape says,
  /// else what would be copied least. Queries that come with that axis behind
  /// the sequence (nn.MultiheadAttention) lie as many heads of one sample.
  static BatchHeads batchHeadsOf(nn::MatmulOp product,
                                 std::optional<BatchHeads> said) {
    ArrayRef<int64_t> shape = shapeOf(product.getResult());
    if (shape.size() == 4)
      return {shape[0], shape[1]};
    double scale = 1;
    bool behind = false;
    for (Value operand : product->getOperands()) {
      Operation *source = stripScale(operand, scale).getDefiningOp();
      if (auto reshape = dyn_cast_or_null<nn::ReshapeOp>(source);
          reshape && !said)
        (void)isOfBatchHeads(reshape, said);
      auto transpose = dyn_cast_or_null<nn::TransposeOp>(source);
      behind |= transpose && transpose.getPermutation().front() == 1;
    }
    if (said && said->batch * said->heads == shape[0])
      return *said;
    return behind ? BatchHeads{1, shape[0]} : BatchHeads{shape[0], 1};
  }

  LogicalResult build(nn::MatmulOp op, Scores &scores, Value sink, bool guarded,
                      PatternRewriter &rewriter) const {
    nn::MatmulOp product = scores.product;
    if (!hasHeads(product.getLhs()) || !hasHeads(product.getRhs()) ||
        !hasHeads(op.getRhs()))
      return failure();
    BatchHeads merged = batchHeadsOf(product, scores.batchHeads);
    Heads q = readHeads(product.getLhs(), product.getTransposeLhs(), merged);
    Heads k = readHeads(product.getRhs(), !product.getTransposeRhs(), merged);
    Heads v = readHeads(op.getRhs(), op.getTransposeRhs(), merged);
    if (q.batch() != k.batch() || q.batch() != v.batch() ||
        k.heads() != v.heads() || k.seq() != v.seq() || q.dim() != k.dim() ||
        q.heads() % k.heads() != 0 || !haveAll(q) || !haveAll(k) ||
        !haveAll(v) ||
        !fitMasks(scores, {q.batch(), q.heads(), q.seq(), k.seq()}))
      return failure();
    Location loc = op.getLoc();
    nn::NNBuilder b(rewriter, loc);
    for (Mask &mask : scores.masks)
      if (ArrayRef<int64_t> shape = shapeOf(mask.value);
          mask.batched && shape.size() == 3 && shape[0] != 1)
        mask.value =
            b.reshape(mask.value, {q.batch(), q.heads(), shape[1], shape[2]});
    HiddenQueries hiddenQueries(scores, q.seq(), k.seq());
    // Beside a sink such a query weighs nothing.
    if (!sink && !hiddenQueries.canBeRestored(q.heads(), v.heads()))
      return failure();
    if (sink)
      sink = b.f32(b.reshape(sink, {q.heads()}));
    scores.scale *= q.scale * k.scale;
    Type element = elementType(q.value);
    int64_t width = std::max(k.dim(), v.dim());
    Value query = q.seqFirst(b, element, width);
    std::optional<CausalMask> causal = takeCausalMask(scores, q.seq(), k.seq());
    // Zeros for a query that sees nothing are what a guard makes of it; behind
    // a causal mask alone there is none.
    bool unguarded = !guarded && !sink && !scores.hidesByNumbers();
    bool seesItself = scores.masks.empty() && q.seq() <= k.seq();
    auto number = static_cast<float>(
        scores.hidden.value_or(-std::numeric_limits<double>::infinity()));
    bool hides = std::isfinite(number) && !seesItself && !sink;
    float hidden = hides ? number : 0;
    bool added = hidden != 0 && scores.added;
    Type lse = RankedTensorType::get({q.batch(), q.heads(), q.seq()},
                                     rewriter.getF32Type());
    auto attention = nn::AttentionOp::create(
        rewriter, loc, TypeRange{query.getType(), lse}, query,
        k.seqFirst(b, element, width), v.seqFirst(b, element, width),
        joinMasks(scores.masks, number, rewriter, loc), sink,
        rewriter.getF32FloatAttr(static_cast<float>(scores.scale)),
        causal ? rewriter.getUnitAttr() : UnitAttr(),
        rewriter.getI64IntegerAttr(causal ? causal->window : 0),
        rewriter.getF32FloatAttr(static_cast<float>(scores.softcap)),
        unguarded ? rewriter.getUnitAttr() : UnitAttr(),
        rewriter.getF32FloatAttr(hidden),
        added ? rewriter.getUnitAttr() : UnitAttr());
    Value result =
        b.transpose(narrow(b, attention.getResult(), v.dim()), kSwapHeads);
    result = b.cast(result, elementType(op.getResult()));
    if (!sink)
      result = hiddenQueries.restore(result, v.whole(b), rewriter);
    if (v.scale != 1)
      result = b.mul(result, v.scale);
    rewriter.replaceOp(op, b.reshape(result, shapeOf(op.getResult())));
    return success();
  }

  /// Whether batch and heads are all that stands before the last two axes.
  static bool haveAll(const Heads &heads) {
    ArrayRef<int64_t> shape = shapeOf(heads.value);
    return ShapedType::getNumElements(shape.drop_back(2)) ==
           heads.batch() * heads.heads();
  }
};

/// The broadcast of repeat_kv, reshape(broadcast(reshape(x))) over an axis
/// after the heads; null when `value` repeats nothing.
nn::BroadcastOp matchRepeatedHeads(Value value) {
  auto transpose = value.getDefiningOp<nn::TransposeOp>();
  if (!transpose || transpose.getPermutation() != ArrayRef<int64_t>{0, 2, 1, 3})
    return {};
  auto merge = transpose.getOperand().getDefiningOp<nn::ReshapeOp>();
  auto broadcast = merge ? merge.getOperand().getDefiningOp<nn::BroadcastOp>()
                         : nn::BroadcastOp();
  if (!broadcast)
    return {};
  ArrayRef<int64_t> from = shapeOf(broadcast.getOperand());
  ArrayRef<int64_t> to = shapeOf(broadcast.getResult());
  ArrayRef<int64_t> merged = shapeOf(merge.getResult());
  if (from.size() != 5 || to.size() != 5 || merged.size() != 4 ||
      from[2] != 1 || from[0] != to[0] || from[1] != to[1] ||
      from.drop_front(3) != to.drop_front(3) || merged[0] != to[0] ||
      merged[1] != to[1] * to[2] || merged[2] != to[3])
    return {};
  return broadcast;
}

/// The heads before they were repeated, [batch, seq, heads, dim].
Value distinctHeads(nn::BroadcastOp repeated, PatternRewriter &rewriter) {
  ArrayRef<int64_t> from = shapeOf(repeated.getOperand());
  nn::NNBuilder b(rewriter, repeated.getLoc());
  Value heads =
      b.reshape(repeated.getOperand(), {from[0], from[1], from[3], from[4]});
  return b.transpose(heads, kSwapHeads);
}

struct FoldRepeatedHeads : OpRewritePattern<nn::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AttentionOp op,
                                PatternRewriter &rewriter) const override {
    nn::BroadcastOp key = matchRepeatedHeads(op.getKey());
    nn::BroadcastOp value = matchRepeatedHeads(op.getValue());
    if (!key || !value ||
        shapeOf(key.getOperand()) != shapeOf(value.getOperand()))
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getKeyMutable().assign(distinctHeads(key, rewriter));
      op.getValueMutable().assign(distinctHeads(value, rewriter));
    });
    return success();
  }
};

/// A mask that hides nothing.
bool hidesNothing(Value mask) {
  if (isSplatOf(mask, 0))
    return true;
  DenseElementsAttr attr;
  while (Operation *op = mask.getDefiningOp()) {
    if (!isa<nn::ReshapeOp, nn::BroadcastOp>(op))
      break;
    mask = op->getOperand(0);
  }
  return matchPattern(mask, m_Constant(&attr)) &&
         attr.getElementType().isInteger(1) && attr.isSplat() &&
         attr.getSplatValue<bool>();
}

/// masked_fill (torch) says what to hide: select(hide, -∞, scores). Everything
/// else here reads what to show.
struct ShowInsteadOfHide : OpRewritePattern<nn::SelectOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::SelectOp op,
                                PatternRewriter &rewriter) const override {
    std::optional<double> hidden = matchSplat(op.getTrueValue());
    if (!hidden || *hidden > kHiddenScore || matchSplat(op.getFalseValue()))
      return failure();
    Value show = invertFlags(op.getCondition(), rewriter);
    rewriter.replaceOpWithNewOp<nn::SelectOp>(
        op, op.getType(), show, op.getFalseValue(), op.getTrueValue());
    return success();
  }
};

struct FoldCausalMask : OpRewritePattern<nn::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AttentionOp op,
                                PatternRewriter &rewriter) const override {
    Value mask = op.getMask();
    if (!mask)
      return failure();
    if (hidesNothing(mask)) {
      rewriter.modifyOpInPlace(op, [&] { op.getMaskMutable().clear(); });
      return success();
    }
    std::optional<double> number;
    std::optional<CausalMask> causal = readCausalMask({mask}, number);
    if (!causal || causal->rows != shapeOf(op.getQuery())[1] ||
        causal->columns != shapeOf(op.getKey())[1] || op.getWindow() != 0)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getMaskMutable().clear();
      op.setCausal(true);
      op.setWindow(causal->window);
    });
    return success();
  }
};

/// softmax(x - max(x)), as some write it for safety, is softmax(x).
struct DropRowMax : OpRewritePattern<nn::SoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::SoftmaxOp op,
                                PatternRewriter &rewriter) const override {
    auto sub = op.getOperand().getDefiningOp<nn::SubOp>();
    auto largest =
        sub ? sub.getRhs().getDefiningOp<nn::ReduceMaxOp>() : nn::ReduceMaxOp();
    if (!largest || largest.getOperand() != sub.getLhs() ||
        !largest.getKeepdims() ||
        largest.getAxes() != ArrayRef<int64_t>(rankOf(op.getOperand()) - 1))
      return failure();
    rewriter.modifyOpInPlace(
        op, [&] { op.getOperandMutable().assign(sub.getLhs()); });
    return success();
  }
};

struct RaiseAttention : impl::RaiseAttentionBase<RaiseAttention> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<DropRowMax, FoldCausalMask, FoldRepeatedHeads,
                 ShowInsteadOfHide, RaiseScaledDotProduct>(&getContext());
    if (failed(rewriteInPlace(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace shardonnx
