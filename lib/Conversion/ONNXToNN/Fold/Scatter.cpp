// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of ONNX ops that write elements at places that are data.

#include "Evaluate.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace shardonnx {
namespace {

using Combination = Scalar (*)(Scalar, Scalar, Type);

Scalar replace(Scalar, Scalar b, Type) { return b; }

/// What happens to an element that is written, or null.
Combination reductionOf(onnx::NodeOp node) {
  return llvm::StringSwitch<Combination>(node.getString("reduction", "none"))
      .Case("none", replace)
      .Case("add", addScalars)
      .Case("mul", multiplyScalars)
      .Case("max", maxScalar)
      .Case("min", minScalar)
      .Default(nullptr);
}

/// A copy of `data` to write into.
struct Written {
  HostTensor::Dims shape;
  Type type;
  std::vector<Scalar> values;

  explicit Written(const HostTensor &data)
      : shape(data.getShape()), type(data.getElementType()),
        values(data.flatten()) {}

  int64_t at(ArrayRef<int64_t> index) const {
    int64_t position = 0;
    for (auto [i, dim] : llvm::zip(index, shape))
      position = position * dim + i;
    return position;
  }
  HostTensor take() {
    return HostTensor::dense(shape, type, std::move(values));
  }
};

/// `index` counted from the end where it is negative; none out of range.
std::optional<int64_t> wrapIndex(int64_t index, int64_t dim) {
  index = index < 0 ? index + dim : index;
  return index < 0 || index >= dim ? std::nullopt : std::optional(index);
}

bool areScattered(HostInputs inputs) {
  return hasInputs(inputs, 3) && countOf(inputs[0]->getShape()) &&
         countOf(inputs[1]->getShape()) && countOf(inputs[2]->getShape()) &&
         !inputs[1]->isFloat() &&
         inputs[2]->getElementType() == inputs[0]->getElementType();
}

HostOutputs scatterElements(onnx::NodeOp node, HostInputs inputs) {
  Combination reduction = reductionOf(node);
  if (!areScattered(inputs) || !reduction ||
      inputs[1]->getShape() != inputs[2]->getShape() ||
      inputs[1]->getRank() != inputs[0]->getRank())
    return std::nullopt;
  auto axis = normalizeAxis(node.getInt("axis", 0), inputs[0]->getRank());
  if (!axis)
    return std::nullopt;
  Written result(*inputs[0]);
  std::vector<Scalar> picks = inputs[1]->flatten(),
                      updates = inputs[2]->flatten();
  ArrayRef<int64_t> grid = inputs[1]->getShape();
  for (size_t i = 0; i < grid.size(); ++i)
    if (i != *axis && grid[i] > result.shape[i])
      return std::nullopt;
  HostTensor::Dims index(grid.size(), 0);
  for (size_t n = 0; n < picks.size(); ++n, advance(index, grid)) {
    auto pick = wrapIndex(picks[n].i, result.shape[*axis]);
    if (!pick)
      return std::nullopt;
    HostTensor::Dims to(index);
    to[*axis] = *pick;
    Scalar &item = result.values[result.at(to)];
    item = reduction(item, updates[n], result.type);
  }
  return one(result.take());
}

HostOutputs scatterND(onnx::NodeOp node, HostInputs inputs) {
  Combination reduction = reductionOf(node);
  if (!areScattered(inputs) || !reduction || inputs[1]->getRank() == 0)
    return std::nullopt;
  Written result(*inputs[0]);
  ArrayRef<int64_t> grid = inputs[1]->getShape();
  int64_t depth = grid.back();
  if (depth > inputs[0]->getRank())
    return std::nullopt;
  HostTensor::Dims wanted(grid.drop_back());
  ArrayRef<int64_t> slice = ArrayRef<int64_t>(result.shape).drop_front(depth);
  wanted.append(slice.begin(), slice.end());
  if (inputs[2]->getShape() != ArrayRef<int64_t>(wanted))
    return std::nullopt;
  int64_t width = *countOf(slice), slices = *countOf(grid.drop_back());
  std::vector<Scalar> picks = inputs[1]->flatten(),
                      updates = inputs[2]->flatten();
  for (int64_t n = 0; n < slices; ++n) {
    int64_t to = 0;
    for (int64_t i = 0; i < depth; ++i) {
      auto pick = wrapIndex(picks[n * depth + i].i, result.shape[i]);
      if (!pick)
        return std::nullopt;
      to = to * result.shape[i] + *pick;
    }
    for (int64_t i = 0; i < width; ++i) {
      Scalar &item = result.values[to * width + i];
      item = reduction(item, updates[n * width + i], result.type);
    }
  }
  return one(result.take());
}

/// Writes `update` into a cache along the sequence, for each sample at its own
/// place.
HostOutputs tensorScatter(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2) || !countOf(inputs[0]->getShape()) ||
      inputs[0]->getElementType() != inputs[1]->getElementType() ||
      inputs[0]->getRank() != inputs[1]->getRank())
    return std::nullopt;
  auto axis = normalizeAxis(node.getInt("axis", -2), inputs[0]->getRank());
  StringRef mode = node.getString("mode", "linear");
  if (!axis || *axis == 0 || (mode != "linear" && mode != "circular"))
    return std::nullopt;
  Written result(*inputs[0]);
  const HostTensor *starts = inputAt(inputs, 2);
  if (starts &&
      (starts->getRank() != 1 || starts->getShape()[0] != result.shape[0]))
    return std::nullopt;
  ArrayRef<int64_t> grid = inputs[1]->getShape();
  for (size_t i = 0; i < grid.size(); ++i)
    if (i != *axis && grid[i] != result.shape[i])
      return std::nullopt;
  std::vector<Scalar> updates = inputs[1]->flatten();
  HostTensor::Dims index(grid.size(), 0);
  for (size_t n = 0; n < updates.size(); ++n, advance(index, grid)) {
    HostTensor::Dims to(index);
    to[*axis] += starts ? starts->at({index[0]}).i : 0;
    if (mode == "circular" && to[*axis] >= 0)
      to[*axis] %= result.shape[*axis];
    if (to[*axis] < 0 || to[*axis] >= result.shape[*axis])
      return std::nullopt;
    result.values[result.at(to)] = updates[n];
  }
  return one(result.take());
}

