// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of ONNX ops that pick elements by their values.

#include "Evaluate.h"

#include <cmath>
#include <numeric>

using namespace mlir;

namespace shardonnx {
namespace {

HostOutputs nonZero(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || inputs[0]->getRank() == 0 ||
      !countOf(inputs[0]->getShape()))
    return std::nullopt;
  ArrayRef<int64_t> shape = inputs[0]->getShape();
  SmallVector<SmallVector<int64_t>> found(shape.size());
  HostTensor::Dims index(shape.size(), 0);
  for (Scalar item : inputs[0]->flatten()) {
    if (inputs[0]->isFloat() ? item.f != 0 : item.i != 0)
      for (size_t i = 0; i < index.size(); ++i)
        found[i].push_back(index[i]);
    advance(index, shape);
  }
  SmallVector<int64_t> flat;
  for (ArrayRef<int64_t> list : found)
    flat.append(list.begin(), list.end());
  return one(HostTensor::ints(
      {inputs[0]->getRank(), static_cast<int64_t>(found[0].size())}, flat,
      IntegerType::get(node.getContext(), 64)));
}

/// The slices of `data` along `axis` that `picks` names, in that order.
HostTensor pickSlices(const HostTensor &data, unsigned axis,
                      ArrayRef<int64_t> picks) {
  HostTensor::Dims shape(data.getShape());
  AxisView from(shape, axis);
  shape[axis] = static_cast<int64_t>(picks.size());
  std::vector<Scalar> items = data.flatten(), values;
  for (int64_t o = 0; o < from.outer; ++o)
    for (int64_t pick : picks)
      for (int64_t i = 0; i < from.inner; ++i)
        values.push_back(items[from.at(o, pick, i)]);
  return HostTensor::dense(shape, data.getElementType(), std::move(values));
}

/// The node's axis; without one, `data` becomes one axis of all its elements.
std::optional<unsigned> axisOrFlat(onnx::NodeOp node, HostTensor &data) {
  if (node.getNodeAttr("axis"))
    return normalizeAxis(node.getInt("axis", 0), data.getRank());
  data = data.reshape({data.getNumElements()});
  return 0;
}

HostOutputs compress(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2) || inputs[1]->getRank() != 1 ||
      inputs[1]->isFloat() || !countOf(inputs[0]->getShape()) ||
      !countOf(inputs[1]->getShape()))
    return std::nullopt;
  HostTensor data = *inputs[0];
  std::optional<unsigned> axis = axisOrFlat(node, data);
  if (!axis)
    return std::nullopt;
  SmallVector<int64_t> picks;
  for (auto [i, keep] : llvm::enumerate(inputs[1]->flattenInts()))
    if (keep)
      picks.push_back(static_cast<int64_t>(i));
  if (!picks.empty() && picks.back() >= data.getShape()[*axis])
    return std::nullopt;
  return one(pickSlices(data, *axis, picks));
}

/// -1, 0 or 1 as slice `a` sorts before, with or after slice `b`.
int compareSlices(ArrayRef<Scalar> items, const AxisView &view, int64_t a,
                  int64_t b, Type type) {
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i)
      if (int order = compareScalars(items[view.at(o, a, i)],
                                     items[view.at(o, b, i)], type))
        return order;
  return 0;
}

/// The groups of equal slices, each as its members in order.
std::vector<std::vector<int64_t>> groupSlices(ArrayRef<Scalar> items,
                                              const AxisView &view, Type type) {
  std::vector<int64_t> order(view.length);
  std::iota(order.begin(), order.end(), 0);
  llvm::stable_sort(order, [&](int64_t a, int64_t b) {
    return compareSlices(items, view, a, b, type) < 0;
  });
  std::vector<std::vector<int64_t>> groups;
  for (int64_t member : order) {
    if (groups.empty() ||
        compareSlices(items, view, groups.back().front(), member, type) != 0)
      groups.emplace_back();
    groups.back().push_back(member);
  }
  return groups;
}

HostOutputs unique(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || !countOf(inputs[0]->getShape()))
    return std::nullopt;
  HostTensor data = *inputs[0];
  std::optional<unsigned> axis = axisOrFlat(node, data);
  if (!axis)
    return std::nullopt;
  Type type = data.getElementType();
  std::vector<Scalar> items = data.flatten();
  if (data.isFloat() &&
      llvm::any_of(items, [](Scalar item) { return std::isnan(item.f); }))
    return std::nullopt;
  AxisView view(data.getShape(), *axis);
  auto groups = groupSlices(items, view, type);
  if (!node.getInt("sorted", 1))
    llvm::sort(groups, [](const auto &a, const auto &b) {
      return a.front() < b.front();
    });
  SmallVector<int64_t> firsts, counts, inverse(view.length);
  for (auto [which, group] : llvm::enumerate(groups)) {
    firsts.push_back(group.front());
    counts.push_back(static_cast<int64_t>(group.size()));
    for (int64_t member : group)
      inverse[member] = static_cast<int64_t>(which);
  }
  HostOutputs outputs = one(pickSlices(data, *axis, firsts));
  Type i64 = IntegerType::get(node.getContext(), 64);
  for (ArrayRef<int64_t> list :
       {ArrayRef<int64_t>(firsts), ArrayRef<int64_t>(inverse),
        ArrayRef<int64_t>(counts)})
    outputs->push_back(
        HostTensor::ints({static_cast<int64_t>(list.size())}, list, i64));
  return outputs;
}

} // namespace

void addSelectEvaluators(llvm::StringMap<Evaluator> &table) {
  table["NonZero"] = nonZero;
  table["Compress"] = compress;
  table["Unique"] = unique;
}

} // namespace shardonnx
