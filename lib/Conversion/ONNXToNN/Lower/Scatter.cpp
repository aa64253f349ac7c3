// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers ScatterElements, ScatterND, TensorScatter and the deprecated Scatter.

#include "Index.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"

using namespace mlir;

namespace shardonnx {
namespace {

std::optional<nn::Scatter> reductionOf(onnx::NodeOp node) {
  return nn::symbolizeScatter(node.getString("reduction", "none"));
}

LogicalResult emitScatter(Lowering &l, onnx::NodeOp node, Value data,
                          Value indices, Value updates,
                          const nn::IndexAxes &axes) {
  auto reduction = reductionOf(node);
  auto shape = nn::gatheredShape(shapeOf(data), shapeOf(indices), axes.data,
                                 axes.index, axes.indexed);
  if (!reduction)
    return l.unsupported(node, "its reduction is unknown");
  if (!areIndices(indices) || !shape ||
      ArrayRef<int64_t>(*shape) != shapeOf(updates) ||
      elementType(updates) != elementType(data))
    return l.unsupported(node, "its indices and updates do not fit");
  l.set(node->getResult(0),
        nn::ScatterOp::create(l.builder, l.loc, data.getType(), *reduction,
                              indices, updates, data, axes.data, axes.index,
                              axes.indexed));
  return success();
}

LogicalResult lowerScatterElements(Lowering &l, onnx::NodeOp node) {
  Value data = l.get(node.getInput(0)), indices = l.get(node.getInput(1));
  int64_t rank = rankOf(data);
  auto axis = normalizeAxis(node.getInt("axis", 0), rank);
  if (!axis || rankOf(indices) != rank)
    return l.unsupported(node, "its axis or indices do not fit");
  SmallVector<int64_t> shape(shapeOf(indices));
  shape.push_back(1);
  return emitScatter(l, node, data, l.reshape(indices, shape),
                     l.get(node.getInput(2)),
                     nn::IndexAxes::elements(*axis, rank));
}

LogicalResult lowerScatterND(Lowering &l, onnx::NodeOp node) {
  Value data = l.get(node.getInput(0)), indices = l.get(node.getInput(1));
  int64_t rank = rankOf(data);
  int64_t indexRank = rankOf(indices);
  int64_t coordinates = indexRank > 0 ? shapeOf(indices).back() : 0;
  if (coordinates < 1 || coordinates > rank)
    return l.unsupported(node, "its indices do not fit");
  return emitScatter(l, node, data, indices, l.get(node.getInput(2)),
                     nn::IndexAxes::slices(coordinates, 0, rank, indexRank));
}

/// Writes `update` into a cache along the sequence, for each sample from its
/// own place on.
LogicalResult lowerTensorScatter(Lowering &l, onnx::NodeOp node) {
  Value data = l.get(node.getInput(0)), update = l.get(node.getInput(1));
  int64_t rank = rankOf(data);
  auto axis = normalizeAxis(node.getInt("axis", -2), rank);
  StringRef mode = node.getString("mode", "linear");
  if (!axis || *axis == 0 || rankOf(update) != rank ||
      (mode != "linear" && mode != "circular"))
    return l.unsupported(node, "its axis, mode or operands do not fit");
  int64_t batch = shapeOf(data)[0], length = shapeOf(update)[*axis];
  Type i64 = l.builder.getI64Type();
  Value places = l.broadcast(l.iota({1, length}, 1), {batch, length});
  if (Value starts = node.getInput(2)) {
    if (l.getShape(starts) != ArrayRef<int64_t>(batch))
      return l.unsupported(node, "it has not one place for each sample");
    starts = l.reshape(l.cast(l.get(starts), i64), {batch, 1});
    places = l.add(places, starts);
  }
  if (mode == "circular") {
    auto size = static_cast<double>(shapeOf(data)[*axis]);
    places = nn::RemainderOp::create(l.builder, l.loc, places,
                                     l.constant(size, i64), /*floor=*/true);
  }
  nn::IndexAxes axes;
  for (int64_t i = 0; i < rank; ++i) {
    axes.data.push_back(i == *axis ? -1 : i);
    axes.index.push_back(i == *axis ? 1 : i == 0 ? 0 : -1);
  }
  axes.indexed = {static_cast<int64_t>(*axis)};
  return emitScatter(l, node, data, l.reshape(places, {batch, length, 1}),
                     update, axes);
}

} // namespace

void addScatterHandlers(HandlerTable &table) {
  table["Scatter"] = lowerScatterElements;
  table["ScatterElements"] = lowerScatterElements;
  table["ScatterND"] = lowerScatterND;
  table["TensorScatter"] = lowerTensorScatter;
}

} // namespace shardonnx
