// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and rotary embedding: shape rules, verifiers, gradients, FLOPs.

#include "AttentionShape.h"
#include "AttentionSink.h"
#include "DefineOps.h"
#include "Evaluate.h"
#include "Shardable.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

NN_INFER(AttentionOp) { return inferAttention(loc, operands, inferred); }

LogicalResult AttentionOp::verify() {
  if (failed(verifyHeads(*this)))
    return failure();
  ArrayRef<int64_t> q = shapeOf(getQuery()), k = shapeOf(getKey());
  if (int64_t(getWindow()) < 0 || getSoftcap().convertToFloat() < 0)
    return emitOpError("window and softcap cannot be negative");
  float hidden = getHidden().convertToFloat();
  if (hidden > 0 || !std::isfinite(hidden))
    return emitOpError("what hides is a negative number, or 0 for -inf");
  if ((getUnguarded() && hidden != 0) || (getAdded() && hidden == 0))
    return emitOpError("unguarded is for -inf, added for another number");
  if (getSink() && hidden != 0)
    return emitOpError(
        "has a sink, beside which what is hidden weighs nothing");
  if (Value mask = getMask()) {
    if (elementType(mask).isInteger(32)) {
      if (shapeOf(mask) != ArrayRef<int64_t>{q[0], 1, q[1], 1})
        return emitOpError("first keys must be [batch, 1, seqQ, 1], not ")
               << mask.getType();
      return success();
    }
    if (!elementType(mask).isInteger(1) && !elementType(mask).isF32())
      return emitOpError("mask must be i1, f32 or i32, not ")
             << elementType(mask);
    if (!broadcastsTo(shapeOf(mask), {q[0], q[2], q[1], k[1]}))
      return emitOpError("mask ")
             << mask.getType() << " does not broadcast to [batch, heads, seqQ, "
             << "seqK] = [" << ArrayRef<int64_t>{q[0], q[2], q[1], k[1]} << "]";
  }
  return success();
}

namespace {
/// The gradient of an added mask (a trainable position bias), written out with
/// the scores in memory: p·(dout·v - delta), p = exp(score + mask - lse), delta
/// = out·dout. Few models train one; the others keep no scores.
class MaskGradient {
public:
  MaskGradient(AttentionOp op, OpBuilder &builder)
      : op(op), b(builder, op.getLoc()), q(shapeOf(op.getQuery())),
        k(shapeOf(op.getKey())) {}

  Value build(Value resultGrad);

private:
  /// [batch, seq, heads, dim] as f32 [batch, kvHeads, heads of each, seq, dim].
  Value byHead(Value value) {
    ArrayRef<int64_t> s = shapeOf(value);
    Value heads = b.transpose(b.f32(value), {0, 2, 1, 3});
    return b.reshape(heads, {s[0], k[2], s[2] / k[2], s[1], s[3]});
  }
  Value product(Value left, Value right) {
    Value full = MatmulOp::create(b.builder, b.loc, left, right, false, true);
    return b.reshape(full, {q[0], q[2], q[1], k[1]});
  }
  Value number(int64_t value) {
    return b.constant(double(value), b.builder.getI32Type());
  }
  /// The index along axis 0 or 1 of [seqQ, seqK].
  Value index(int64_t axis) {
    SmallVector<int64_t> shape = {1, 1};
    shape[axis] = axis == 0 ? q[1] : k[1];
    auto type = RankedTensorType::get(shape, b.builder.getI32Type());
    return IotaOp::create(b.builder, b.loc, type, axis);
  }
  Value hideUnseen(Value probabilities);

  AttentionOp op;
  NNBuilder b;
  ArrayRef<int64_t> q, k;
};
} // namespace

/// What `causal` and `window` hide counts nothing.
Value MaskGradient::hideUnseen(Value probabilities) {
  Value zero = b.constant(0);
  Value end = number(k[1]);
  if (op.getCausal()) {
    end = b.add(index(0), number(1 + k[1] - q[1]));
    Value seen = b.compare(ComparePredicate::lt, index(1), end);
    probabilities = b.select(seen, probabilities, zero);
  }
  if (int64_t window = op.getWindow()) {
    Value begin = b.sub(end, number(window));
    Value seen = b.compare(ComparePredicate::ge, index(1), begin);
    probabilities = b.select(seen, probabilities, zero);
  }
  return probabilities;
}

