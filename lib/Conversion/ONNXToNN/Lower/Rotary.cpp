// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers RotaryEmbedding: one op where the angles are known and those of every
// sample, else products with the rows of its caches.

#include "SeqFirst.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"

using namespace mlir;

namespace shardonnx {
namespace {

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

/// As nn.rotary; null where the angles are data or differ between samples.
Value asOne(Lowering &l, onnx::NodeOp node, Value x, int64_t rotated) {
  const HostTensor *cos = l.getConstant(node.getInput(1));
  const HostTensor *sin = l.getConstant(node.getInput(2));
  const HostTensor *positions = l.getConstant(node.getInput(3));
  if (!cos || !sin || (node.getInput(3) && !positions))
    return {};
  auto cosRows = cacheRows(*cos, positions, shapeOf(x)[1]);
  auto sinRows = cacheRows(*sin, positions, shapeOf(x)[1]);
  if (!cosRows || !sinRows || cosRows->getShape()[1] * 2 != rotated)
    return {};
  Type f32 = l.builder.getF32Type();
  auto table = [&](const HostTensor &rows) {
    return l.cast(l.broadcast(l.constant(rows), rows.getShape()), f32);
  };
  Value c = table(*cosRows), s = table(*sinRows);
  return nn::RotaryOp::create(
      l.builder, l.loc, x.getType(), x, c, s,
      node.getInt("interleaved", 0) ? l.builder.getUnitAttr() : UnitAttr(),
      UnitAttr());
}

/// The rows that each position reads: [batch, seq, 1, dim]; null where the
/// cache has another shape.
Value readRows(Lowering &l, Value cache, Value positions, int64_t seq,
               int64_t half) {
  Value rows = l.get(cache);
  if (positions) {
    Value ids = l.get(positions);
    if (shapeOf(rows).size() != 2 || shapeOf(ids).size() != 2)
      return {};
    SmallVector<int64_t> shape(shapeOf(ids));
    shape.push_back(shapeOf(rows)[1]);
    rows = nn::EmbeddingOp::create(
        l.builder, l.loc, RankedTensorType::get(shape, elementType(rows)), rows,
        ids);
  }
  ArrayRef<int64_t> shape = shapeOf(rows);
  if (shape.size() != 3 || shape[1] != seq || shape[2] != half)
    return {};
  return l.reshape(rows, {shape[0], shape[1], 1, shape[2]});
}

/// Rotates pairs; what lies behind them passes.
Value writeOut(Lowering &l, Value x, Value cos, Value sin, bool interleaved) {
  SmallVector<int64_t> shape(shapeOf(x));
  int64_t half = shapeOf(cos)[3], rotated = 2 * half;
  auto join = [&](ArrayRef<Value> parts, ArrayRef<int64_t> dims,
                  int64_t axis) -> Value {
    return nn::ConcatOp::create(
        l.builder, l.loc, RankedTensorType::get(dims, elementType(x)),
        ValueRange(parts), l.builder.getI64IntegerAttr(axis));
  };
  SmallVector<int64_t> part(shape), pairs(shape);
  part[3] = half;
  pairs[3] = half;
  pairs.push_back(interleaved ? 2 : 1);
  Value turning = l.slice(x, 3, 0, rotated), first, second;
  if (interleaved) {
    Value split = l.reshape(turning, pairs);
    first = l.reshape(l.slice(split, 4, 0, 1), part);
    second = l.reshape(l.slice(split, 4, 1, 1), part);
  } else {
    first = l.slice(turning, 3, 0, half);
    second = l.slice(turning, 3, half, half);
  }
  Value real = l.sub(l.mul(first, cos), l.mul(second, sin));
  Value imaginary = l.add(l.mul(first, sin), l.mul(second, cos));
  part[3] = rotated;
  Value result;
  if (interleaved) {
    SmallVector<int64_t> single(pairs);
    single[4] = 1;
    result = l.reshape(
        join({l.reshape(real, single), l.reshape(imaginary, single)}, pairs, 4),
        part);
  } else {
    result = join({real, imaginary}, part, 3);
  }
  if (rotated == shape[3])
    return result;
  return join({result, l.slice(x, 3, rotated, shape[3] - rotated)}, shape, 3);
}

LogicalResult lowerRotary(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  bool flat = shapeOf(operand).size() == 3;
  Value x = toSeqFirst(l, operand, node.getInt("num_heads", 0));
  if (!x)
    return l.unsupported(node, "its heads do not divide its width");
  int64_t rotated = node.getInt("rotary_embedding_dim", 0);
  rotated = rotated == 0 ? shapeOf(x)[3] : rotated;
  Value result = asOne(l, node, x, rotated);
  if (!result) {
    Value cos = readRows(l, node.getInput(1), node.getInput(3), shapeOf(x)[1],
                         rotated / 2);
    Value sin = readRows(l, node.getInput(2), node.getInput(3), shapeOf(x)[1],
                         rotated / 2);
    if (!cos || !sin || rotated > shapeOf(x)[3] || rotated % 2 != 0)
      return l.unsupported(node, "its caches do not fit");
    result = writeOut(l, x, cos, sin, node.getInt("interleaved", 0) != 0);
  }
  l.set(node->getResult(0), fromSeqFirst(l, result, flat));
  return success();
}

} // namespace

void addRotaryHandlers(HandlerTable &table) {
  table["RotaryEmbedding"] = lowerRotary;
}

} // namespace shardonnx
