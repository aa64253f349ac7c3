// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of ONNX ops that pad, split or reorder tensors.

#include "Evaluate.h"

using namespace mlir;

namespace shardonnx {
namespace {

/// The element that stands at `at`, outside of an axis of `size`, by mode; none
/// for a constant.
std::optional<int64_t> reflected(StringRef mode, int64_t at, int64_t size) {
  if (at >= 0 && at < size)
    return at;
  if (mode == "constant" || size == 0)
    return std::nullopt;
  if (mode == "edge")
    return at < 0 ? 0 : size - 1;
  if (mode == "wrap")
    return ((at % size) + size) % size;
  // reflect: without repeating the edge.
  int64_t period = std::max<int64_t>(1, 2 * (size - 1));
  at = ((at % period) + period) % period;
  return at < size ? at : period - at;
}

struct Padding {
  HostTensor::Dims before, shape;
};

std::optional<Padding> readPadding(HostInputs inputs) {
  ArrayRef<int64_t> from = inputs[0]->getShape();
  auto pads = shortInts(inputs[1]);
  std::optional<SmallVector<int64_t>> axes(std::in_place);
  if (const HostTensor *list = inputAt(inputs, 3))
    axes = shortInts(list);
  else
    for (size_t i = 0; i < from.size(); ++i)
      axes->push_back(static_cast<int64_t>(i));
  if (!pads || !axes || pads->size() != 2 * axes->size())
    return std::nullopt;
  Padding p;
  p.before.assign(from.size(), 0);
  p.shape.assign(from.begin(), from.end());
  for (auto [i, item] : llvm::enumerate(*axes)) {
    auto axis = normalizeAxis(item, inputs[0]->getRank());
    constexpr int64_t limit = int64_t(1) << 31;
    int64_t before = (*pads)[i], after = (*pads)[axes->size() + i];
    if (!axis || before < -limit || before > limit || after < -limit ||
        after > limit || from[*axis] > limit)
      return std::nullopt;
    p.before[*axis] = before;
    p.shape[*axis] = from[*axis] + before + after;
  }
  return p;
}

HostOutputs pad(onnx::NodeOp node, HostInputs inputs) {
  StringRef mode = node.getString("mode", "constant");
  if (!hasInputs(inputs, 2) || (mode != "constant" && mode != "edge" &&
                                mode != "wrap" && mode != "reflect"))
    return std::nullopt;
  auto padding = readPadding(inputs);
  if (!padding)
    return std::nullopt;
  auto count = countOf(padding->shape);
  if (!count)
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  const HostTensor *filler = inputAt(inputs, 2);
  Scalar constant = filler && filler->getNumElements() == 1 ? filler->front()
                                                            : scalarOf(0, type);
  std::vector<Scalar> values;
  values.reserve(*count);
  HostTensor::Dims index(padding->shape.size(), 0), from(index);
  for (int64_t n = 0; n < *count; ++n, advance(index, padding->shape)) {
    bool inside = true;
    for (size_t i = 0; i < index.size(); ++i) {
      auto at = reflected(mode, index[i] - padding->before[i],
                          inputs[0]->getShape()[i]);
      inside &= at.has_value();
      from[i] = at.value_or(0);
    }
    if (!inside && mode != "constant")
      return std::nullopt;
    values.push_back(inside ? inputs[0]->at(from) : constant);
  }
  return one(HostTensor::dense(padding->shape, type, std::move(values)));
}

/// The sizes of the parts: given, or equal but for a smaller last one.
std::optional<SmallVector<int64_t>>
partSizes(onnx::NodeOp node, const HostTensor *given, int64_t size) {
  if (given)
    return shortInts(given);
  SmallVector<int64_t> sizes;
  if (node.getInts("split", sizes))
    return sizes;
  auto parts = static_cast<int64_t>(node->getNumResults());
  int64_t chunk = size / parts + (size % parts != 0);
  for (int64_t i = 0; i < parts; ++i)
    sizes.push_back(std::max<int64_t>(0, std::min(chunk, size - i * chunk)));
  return sizes;
}

HostOutputs split(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  auto axis = normalizeAxis(node.getInt("axis", 0), inputs[0]->getRank());
  if (!axis || node->getNumResults() == 0)
    return std::nullopt;
  int64_t size = inputs[0]->getShape()[*axis], start = 0;
  auto sizes = partSizes(node, inputAt(inputs, 1), size);
  if (!sizes)
    return std::nullopt;
  HostOutputs parts(std::in_place);
  for (int64_t part : *sizes) {
    if (part < 0 || part > size - start)
      return std::nullopt;
    parts->push_back(inputs[0]->slice(*axis, start, 1, part));
    start += part;
  }
  if (start != size)
    return std::nullopt;
  return parts;
}

HostOutputs eyeLike(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || inputs[0]->getRank() != 2)
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  if (node.getNodeAttr("dtype"))
    type = elementTypeOf(node.getInt("dtype", 0), node.getContext());
  ArrayRef<int64_t> shape = inputs[0]->getShape();
  auto count = countOf(shape);
  if (!type || !count)
    return std::nullopt;
  int64_t diagonal = node.getInt("k", 0);
  std::vector<Scalar> values(*count, scalarOf(0, type));
  for (int64_t row = 0; row < shape[0]; ++row)
    if (diagonal >= -row && diagonal < shape[1] - row)
      values[row * shape[1] + row + diagonal] = scalarOf(1, type);
  return one(HostTensor::dense(shape, type, std::move(values)));
}

/// Turns round the first elements of each sample, as many as its length says.
HostOutputs reverseSequence(onnx::NodeOp node, HostInputs inputs) {
  int64_t batch = node.getInt("batch_axis", 1),
          time = node.getInt("time_axis", 0);
  if (!hasInputs(inputs, 2) || inputs[0]->getRank() < 2 ||
      !((batch == 0 && time == 1) || (batch == 1 && time == 0)) ||
      inputs[1]->getNumElements() != inputs[0]->getShape()[batch] ||
      inputs[1]->isFloat())
    return std::nullopt;
  ArrayRef<int64_t> shape = inputs[0]->getShape();
  auto count = countOf(shape);
  if (!count)
    return std::nullopt;
  SmallVector<int64_t> lengths = inputs[1]->flattenInts();
  if (llvm::any_of(lengths, [&](int64_t length) {
        return length < 0 || length > shape[time];
      }))
    return std::nullopt;
  std::vector<Scalar> values;
  HostTensor::Dims index(shape.size(), 0);
  for (int64_t n = 0; n < *count; ++n, advance(index, shape)) {
    HostTensor::Dims from(index);
    int64_t length = lengths[index[batch]];
    if (index[time] < length)
      from[time] = length - 1 - index[time];
    values.push_back(inputs[0]->at(from));
  }
  return one(
      HostTensor::dense(shape, inputs[0]->getElementType(), std::move(values)));
}

} // namespace

void addPadEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Pad"] = pad;
  table["Split"] = split;
  table["EyeLike"] = eyeLike;
  table["ReverseSequence"] = reverseSequence;
}

} // namespace shardonnx