Value MaskGradient::build(Value resultGrad) {
  SmallVector<int64_t> rows = {q[0], q[2], q[1], 1};
  Value scores = b.mul(product(byHead(op.getQuery()), byHead(op.getKey())),
                       op.getScale().convertToDouble());
  if (double cap = op.getSoftcap().convertToDouble(); cap > 0)
    scores = b.mul(b.unary<TanhOp>(b.mul(scores, 1 / cap)), cap);
  scores = b.add(scores, op.getMask());
  Value lse = b.reshape(op.getLse(), rows);
  Value p = b.unary<ExpOp>(b.sub(scores, lse));
  // A query that sees no key.
  Value none = b.constant(-std::numeric_limits<double>::infinity());
  p = b.select(b.compare(ComparePredicate::eq, lse, none), b.constant(0), p);
  p = hideUnseen(p);
  Value delta = b.rowSum(b.mul(b.f32(op.getResult()), b.f32(resultGrad)));
  delta = b.reshape(b.transpose(delta, {0, 2, 1, 3}), rows);
  Value dp = product(byHead(resultGrad), byHead(op.getValue()));
  return b.gradientFor(op.getMask(), b.mul(p, b.sub(dp, delta)));
}

NN_VJP(AttentionOp) {
  if (resultGrads[1])
    return emitOpError("has no gradient through its log-sum-exp");
  NNBuilder b(builder, getLoc());
  auto grad = AttentionGradOp::create(
      builder, getLoc(), getQuery(), getKey(), getValue(), getMask(),
      getResult(), getLse(), b.cast(resultGrads[0], elementType(getResult())),
      getScaleAttr(), getCausalAttr(), getWindowAttr(), getSoftcapAttr(),
      getHiddenAttr(), getAddedAttr());
  for (unsigned i = 0; i < 3; ++i)
    if (needed[i])
      operandGrads[i] = grad->getResult(i);
  if (getMask() && needed[3])
    operandGrads[3] = MaskGradient(*this, builder).build(resultGrads[0]);
  if (getSink() && needed.back())
    operandGrads.back() = sinkGradient(*this, b, resultGrads[0]);
  return success();
}

bool AttentionOp::isComposite() { return bool(getSink()); }

FailureOr<SmallVector<Value>> AttentionOp::decompose(OpBuilder &builder) {
  NNBuilder b(builder, getLoc());
  auto keys = cast<AttentionOp>(builder.clone(*getOperation()));
  keys.getSinkMutable().clear();
  return addSink(b, keys.getResult(), keys.getLse(), getSink(),
                 elementType(getResult()));
}

/// 2·(queries × keys × (headDim + valueDim)) for every head.
static int64_t attentionFlops(Value query, Value key, Value value) {
  ArrayRef<int64_t> q = shapeOf(query);
  return 2 * q[0] * q[2] * q[1] * shapeOf(key)[1] * (q[3] + shapeOf(value)[3]);
}

int64_t AttentionOp::getFlops() {
  return attentionFlops(getQuery(), getKey(), getValue());
}

NN_INFER(AttentionGradOp) {
  for (Value operand : operands.take_front(3))
    inferred.push_back(operand.getType());
  return success();
}

// The recomputed scores are not credited.
int64_t AttentionGradOp::getFlops() {
  return 2 * attentionFlops(getQuery(), getKey(), getValue());
}

//===----------------------------------------------------------------------===//
// rotary
//===----------------------------------------------------------------------===//

NN_INFER(RotaryOp) {
  inferred.push_back(operands[0].getType());
  return success();
}

LogicalResult RotaryOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getOperand()), cos = shapeOf(getCos());
  if (x.size() != 4)
    return emitOpError("operand must be [batch, seq, heads, headDim], not ")
           << getOperand().getType();
  if (cos.size() != 2 || shapeOf(getSin()) != cos || cos[0] != x[1] ||
      2 * cos[1] > x[3])
    return emitOpError("cos and sin must be [seq, d] with 2·d ≤ headDim, not ")
           << getCos().getType() << " and " << getSin().getType();
  return success();
}

// A rotation's gradient is the rotation back.
NN_VJP(RotaryOp) {
  if (needed[1] || needed[2])
    return emitOpError("has no gradient for its cos and sin tables");
  operandGrads[0] =
      RotaryOp::create(builder, getLoc(), resultGrads[0], getCos(), getSin(),
                       getInterleaved(), !getInverse());
  return success();
}

