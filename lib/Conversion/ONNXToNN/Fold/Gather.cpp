// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of ONNX ops that index.

#include "Evaluate.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace shardonnx {
namespace {

HostOutputs gather(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2) || inputs[1]->isFloat())
    return std::nullopt;
  const HostTensor &data = *inputs[0];
  auto axis = normalizeAxis(node.getInt("axis", 0), data.getRank());
  if (!axis)
    return std::nullopt;
  HostTensor indices = inputs[1]->compact();
  HostTensor::Dims shape(data.getShape()), full(data.getShape());
  auto replaceAxis = [&](HostTensor::Dims &dims, ArrayRef<int64_t> by) {
    dims.erase(dims.begin() + *axis);
    dims.insert(dims.begin() + *axis, by.begin(), by.end());
  };
  replaceAxis(shape, indices.getShape());
  replaceAxis(full, inputs[1]->getShape());
  std::optional<int64_t> count = countOf(shape);
  if (!count || !countOf(indices.getShape()))
    return std::nullopt;
  SmallVector<int64_t> flat = indices.flattenInts();
  int64_t dim = data.getShape()[*axis], width = indices.getRank();
  std::vector<Scalar> values;
  values.reserve(*count);
  SmallVector<int64_t> index(shape.size(), 0), from(data.getRank(), 0);
  for (int64_t n = 0; n < *count; ++n, advance(index, shape)) {
    int64_t which = 0;
    for (int64_t i = 0; i < width; ++i)
      which = which * indices.getShape()[i] + index[*axis + i];
    int64_t pick = flat[which] < 0 ? flat[which] + dim : flat[which];
    if (pick < 0 || pick >= dim)
      return std::nullopt;
    for (unsigned i = 0; i < from.size(); ++i)
      from[i] = i < *axis ? index[i] : i == *axis ? pick : index[i + width - 1];
    values.push_back(data.at(from));
  }
  return one(HostTensor::dense(shape, data.getElementType(), std::move(values))
                 .broadcast(full)
                 .collapseUniformAxes());
}

HostOutputs gatherND(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2) || inputs[1]->getRank() == 0 ||
      inputs[1]->isFloat())
    return std::nullopt;
  const HostTensor &data = *inputs[0], &indices = *inputs[1];
  // The first axes that both have in common, and those that are indexed.
  int64_t batch = node.getInt("batch_dims", 0),
          depth = indices.getShape().back();
  if (batch < 0 || batch >= indices.getRank() ||
      batch + depth > data.getRank() ||
      data.getShape().take_front(batch) != indices.getShape().take_front(batch))
    return std::nullopt;
  HostTensor::Dims outer(indices.getShape().drop_back());
  ArrayRef<int64_t> inner = data.getShape().drop_front(batch + depth);
  // Axes of the index grid along which it does not vary are not stored.
  HostTensor::Dims stored(outer), full(outer);
  for (unsigned i = batch; i < outer.size(); ++i)
    if (!indices.varies(i))
      stored[i] = std::min<int64_t>(stored[i], 1);
  HostTensor::Dims shape(stored);
  shape.append(inner.begin(), inner.end());
  full.append(inner.begin(), inner.end());
  std::optional<int64_t> count = countOf(shape);
  if (!count)
    return std::nullopt;
  std::vector<Scalar> values;
  values.reserve(*count);
  SmallVector<int64_t> index(shape.size(), 0), from(data.getRank(), 0);
  SmallVector<int64_t> at(indices.getRank(), 0);
  for (int64_t n = 0; n < *count; ++n, advance(index, shape)) {
    std::copy_n(index.begin(), outer.size(), at.begin());
    std::copy_n(index.begin(), batch, from.begin());
    for (int64_t i = 0; i < depth; ++i) {
      at.back() = i;
      int64_t dim = data.getShape()[batch + i], pick = indices.at(at).i;
      pick = pick < 0 ? pick + dim : pick;
      if (pick < 0 || pick >= dim)
        return std::nullopt;
      from[batch + i] = pick;
    }
    for (size_t i = batch + depth; i < from.size(); ++i)
      from[i] = index[outer.size() + i - batch - depth];
    values.push_back(data.at(from));
  }
  HostTensor result =
      HostTensor::dense(shape, data.getElementType(), std::move(values));
  return one(result.broadcast(full).collapseUniformAxes());
}

HostOutputs gatherElements(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2) || inputs[1]->isFloat())
    return std::nullopt;
  const HostTensor &data = *inputs[0], &indices = *inputs[1];
  auto axis = normalizeAxis(node.getInt("axis", 0), data.getRank());
  if (!axis || indices.getRank() != data.getRank() ||
      !countOf(indices.getShape()))
    return std::nullopt;
  for (int64_t i = 0; i < data.getRank(); ++i)
    if (i != *axis && indices.getShape()[i] > data.getShape()[i])
      return std::nullopt;
  std::vector<Scalar> values;
  SmallVector<int64_t> index(data.getRank(), 0);
  for (int64_t n = 0; n < indices.getNumElements();
       ++n, advance(index, indices.getShape())) {
    int64_t dim = data.getShape()[*axis], pick = indices.at(index).i;
    pick = pick < 0 ? pick + dim : pick;
    if (pick < 0 || pick >= dim)
      return std::nullopt;
    SmallVector<int64_t> from(index);
    from[*axis] = pick;
    values.push_back(data.at(from));
  }
  return one(HostTensor::dense(indices.getShape(), data.getElementType(),
                               std::move(values)));
}

} // namespace

void addGatherEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Gather"] = gather;
  table["GatherND"] = gatherND;
  table["GatherElements"] = gatherElements;
}

} // namespace shardonnx