HostOutputs oneHot(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 3) || inputs[1]->getNumElements() != 1 ||
      inputs[2]->getNumElements() != 2 || !countOf(inputs[0]->getShape()))
    return std::nullopt;
  auto axis = normalizeAxis(node.getInt("axis", -1), inputs[0]->getRank() + 1);
  auto depth = static_cast<int64_t>(
      toDouble(inputs[1]->front(), inputs[1]->getElementType()));
  if (!axis || depth < 1)
    return std::nullopt;
  HostTensor::Dims shape(inputs[0]->getShape());
  shape.insert(shape.begin() + *axis, depth);
  auto count = countOf(shape);
  if (!count)
    return std::nullopt;
  std::vector<Scalar> choices = inputs[2]->flatten(),
                      picks = inputs[0]->flatten();
  std::vector<Scalar> result(*count, choices[0]);
  AxisView view(shape, *axis);
  for (auto [n, item] : llvm::enumerate(picks)) {
    auto line = static_cast<int64_t>(n);
    auto pick = wrapIndex(
        static_cast<int64_t>(toDouble(item, inputs[0]->getElementType())),
        depth);
    if (pick)
      result[view.at(line / view.inner, *pick, line % view.inner)] = choices[1];
  }
  return one(
      HostTensor::dense(shape, inputs[2]->getElementType(), std::move(result)));
}

} // namespace

void addScatterEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Scatter"] = table["ScatterElements"] = scatterElements;
  table["ScatterND"] = scatterND;
  table["TensorScatter"] = tensorScatter;
  table["OneHot"] = oneHot;
}

} // namespace shardonnx