FailureOr<SmallVector<Value>> RotaryOp::decompose(OpBuilder &builder) {
  NNBuilder b(builder, getLoc());
  SmallVector<int64_t> shape(shapeOf(getOperand()));
  int64_t d = shapeOf(getCos())[1], last = shape.size() - 1;
  Value x = b.slice(getOperand(), last, 0, 2 * d), first, second;
  SmallVector<int64_t> half(shape), pairs(shape);
  half[last] = pairs[last] = d;
  pairs.push_back(2);
  if (getInterleaved()) {
    Value split = b.reshape(x, pairs);
    first = b.reshape(b.slice(split, last + 1, 0, 1), half);
    second = b.reshape(b.slice(split, last + 1, 1, 1), half);
  } else {
    first = b.slice(getOperand(), last, 0, d);
    second = b.slice(getOperand(), last, d, d);
  }
  Value cos = b.reshape(getCos(), {shape[1], 1, d});
  Value sin = b.reshape(getSin(), {shape[1], 1, d});
  first = b.f32(first);
  second = b.f32(second);
  Value a = b.mul(first, cos), c = b.mul(second, sin);
  Value e = b.mul(second, cos), f = b.mul(first, sin);
  bool back = getInverse();
  Type element = elementType(getOperand());
  first = b.cast(back ? b.add(a, c) : b.sub(a, c), element);
  second = b.cast(back ? b.sub(e, f) : b.add(e, f), element);
  SmallVector<Value> parts;
  if (getInterleaved()) {
    SmallVector<int64_t> single(half);
    single.push_back(1);
    Value joined = ConcatOp::create(
        builder, getLoc(),
        ValueRange{b.reshape(first, single), b.reshape(second, single)},
        last + 1);
    parts.push_back(b.reshape(joined, shapeOf(x)));
  } else {
    parts = {first, second};
  }
  if (2 * d < shape[last])
    parts.push_back(b.slice(getOperand(), last, 2 * d, shape[last] - 2 * d));
  if (parts.size() == 1)
    return parts;
  return SmallVector<Value>{
      ConcatOp::create(builder, getLoc(), parts, last).getResult()};
}

//===----------------------------------------------------------------------===//
// On a mesh
//===----------------------------------------------------------------------===//

namespace {
struct ShardableAttention : ShardableModel<ShardableAttention, AttentionOp> {
  static LogicalResult rule(AttentionOp op, ShardingQuery &query);
};
struct ShardableRotary : ShardableModel<ShardableRotary, RotaryOp> {
  static LogicalResult rule(RotaryOp op, ShardingQuery &query);
};
} // namespace

// Heads, of query, key and value alike, with what is added to the scores of
// each. Where sequences are split, heads are for as long as it is computed.
LogicalResult ShardableAttention::rule(AttentionOp op, ShardingQuery &query) {
  constexpr int64_t kSequence = 1, kHeads = 2;
  int64_t dim = query.operands[0].dim;
  for (unsigned i = 0; i < 3; ++i) {
    const Sharding &given = query.operands[i];
    if (given.isWhole())
      return query.refuse("query, key and value are not all split");
    bool fits = given.dim == kHeads || given.dim == kSequence;
    if (!fits || given.dim != dim || given.sections.size() != 1)
      return query.refuse("what is split are not its heads");
    query.needed[i] =
        Sharding::split(kHeads, shapeOf(op->getOperand(i))[kHeads]);
  }
  const Sharding &heads = query.needed[0];
  if (Value mask = op.getMask()) {
    int64_t dim = rankOf(mask) - 3;
    if (dim >= 0 && shapeOf(mask)[dim] == heads.size())
      query.needed[3] = heads.along(dim);
  }
  if (op.getSink())
    query.needed.back() = heads.along(0);
  query.results[0] = query.operands[0];
  query.results[1] = heads.along(1);
  if (dim == kSequence)
    query.made[0] = heads;
  return success();
}

// Tables are of positions.
LogicalResult ShardableRotary::rule(RotaryOp op, ShardingQuery &query) {
  constexpr int64_t kSequence = 1, kHeadDim = 3;
  const Sharding &given = query.operands[0];
  if (given.isWhole())
    return query.refuse("its tables alone are split");
  if (given.dim == kHeadDim)
    return query.refuse("what is split are not its heads");
  query.needed[0] = given;
  if (given.dim == kSequence)
    query.needed[1] = query.needed[2] = given.along(0);
  query.results[0] = given;
  return success();
}

