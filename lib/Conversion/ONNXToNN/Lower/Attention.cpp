// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers the Attention op of opset 23 and later. Inside `nn` it is laid out
// [batch, seq, heads, headDim].

#include "AttentionMask.h"
#include "HeadWidths.h"
#include "SeqFirst.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace shardonnx {

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

static const int64_t swapHeads[] = {0, 2, 1, 3};

Value toSeqFirst(Lowering &l, Value value, int64_t heads) {
  ArrayRef<int64_t> shape = shapeOf(value);
  if (shape.size() == 4)
    return l.transpose(value, swapHeads);
  if (shape.size() != 3 || heads <= 0 || shape[2] % heads != 0)
    return {};
  return l.reshape(value, {shape[0], shape[1], heads, shape[2] / heads});
}

Value fromSeqFirst(Lowering &l, Value value, bool wasFlat) {
  if (!wasFlat)
    return l.transpose(value, swapHeads);
  ArrayRef<int64_t> shape = shapeOf(value);
  return l.reshape(value, {shape[0], shape[1], shape[2] * shape[3]});
}

namespace {

//===----------------------------------------------------------------------===//
// Attention written out
//===----------------------------------------------------------------------===//

/// What a node computes: operands by sequence, keys and values with the past.
struct Attention {
  onnx::NodeOp node;
  Value q, k, v;
  AttentionSizes sizes;
  AttentionMask mask;
  double scale, softcap;
};

/// [batch, seq, kvHeads, d] as [batch, heads, seq, d].
Value perHead(Lowering &l, Value value, int64_t heads) {
  Value turned = l.transpose(value, swapHeads);
  SmallVector<int64_t> shape(shapeOf(turned));
  int64_t repeats = heads / shape[1];
  if (repeats == 1)
    return turned;
  Value one = l.reshape(turned, {shape[0], shape[1], 1, shape[2], shape[3]});
  Value many =
      l.broadcast(one, {shape[0], shape[1], repeats, shape[2], shape[3]});
  return l.reshape(many, {shape[0], heads, shape[2], shape[3]});
}

/// Probabilities; a query all of whose scores are -inf has zeros.
Value probabilities(nn::NNBuilder &b, Value scores) {
  Type type = elementType(scores);
  Value none =
      b.compare(nn::ComparePredicate::eq, b.rowMax(scores),
                b.constant(-std::numeric_limits<double>::infinity(), type));
  Value zero = b.constant(0, type);
  Value safe = b.select(none, zero, scores);
  return b.select(none, zero, b.unary<nn::SoftmaxOp>(safe));
}

/// Scores and probabilities as values of their own: slower, but every output
/// of the node can be read.
Value writeOut(Lowering &l, const Attention &a) {
  onnx::NodeOp node = a.node;
  int64_t heads = shapeOf(a.q)[2];
  double root = std::sqrt(a.scale);
  Value q = l.mul(perHead(l, a.q, heads), root);
  Value k = l.mul(perHead(l, a.k, heads), root);
  Value scores = nn::MatmulOp::create(l.builder, l.loc, q, k,
                                      /*transposeLhs=*/false,
                                      /*transposeRhs=*/true);
  SmallVector<Value, 4> stages{scores};
  if (a.softcap != 0)
    scores =
        l.mul(l.unary<nn::TanhOp>(l.mul(scores, 1 / a.softcap)), a.softcap);
  stages.push_back(scores);
  Value mask = a.mask.whole(l, a.sizes);
  Type type = elementType(scores);
  if (mask && isFloat(mask))
    scores = l.add(scores, l.cast(mask, type));
  else if (mask)
    scores =
        l.select(mask, scores,
                 l.constant(-std::numeric_limits<double>::infinity(), type));
  stages.push_back(scores);
  stages.push_back(probabilities(l, scores));
  int64_t mode = node.getInt("qk_matmul_output_mode", 0);
  if (node->getNumResults() > 3 && mode >= 0 && mode < 4)
    l.set(node->getResult(3), stages[mode]);
  Value result = nn::MatmulOp::create(l.builder, l.loc, stages.back(),
                                      perHead(l, a.v, heads));
  return l.transpose(result, swapHeads);
}

//===----------------------------------------------------------------------===//
// Attention as one op
//===----------------------------------------------------------------------===//

Value asOne(Lowering &l, const Attention &a) {
  int64_t width = shapeOf(a.v).back();
  int64_t widest = std::max(width, shapeOf(a.k).back());
  Value query = widen(l, a.q, widest);
  Type lse =
      RankedTensorType::get({a.sizes.batch, shapeOf(a.q)[2], a.sizes.queries},
                            l.builder.getF32Type());
  auto attention = nn::AttentionOp::create(
      l.builder, l.loc, TypeRange{query.getType(), lse}, query,
      widen(l, a.k, widest), widen(l, a.v, widest), a.mask.value,
      /*sink=*/Value(), l.builder.getF32FloatAttr(static_cast<float>(a.scale)),
      a.mask.causal ? l.builder.getUnitAttr() : UnitAttr(),
      l.builder.getI64IntegerAttr(a.mask.window),
      l.builder.getF32FloatAttr(static_cast<float>(a.softcap)),
      /*unguarded=*/UnitAttr(), l.builder.getF32FloatAttr(0),
      /*added=*/UnitAttr());
  return narrow(l, attention.getResult(), width);
}

/// Keys or values behind those of the past, which ONNX lays out by head.
Value withPast(Lowering &l, Value past, Value now) {
  Value before = l.transpose(past, swapHeads);
  SmallVector<int64_t> shape(shapeOf(now));
  shape[1] += shapeOf(before)[1];
  return nn::ConcatOp::create(
      l.builder, l.loc, RankedTensorType::get(shape, elementType(now)),
      ValueRange{before, now}, l.builder.getI64IntegerAttr(1));
}

/// Operands of one batch; keys as wide as the query, and a value for each.
bool doFit(const Attention &a) {
  ArrayRef<int64_t> q = shapeOf(a.q), k = shapeOf(a.k), v = shapeOf(a.v);
  return q[0] == k[0] && q[3] == k[3] && k.take_front(3) == v.take_front(3);
}

LogicalResult lowerAttention(Lowering &l, onnx::NodeOp node) {
  Value query = l.get(node.getInput(0));
  bool flat = shapeOf(query).size() == 3;
  int64_t heads = node.getInt("q_num_heads", 0);
  int64_t kvHeads = node.getInt("kv_num_heads", heads);
  Attention a{node, {}, {}, {}, {}, {}, 0, node.getFloat("softcap", 0)};
  a.q = toSeqFirst(l, query, heads);
  a.k = toSeqFirst(l, l.get(node.getInput(1)), kvHeads);
  a.v = toSeqFirst(l, l.get(node.getInput(2)), kvHeads);
  if (!a.q || !a.k || !a.v || shapeOf(a.k)[2] == 0 ||
      shapeOf(a.q)[2] % shapeOf(a.k)[2] != 0)
    return l.unsupported(node, "its heads do not divide its width");
  if (!isFloat(a.q) || elementType(a.q) != elementType(a.k) ||
      elementType(a.q) != elementType(a.v))
    return l.unsupported(node, "only of floats of one type");
  if (node.getInput(4) && node.getInput(5)) {
    Value pastKey = l.get(node.getInput(4)),
          pastValue = l.get(node.getInput(5));
    a.sizes.past = shapeOf(pastKey)[2];
    a.k = withPast(l, pastKey, a.k);
    a.v = withPast(l, pastValue, a.v);
  }
  if (!doFit(a))
    return l.unsupported(node, "its query, keys and values do not fit");
  for (auto [i, present] : {std::pair(1, a.k), std::pair(2, a.v)})
    if (node->getNumResults() > static_cast<unsigned>(i))
      l.set(node->getResult(i), l.transpose(present, swapHeads));
  a.sizes.batch = shapeOf(a.q)[0];
  a.sizes.queries = shapeOf(a.q)[1];
  a.sizes.keys = shapeOf(a.k)[1];
  auto mask = buildAttentionMask(l, node, a.sizes);
  if (!mask)
    return failure();
  a.mask = *mask;
  a.scale = node.getFloat("scale",
                          1 / std::sqrt(static_cast<double>(shapeOf(a.q)[3])));
  Value result = node->getNumResults() < 4 ? asOne(l, a) : writeOut(l, a);
  l.set(node->getResult(0), fromSeqFirst(l, result, flat));
  return success();
}

} // namespace

void addAttentionHandlers(HandlerTable &table) {
  table["Attention"] = lowerAttention;
}

} // namespace shardonnx
