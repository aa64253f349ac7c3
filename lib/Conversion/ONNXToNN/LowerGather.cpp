// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers Gather: an embedding, or a cut at known indices.

#include "Lowering.h"

using namespace mlir;

namespace shardonnx {
namespace {

Value embed(Lowering &l, Value table, Value ids) {
  SmallVector<int64_t> shape(shapeOf(ids));
  shape.push_back(shapeOf(table)[1]);
  return nn::EmbeddingOp::create(
      l.builder, l.loc(), RankedTensorType::get(shape, elementTypeOf(table)),
      table, ids);
}

/// Known indices that count up by one are a slice.
std::optional<int64_t> contiguousStart(ArrayRef<int64_t> indices, int64_t dim) {
  if (indices.empty())
    return std::nullopt;
  int64_t start = indices.front() < 0 ? indices.front() + dim : indices.front();
  for (auto [i, index] : llvm::enumerate(indices))
    if ((index < 0 ? index + dim : index) != start + static_cast<int64_t>(i))
      return std::nullopt;
  if (start < 0 || start + static_cast<int64_t>(indices.size()) > dim)
    return std::nullopt;
  return start;
}

LogicalResult lowerGather(Lowering &l, onnx::NodeOp node) {
  Value data = l.get(node.getInput(0));
  SmallVector<int64_t> shape(shapeOf(data));
  auto axis =
      normalizeAxis(node.getInt("axis", 0), static_cast<int64_t>(shape.size()));
  if (!axis)
    return l.unsupported(node, "its axis is out of range");
  if (const HostTensor *known = l.getConstant(node.getInput(1))) {
    // The batch reads the same rows, so one copy is cut and then broadcast.
    HostTensor compact = known->compact();
    SmallVector<int64_t> flat = compact.flattenInts();
    HostTensor::Dims some(compact.getShape()), all(known->getShape());
    if (auto start = contiguousStart(flat, shape[*axis])) {
      Value part =
          l.slice(data, *axis, *start, static_cast<int64_t>(flat.size()));
      auto withIndices = [&](ArrayRef<int64_t> dims) {
        SmallVector<int64_t> full(shape);
        full.erase(full.begin() + *axis);
        full.insert(full.begin() + *axis, dims.begin(), dims.end());
        return full;
      };
      Value result = l.reshape(part, withIndices(some));
      l.set(node->getResult(0), l.broadcast(result, withIndices(all)));
      return success();
    }
  }
  if (*axis != 0 || shape.size() != 2 || !isa<FloatType>(elementTypeOf(data)))
    return l.unsupported(node, "only rows of a float matrix, or a range");
  Value ids = l.get(node.getInput(1));
  l.set(node->getResult(0), embed(l, data, ids));
  return success();
}

} // namespace

void addGatherHandlers(HandlerTable &table) { table["Gather"] = lowerGather; }

} // namespace shardonnx
