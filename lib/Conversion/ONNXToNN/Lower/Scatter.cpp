// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers ScatterElements, ScatterND and the deprecated Scatter.

#include "Index.h"

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
      elementTypeOf(updates) != elementTypeOf(data))
    return l.unsupported(node, "its indices and updates do not fit");
  l.set(node->getResult(0),
        nn::ScatterOp::create(l.builder, l.loc(), data.getType(), *reduction,
                              indices, updates, data, axes.data, axes.index,
                              axes.indexed));
  return success();
}

LogicalResult lowerScatterElements(Lowering &l, onnx::NodeOp node) {
  Value data = l.get(node.getInput(0)), indices = l.get(node.getInput(1));
  int64_t rank = static_cast<int64_t>(shapeOf(data).size());
  auto axis = normalizeAxis(node.getInt("axis", 0), rank);
  if (!axis || static_cast<int64_t>(shapeOf(indices).size()) != rank)
    return l.unsupported(node, "its axis or indices do not fit");
  SmallVector<int64_t> shape(shapeOf(indices));
  shape.push_back(1);
  return emitScatter(l, node, data, l.reshape(indices, shape),
                     l.get(node.getInput(2)),
                     nn::IndexAxes::elements(*axis, rank));
}

LogicalResult lowerScatterND(Lowering &l, onnx::NodeOp node) {
  Value data = l.get(node.getInput(0)), indices = l.get(node.getInput(1));
  int64_t rank = static_cast<int64_t>(shapeOf(data).size());
  int64_t indexRank = static_cast<int64_t>(shapeOf(indices).size());
  int64_t coordinates = indexRank > 0 ? shapeOf(indices).back() : 0;
  if (coordinates < 1 || coordinates > rank)
    return l.unsupported(node, "its indices do not fit");
  return emitScatter(l, node, data, indices, l.get(node.getInput(2)),
                     nn::IndexAxes::slices(coordinates, 0, rank, indexRank));
}

} // namespace

void addScatterHandlers(HandlerTable &table) {
  table["Scatter"] = lowerScatterElements;
  table["ScatterElements"] = lowerScatterElements;
  table["ScatterND"] = lowerScatterND;
}

} // namespace shardonnx
