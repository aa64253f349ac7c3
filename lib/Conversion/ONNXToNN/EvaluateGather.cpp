// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of ONNX ops that index or accumulate.

#include "Evaluate.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace shardonnx {
namespace {

constexpr int64_t maxElements = 1 << 25;

HostOutputs one(HostTensor result) {
  HostOutputs outputs(std::in_place);
  outputs->push_back(std::move(result));
  return outputs;
}

/// Steps `index` through `shape` in row-major order.
void advance(SmallVectorImpl<int64_t> &index, ArrayRef<int64_t> shape) {
  for (int64_t axis = static_cast<int64_t>(index.size()) - 1; axis >= 0;
       --axis) {
    if (++index[axis] < shape[axis])
      return;
    index[axis] = 0;
  }
}

int64_t countOf(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

HostOutputs gather(onnx::NodeOp node, HostInputs inputs) {
  if (inputs.size() != 2 || !inputs[0] || !inputs[1])
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
  int64_t count = countOf(shape);
  if (count > maxElements)
    return std::nullopt;
  SmallVector<int64_t> flat = indices.flattenInts();
  int64_t dim = data.getShape()[*axis], width = indices.getRank();
  std::vector<Scalar> values;
  values.reserve(count);
  SmallVector<int64_t> index(shape.size(), 0), from(data.getRank(), 0);
  for (int64_t n = 0; n < count; ++n, advance(index, shape)) {
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
  if (inputs.size() != 2 || !inputs[0] || !inputs[1] ||
      node.getInt("batch_dims", 0) != 0 || inputs[1]->getRank() == 0)
    return std::nullopt;
  const HostTensor &data = *inputs[0], &indices = *inputs[1];
  int64_t depth = indices.getShape().back();
  if (depth > data.getRank())
    return std::nullopt;
  HostTensor::Dims outer(indices.getShape().drop_back());
  ArrayRef<int64_t> inner = data.getShape().drop_front(depth);
  // Axes of the index grid along which it does not vary are not stored.
  HostTensor::Dims stored(outer), full(outer);
  for (unsigned i = 0; i < outer.size(); ++i)
    if (!indices.varies(i))
      stored[i] = std::min<int64_t>(stored[i], 1);
  HostTensor::Dims shape(stored);
  shape.append(inner.begin(), inner.end());
  full.append(inner.begin(), inner.end());
  int64_t count = countOf(shape);
  if (count > maxElements)
    return std::nullopt;
  std::vector<Scalar> values;
  values.reserve(count);
  SmallVector<int64_t> index(shape.size(), 0), from(data.getRank(), 0);
  SmallVector<int64_t> at(indices.getRank(), 0);
  for (int64_t n = 0; n < count; ++n, advance(index, shape)) {
    std::copy_n(index.begin(), outer.size(), at.begin());
    for (int64_t i = 0; i < depth; ++i) {
      at.back() = i;
      int64_t dim = data.getShape()[i], pick = indices.at(at).i;
      pick = pick < 0 ? pick + dim : pick;
      if (pick < 0 || pick >= dim)
        return std::nullopt;
      from[i] = pick;
    }
    for (size_t i = depth; i < from.size(); ++i)
      from[i] = index[outer.size() + i - depth];
    values.push_back(data.at(from));
  }
  HostTensor result =
      HostTensor::dense(shape, data.getElementType(), std::move(values));
  return one(result.broadcast(full).collapseUniformAxes());
}

HostOutputs gatherElements(onnx::NodeOp node, HostInputs inputs) {
  if (inputs.size() != 2 || !inputs[0] || !inputs[1])
    return std::nullopt;
  const HostTensor &data = *inputs[0], &indices = *inputs[1];
  auto axis = normalizeAxis(node.getInt("axis", 0), data.getRank());
  if (!axis || indices.getRank() != data.getRank() ||
      indices.getNumElements() > maxElements)
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

HostOutputs cumSum(onnx::NodeOp node, HostInputs inputs) {
  if (inputs.size() != 2 || !inputs[0] || !inputs[1])
    return std::nullopt;
  HostTensor::Dims full(inputs[0]->getShape());
  auto axis = normalizeAxis(inputs[1]->front().i, inputs[0]->getRank());
  if (!axis)
    return std::nullopt;
  // Only the axis itself must be stored.
  HostTensor::Dims shape(inputs[0]->compact().getShape());
  shape[*axis] = full[*axis];
  HostTensor data = inputs[0]->compact().broadcast(shape);
  bool exclusive = node.getInt("exclusive", 0),
       reverse = node.getInt("reverse", 0);
  Type type = data.getElementType();
  std::vector<Scalar> values = data.flatten();
  int64_t inner = countOf(ArrayRef<int64_t>(shape).drop_front(*axis + 1));
  int64_t length = shape[*axis];
  int64_t lines =
      values.empty() ? 0 : (int64_t)values.size() / (inner * length) * inner;
  for (int64_t line = 0; line < lines; ++line) {
    int64_t base = line / inner * inner * length + line % inner;
    Scalar sum;
    sum.i = 0;
    if (data.isFloat())
      sum.f = 0;
    for (int64_t step = 0; step < length; ++step) {
      Scalar &item =
          values[base + (reverse ? length - 1 - step : step) * inner];
      Scalar before = sum;
      if (data.isFloat())
        sum.f = roundTo(sum.f + item.f, type);
      else
        sum.i = wrapTo(sum.i + item.i, type);
      item = exclusive ? before : sum;
    }
  }
  return one(HostTensor::dense(shape, type, std::move(values)).broadcast(full));
}

enum class Reduction { Sum, Max, Min, Prod, Mean };

template <Reduction Kind>
HostOutputs reduce(onnx::NodeOp node, HostInputs inputs) {
  if (!inputs[0] || inputs[0]->getNumElements() > maxElements)
    return std::nullopt;
  const HostTensor &data = *inputs[0];
  auto axes =
      readAxes(node, inputs.size() > 1 ? inputs[1] : nullptr, data.getRank());
  if (!axes || data.getNumElements() == 0)
    return std::nullopt;
  if (axes->empty()) {
    if (node.getInt("noop_with_empty_axes", 0))
      return one(data);
    for (int64_t i = 0; i < data.getRank(); ++i)
      axes->push_back(i);
  }
  HostTensor::Dims kept(data.getShape()), squeezed;
  for (int64_t axis : *axes)
    kept[axis] = 1;
  for (int64_t i = 0; i < data.getRank(); ++i)
    if (!llvm::is_contained(*axes, i))
      squeezed.push_back(kept[i]);
  int64_t parts = data.getNumElements() / countOf(kept);
  std::vector<Scalar> result(countOf(kept));
  std::vector<bool> seen(result.size(), false);
  SmallVector<int64_t> index(data.getRank(), 0);
  bool isFloat = data.isFloat();
  for (Scalar item : data.flatten()) {
    int64_t to = 0;
    for (int64_t i = 0; i < data.getRank(); ++i)
      to = to * kept[i] + (kept[i] == 1 ? 0 : index[i]);
    advance(index, data.getShape());
    Scalar &sum = result[to];
    if (!seen[to]) {
      sum = item;
      seen[to] = true;
    } else if (isFloat) {
      sum.f = Kind == Reduction::Max    ? std::max(sum.f, item.f)
              : Kind == Reduction::Min  ? std::min(sum.f, item.f)
              : Kind == Reduction::Prod ? sum.f * item.f
                                        : sum.f + item.f;
    } else {
      sum.i = Kind == Reduction::Max    ? std::max(sum.i, item.i)
              : Kind == Reduction::Min  ? std::min(sum.i, item.i)
              : Kind == Reduction::Prod ? sum.i * item.i
                                        : sum.i + item.i;
    }
  }
  for (Scalar &sum : result) {
    if (isFloat)
      sum.f = roundTo(Kind == Reduction::Mean ? sum.f / (double)parts : sum.f,
                      data.getElementType());
    else if (Kind == Reduction::Mean)
      sum.i /= parts;
  }
  return one(HostTensor::dense(node.getInt("keepdims", 1) ? kept : squeezed,
                               data.getElementType(), std::move(result)));
}

} // namespace

void addGatherEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Gather"] = gather;
  table["GatherND"] = gatherND;
  table["GatherElements"] = gatherElements;
  table["CumSum"] = cumSum;
  table["ReduceSum"] = reduce<Reduction::Sum>;
  table["ReduceMax"] = reduce<Reduction::Max>;
  table["ReduceMin"] = reduce<Reduction::Min>;
  table["ReduceProd"] = reduce<Reduction::Prod>;
  table["ReduceMean"] = reduce<Reduction::Mean>;
}

} // namespace shardonnx