void nn::attachAttentionShardings(MLIRContext &context) {
  AttentionOp::attachInterface<ShardableAttention>(context);
  RotaryOp::attachInterface<ShardableRotary>(context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

namespace {
/// The row of one query: its scores' probabilities, what the soft cap leaves of
/// their derivatives, and their log-sum-exp. All scores may be -inf.
struct AttentionRow {
  std::vector<double> probability, slope;
  double lse;
};

/// Attention, row by row.
template <typename Op> struct AttentionReference {
  AttentionReference(Op op, Interpreter &interpreter)
      : op(op), q(interpreter.get(op.getQuery())),
        k(interpreter.get(op.getKey())), v(interpreter.get(op.getValue())),
        scale(op.getScale().convertToDouble()),
        cap(op.getSoftcap().convertToDouble()), window(op.getWindow()) {
    if (Value value = op.getMask()) {
      mask = Elements(interpreter.get(value));
      maskType = elementType(value);
    }
    if constexpr (std::is_same_v<Op, AttentionGradOp>)
      lse = Elements(interpreter.get(op.getLse()));
    else if (Value value = op.getSink())
      sink = Elements(interpreter.get(value));
  }

  int64_t kvHead(int64_t head) const { return head * k.shape[2] / q.shape[2]; }

  bool isVisible(int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t last = i + k.shape[1] - q.shape[1];
    if ((op.getCausal() && j > last) || (window > 0 && j <= last - window))
      return false;
    if (!mask || isa<FloatType>(maskType))
      return true;
    return maskType.isInteger(1) ? mask->at({b, h, i, j}).i != 0
                                 : j >= mask->at({b, 0, i, 0}).i;
  }

  AttentionRow row(int64_t b, int64_t h, int64_t i) {
    AttentionRow row;
    std::vector<Scalar> scores;
    for (int64_t j = 0; j < k.shape[1]; ++j) {
      double score = 0, slope = 1;
      for (int64_t d = 0; d < q.shape[3]; ++d)
        score += q.at({b, i, h, d}).f * k.at({b, j, kvHead(h), d}).f;
      score *= scale;
      if (cap > 0) {
        double t = std::tanh(score / cap);
        score = cap * t;
        slope = 1 - t * t;
      }
      if (!isVisible(b, h, i, j))
        score = hide(score, slope);
      if (mask && isa<FloatType>(maskType))
        score = addNumber(score, mask->at({b, h, i, j}).f);
      scores.push_back(ofFloat(score));
      row.slope.push_back(slope);
    }
    row.lse = logSumExp(scores);
    if (sink)
      row.lse = logSumExp({ofFloat(row.lse), sink->at({h})});
    if constexpr (std::is_same_v<Op, AttentionGradOp>)
      row.lse = std::max(row.lse, lse->at({b, h, i}).f); // a sink's share
    bool none = row.lse == -std::numeric_limits<double>::infinity();
    if (none && isUnguarded(b, h, i))
      row.lse = std::numeric_limits<double>::quiet_NaN();
    none &= !std::isnan(row.lse);
    for (Scalar score : scores)
      row.probability.push_back(none ? 0 : std::exp(score.f - row.lse));
    return row;
  }

  /// A number that hides leaves of a score what it does in f32.
  static double addNumber(double score, double number) {
    constexpr double hides = -1e3;
    double sum = score + number;
    return sum < hides ? float(float(score) + float(number)) : sum;
  }

  /// A score of what is not visible.
  double hide(double score, double &slope) {
    float number = op.getHidden().convertToFloat();
    if (number == 0)
      return -std::numeric_limits<double>::infinity();
    if (op.getAdded())
      return addNumber(score, number);
    slope = 0;
    return number;
  }

  /// Whether a query that sees nothing has no number; the gradient reads it
  /// from the forward's log-sum-exp.
  bool isUnguarded(int64_t b, int64_t h, int64_t i) {
    if constexpr (std::is_same_v<Op, AttentionOp>)
      return op.getUnguarded();
    return std::isnan(lse->at({b, h, i}).f);
  }

  /// Batch, head and query of each row; the steps of them all.
  SmallVector<int64_t> rows() const {
    return {q.shape[0], q.shape[2], q.shape[1]};
  }

  Op op;
  Elements q, k, v;
  std::optional<Elements> mask, sink, lse;
  Type maskType;
  double scale, cap;
  int64_t window;
};
} // namespace

/// Whether the scores of an attention may be computed.
template <typename Op>
static bool allowsScores(Op op, Interpreter &interpreter) {
  ArrayRef<int64_t> q = shapeOf(op.getQuery()), v = shapeOf(op.getValue());
  return interpreter.allowsSteps(
      op, {q[0], q[1], q[2], v[1], std::max(q[3], v[3])});
}

NN_EVALUATE(AttentionOp) {
  if (!allowsScores(*this, interpreter))
    return failure();
  AttentionReference<AttentionOp> reference(*this, interpreter);
  Elements result(shapeOf(getResult()), ofFloat(0)),
      lse(shapeOf(getLse()), ofFloat(0));
  forEachIndex(reference.rows(), [&](ArrayRef<int64_t> index) {
    int64_t b = index[0], h = index[1], i = index[2];
    AttentionRow row = reference.row(b, h, i);
    lse.at(index).f = row.lse;
    for (int64_t d = 0; d < result.shape[3]; ++d)
      for (auto [j, p] : llvm::enumerate(row.probability))
        result.at({b, i, h, d}).f +=
            p * reference.v.at({b, int64_t(j), reference.kvHead(h), d}).f;
  });
  (void)interpreter.set(getLse(), std::move(lse.values));
  return interpreter.set(getResult(), std::move(result.values));
}

NN_EVALUATE(AttentionGradOp) {
  if (!allowsScores(*this, interpreter))
    return failure();
  AttentionReference<AttentionGradOp> reference(*this, interpreter);
  const Elements &q = reference.q, &k = reference.k, &v = reference.v;
  Elements g(interpreter.get(getResultGrad()));
  Elements dq(q.shape, ofFloat(0)), dk(k.shape, ofFloat(0)),
      dv(v.shape, ofFloat(0));
  forEachIndex(reference.rows(), [&](ArrayRef<int64_t> index) {
    int64_t b = index[0], h = index[1], i = index[2];
    int64_t kv = reference.kvHead(h);
    AttentionRow row = reference.row(b, h, i);
    std::vector<double> dp(row.probability.size(), 0);
    double mean = 0;
    for (auto [j, p] : llvm::enumerate(row.probability)) {
      for (int64_t d = 0; d < v.shape[3]; ++d) {
        SmallVector<int64_t> at = {b, int64_t(j), kv, d};
        dp[j] += g.at({b, i, h, d}).f * v.at(at).f;
        dv.at(at).f += p * g.at({b, i, h, d}).f;
      }
      mean += dp[j] * p;
    }
    for (auto [j, p] : llvm::enumerate(row.probability)) {
      double ds = reference.scale * row.slope[j] * p * (dp[j] - mean);
      for (int64_t d = 0; d < q.shape[3]; ++d) {
        SmallVector<int64_t> at = {b, int64_t(j), kv, d};
        dq.at({b, i, h, d}).f += ds * k.at(at).f;
        dk.at(at).f += ds * q.at({b, i, h, d}).f;
      }
    }
  });
  (void)interpreter.set(getQueryGrad(), std::move(dq.values));
  (void)interpreter.set(getKeyGrad(), std::move(dk.values));
  return interpreter.set(getValueGrad(), std::move(dv.values));
}

NN_EVALUATE(RotaryOp) {
  if (!interpreter.allows(*this))
    return failure();
  Elements x(interpreter.get(getOperand())), cos(interpreter.get(getCos())),
      sin(interpreter.get(getSin()));
  Elements result = x;
  int64_t pairs = cos.shape[1];
  forEachIndex({x.shape[0], x.shape[1], x.shape[2], pairs},
               [&](ArrayRef<int64_t> index) {
                 int64_t s = index[1], j = index[3];
                 SmallVector<int64_t> a(index), b(index);
                 a[3] = getInterleaved() ? 2 * j : j;
                 b[3] = getInterleaved() ? 2 * j + 1 : j + pairs;
                 double c = cos.at({s, j}).f, r = sin.at({s, j}).f;
                 r = getInverse() ? -r : r;
                 result.at(a).f = x.at(a).f * c - x.at(b).f * r;
                 result.at(b).f = x.at(b).f * c + x.at(a).f * r;
               });
  return interpreter.set(getResult(), std::move(result.values));
}
