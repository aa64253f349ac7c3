// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers the Attention and RotaryEmbedding ops of opset 23 and later. Inside
// `nn` both are laid out [batch, seq, heads, headDim].

#include "Lowering.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

const int64_t swapHeads[] = {0, 2, 1, 3};

/// [batch, heads, seq, dim] transposed, or [batch, seq, heads·dim] split.
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

LogicalResult lowerAttention(Lowering &l, onnx::NodeOp node) {
  if (node.getInput(4) || node.getInput(5) || node.getInput(6) ||
      node->getNumResults() != 1)
    return l.unsupported(node, "with a key/value cache");
  Value query = l.get(node.getInput(0));
  bool flat = shapeOf(query).size() == 3;
  int64_t heads = node.getInt("q_num_heads", 0);
  int64_t kvHeads = node.getInt("kv_num_heads", heads);
  Value q = toSeqFirst(l, query, heads);
  Value k = toSeqFirst(l, l.get(node.getInput(1)), kvHeads);
  Value v = toSeqFirst(l, l.get(node.getInput(2)), kvHeads);
  if (!q || !k || !v)
    return l.unsupported(node, "its heads do not divide its width");
  if (shapeOf(k)[3] != shapeOf(v)[3])
    return l.unsupported(node, "with keys and values of different width");
  Value mask;
  if (Value input = node.getInput(3)) {
    mask = l.getBroadcastable(input);
    if (isa<FloatType>(elementTypeOf(mask)))
      mask = l.castTo(mask, l.builder.getF32Type());
    SmallVector<int64_t> shape(shapeOf(mask));
    while (shape.size() < 4)
      shape.insert(shape.begin(), 1);
    mask = l.reshape(mask, shape);
  }
  double scale =
      node.getFloat("scale", 1 / std::sqrt(static_cast<double>(shapeOf(q)[3])));
  Type lse = RankedTensorType::get(
      {shapeOf(q)[0], shapeOf(q)[2], shapeOf(q)[1]}, l.builder.getF32Type());
  auto attention = nn::AttentionOp::create(
      l.builder, l.loc(), TypeRange{q.getType(), lse}, q, k, v, mask,
      l.builder.getF32FloatAttr(static_cast<float>(scale)),
      node.getInt("is_causal", 0) ? l.builder.getUnitAttr() : UnitAttr(),
      l.builder.getI64IntegerAttr(0),
      l.builder.getF32FloatAttr(
          static_cast<float>(node.getFloat("softcap", 0))));
  l.set(node->getResult(0), fromSeqFirst(l, attention.getResult(), flat));
  return success();
}

/// The rows of a cache that the positions 0…S-1 of every sample read.
std::optional<HostTensor> cacheRows(const HostTensor &cache,
                                    const HostTensor *positions, int64_t seq) {
  if (!positions) {
    // [batch, seq, dim], the same for every sample.
    if (cache.getRank() != 3 || cache.varies(0) || cache.getShape()[1] != seq)
      return std::nullopt;
    return cache.reshape(cache.slice(0, 0, 1, 1).getShape().drop_front());
  }
  if (cache.getRank() != 2 || positions->getRank() != 2 || positions->varies(0))
    return std::nullopt;
  SmallVector<int64_t> rows = positions->slice(0, 0, 1, 1).flattenInts();
  for (auto [i, row] : llvm::enumerate(rows))
    if (row != rows.front() + static_cast<int64_t>(i))
      return std::nullopt;
  if (static_cast<int64_t>(rows.size()) != seq || rows.front() < 0 ||
      rows.back() >= cache.getShape()[0])
    return std::nullopt;
  return cache.slice(0, rows.front(), 1, seq);
}

LogicalResult lowerRotary(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  bool flat = shapeOf(operand).size() == 3;
  Value x = toSeqFirst(l, operand, node.getInt("num_heads", 0));
  const HostTensor *cos = l.getConstant(node.getInput(1));
  const HostTensor *sin = l.getConstant(node.getInput(2));
  const HostTensor *positions = l.getConstant(node.getInput(3));
  if (!x || !cos || !sin || (node.getInput(3) && !positions))
    return l.unsupported(node, "its positions depend on data");
  auto cosRows = cacheRows(*cos, positions, shapeOf(x)[1]);
  auto sinRows = cacheRows(*sin, positions, shapeOf(x)[1]);
  int64_t rotated = node.getInt("rotary_embedding_dim", 0);
  rotated = rotated == 0 ? shapeOf(x)[3] : rotated;
  if (!cosRows || !sinRows || cosRows->getShape()[1] * 2 != rotated)
    return l.unsupported(node,
                         "its positions are not the same for all samples");
  Type f32 = l.builder.getF32Type();
  auto table = [&](const HostTensor &rows) {
    return l.castTo(l.broadcast(l.constant(rows), rows.getShape()), f32);
  };
  Value c = table(*cosRows), s = table(*sinRows);
  Value result = nn::RotaryOp::create(
      l.builder, l.loc(), x.getType(), x, c, s,
      node.getInt("interleaved", 0) ? l.builder.getUnitAttr() : UnitAttr(),
      UnitAttr());
  l.set(node->getResult(0), fromSeqFirst(l, result, flat));
  return success();
}

} // namespace

void addAttentionHandlers(HandlerTable &table) {
  table["Attention"] = lowerAttention;
  table["RotaryEmbedding"] = lowerRotary;
}

} // namespace shardonnx
