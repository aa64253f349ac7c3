// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluators of ONNX ops that make, view or rearrange tensors.

#include "Evaluate.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

HostOutputs constant(onnx::NodeOp node, HostInputs) {
  Builder b(node.getContext());
  SmallVector<int64_t> ints;
  if (auto value =
          dyn_cast_or_null<DenseElementsAttr>(node.getNodeAttr("value")))
    return one(HostTensor::fromAttr(value));
  if (node.getNodeAttr("value_int"))
    return one(
        HostTensor::ints({}, {node.getInt("value_int", 0)}, b.getI64Type()));
  if (node.getInts("value_ints", ints))
    return one(HostTensor::ints({static_cast<int64_t>(ints.size())}, ints,
                                b.getI64Type()));
  Scalar scalar;
  if (node.getNodeAttr("value_float")) {
    scalar.f = node.getFloat("value_float", 0);
    return one(HostTensor::splat({}, b.getF32Type(), scalar));
  }
  auto floats =
      dyn_cast_or_null<DenseF32ArrayAttr>(node.getNodeAttr("value_floats"));
  if (!floats)
    return std::nullopt;
  std::vector<Scalar> values;
  for (float value : floats.asArrayRef()) {
    scalar.f = value;
    values.push_back(scalar);
  }
  return one(HostTensor::dense({floats.size()}, b.getF32Type(), values));
}

HostOutputs constantOfShape(onnx::NodeOp node, HostInputs inputs) {
  auto shape = shortInts(inputAt(inputs, 0));
  if (!shape || llvm::any_of(*shape, [](int64_t dim) { return dim < 0; }))
    return std::nullopt;
  if (auto value =
          dyn_cast_or_null<DenseElementsAttr>(node.getNodeAttr("value"))) {
    HostTensor filler = HostTensor::fromAttr(value);
    if (filler.getNumElements() != 1)
      return std::nullopt;
    return one(
        HostTensor::splat(*shape, filler.getElementType(), filler.front()));
  }
  Scalar zero;
  zero.f = 0;
  return one(
      HostTensor::splat(*shape, Float32Type::get(node.getContext()), zero));
}

HostOutputs range(onnx::NodeOp, HostInputs inputs) {
  if (!hasInputs(inputs, 3) ||
      llvm::any_of(inputs, [&](const HostTensor *bound) {
        return bound->getNumElements() != 1 ||
               bound->getElementType() != inputs[0]->getElementType();
      }))
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  Scalar start = inputs[0]->front(), delta = inputs[2]->front();
  double step = toDouble(delta, type);
  if (step == 0)
    return std::nullopt;
  double span =
      (toDouble(inputs[1]->front(), type) - toDouble(start, type)) / step;
  double count = std::max(0.0, std::ceil(span));
  if (!(count <= 1 << 24))
    return std::nullopt;
  std::vector<Scalar> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    if (isa<FloatType>(type))
      values[i].f = roundTo(start.f + static_cast<double>(i) * delta.f, type);
    else
      values[i].i = wrapTo(static_cast<int64_t>(static_cast<uint64_t>(start.i) +
                                                i * uint64_t(delta.i)),
                           type);
  }
  int64_t size = static_cast<int64_t>(values.size());
  return one(HostTensor::dense({size}, type, std::move(values)));
}

HostOutputs reshape(onnx::NodeOp node, HostInputs inputs) {
  auto wanted = shortInts(inputAt(inputs, 1));
  if (!hasInputs(inputs, 1) || !wanted)
    return std::nullopt;
  auto shape = resolveReshape(inputs[0]->getShape(), *wanted,
                              node.getInt("allowzero", 0) != 0);
  if (!shape)
    return std::nullopt;
  return one(inputs[0]->reshape(*shape));
}

HostOutputs flatten(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  int64_t rank = inputs[0]->getRank(), axis = node.getInt("axis", 1);
  axis = axis < 0 ? axis + rank : axis;
  if (axis < 0 || axis > rank || !countOf(inputs[0]->getShape()))
    return std::nullopt;
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < rank; ++i)
    (i < axis ? outer : inner) *= inputs[0]->getShape()[i];
  return one(inputs[0]->reshape({outer, inner}));
}

HostOutputs squeeze(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  ArrayRef<int64_t> shape = inputs[0]->getShape();
  const HostTensor *list = inputs.size() > 1 ? inputs[1] : nullptr;
  auto axes = readAxes(node, list, inputs[0]->getRank());
  if (!axes)
    return std::nullopt;
  HostTensor::Dims kept;
  for (auto [axis, dim] : llvm::enumerate(shape)) {
    bool drop =
        axes->empty() ? dim == 1 : llvm::is_contained(*axes, (int64_t)axis);
    if (drop && dim != 1)
      return std::nullopt;
    if (!drop)
      kept.push_back(dim);
  }
  return one(inputs[0]->reshape(kept));
}

HostOutputs unsqueeze(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  const HostTensor *list = inputs.size() > 1 ? inputs[1] : nullptr;
  SmallVector<int64_t> given;
  node.getInts("axes", given);
  int64_t rank = inputs[0]->getRank() +
                 (list ? list->getNumElements() : (int64_t)given.size());
  auto axes = readAxes(node, list, rank);
  if (!axes)
    return std::nullopt;
  HostTensor::Dims shape(inputs[0]->getShape());
  for (int64_t axis : *axes)
    shape.insert(shape.begin() + axis, 1);
  return one(inputs[0]->reshape(shape));
}

HostOutputs transpose(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1))
    return std::nullopt;
  SmallVector<int64_t> permutation;
  if (!node.getInts("perm", permutation))
    for (int64_t i = inputs[0]->getRank() - 1; i >= 0; --i)
      permutation.push_back(i);
  int64_t rank = inputs[0]->getRank();
  if ((int64_t)permutation.size() != rank)
    return std::nullopt;
  for (int64_t axis = 0; axis < rank; ++axis)
    if (!llvm::is_contained(permutation, axis))
      return std::nullopt;
  return one(inputs[0]->transpose(permutation));
}

HostOutputs expand(onnx::NodeOp, HostInputs inputs) {
  auto wanted = shortInts(inputAt(inputs, 1));
  if (!hasInputs(inputs, 1) || !wanted ||
      llvm::any_of(*wanted, [](int64_t dim) { return dim < 0; }))
    return std::nullopt;
  auto shape = broadcastShapes(inputs[0]->getShape(), *wanted);
  if (!shape)
    return std::nullopt;
  return one(inputs[0]->broadcast(*shape));
}

HostOutputs slice(onnx::NodeOp, HostInputs inputs) {
  auto starts = shortInts(inputAt(inputs, 1)),
       ends = shortInts(inputAt(inputs, 2));
  if (!hasInputs(inputs, 1) || !starts || !ends ||
      ends->size() != starts->size())
    return std::nullopt;
  std::optional<SmallVector<int64_t>> axes(std::in_place),
      steps(std::in_place, starts->size(), 1);
  for (size_t i = 0; i < starts->size(); ++i)
    axes->push_back(static_cast<int64_t>(i));
  if (const HostTensor *given = inputAt(inputs, 3))
    axes = shortInts(given);
  if (const HostTensor *given = inputAt(inputs, 4))
    steps = shortInts(given);
  if (!axes || !steps || axes->size() != starts->size() ||
      steps->size() != starts->size())
    return std::nullopt;
  HostTensor result = *inputs[0];
  for (size_t i = 0; i < starts->size(); ++i) {
    auto axis = normalizeAxis((*axes)[i], result.getRank());
    if (!axis || (*steps)[i] == 0)
      return std::nullopt;
    SliceBounds bounds = clampSlice((*starts)[i], (*ends)[i], (*steps)[i],
                                    result.getShape()[*axis]);
    result = result.slice(*axis, bounds.start, bounds.step, bounds.size);
  }
  return one(result);
}

/// Axes along which no part varies stay unstored.
HostOutputs concat(onnx::NodeOp node, HostInputs inputs) {
  if (inputs.empty() || !hasInputs(inputs, inputs.size()))
    return std::nullopt;
  auto axis = normalizeAxis(node.getInt("axis", 0), inputs[0]->getRank());
  if (!axis)
    return std::nullopt;
  HostTensor::Dims shape(inputs[0]->getShape()), stored(shape);
  shape[*axis] = 0;
  for (const HostTensor *part : inputs) {
    if (part->getRank() != inputs[0]->getRank() ||
        part->getElementType() != inputs[0]->getElementType())
      return std::nullopt;
    for (auto [i, dim] : llvm::enumerate(part->getShape()))
      if (i != *axis && dim != shape[i])
        return std::nullopt;
    if (llvm::AddOverflow(shape[*axis], part->getShape()[*axis], shape[*axis]))
      return std::nullopt;
  }
  stored[*axis] = shape[*axis];
  for (unsigned i = 0; i < stored.size(); ++i)
    if (i != *axis && llvm::none_of(inputs, [&](const HostTensor *part) {
          return part->varies(i);
        }))
      stored[i] = std::min<int64_t>(stored[i], 1);
  auto count = countOf(stored);
  if (!count)
    return std::nullopt;
  auto [outer, length, inner] = AxisView(stored, *axis);
  std::vector<Scalar> values(*count);
  int64_t before = 0;
  for (const HostTensor *part : inputs) {
    HostTensor view = *part;
    for (unsigned i = 0; i < stored.size(); ++i)
      if (i != *axis && stored[i] < view.getShape()[i])
        view = view.slice(i, 0, 1, stored[i]);
    int64_t width = view.getShape()[*axis] * inner;
    std::vector<Scalar> flat = view.flatten();
    for (int64_t o = 0; o < outer; ++o)
      std::copy_n(flat.begin() + o * width, width,
                  values.begin() + (o * length + before) * inner);
    before += view.getShape()[*axis];
  }
  return one(
      HostTensor::dense(stored, inputs[0]->getElementType(), std::move(values))
          .broadcast(shape));
}

HostOutputs trilu(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || inputs[0]->getRank() < 2)
    return std::nullopt;
  std::optional<int64_t> k = 0;
  if (const HostTensor *given = inputAt(inputs, 1))
    k = onlyInt(given);
  bool upper = node.getInt("upper", 1) != 0;
  ArrayRef<int64_t> shape = inputs[0]->getShape();
  constexpr int64_t longest = 1 << 24;
  if (!k || shape[shape.size() - 2] > longest || shape.back() > longest)
    return std::nullopt;
  Type i64 = IntegerType::get(node.getContext(), 64);
  SmallVector<int64_t> rows(shape[shape.size() - 2]), columns(shape.back());
  for (size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<int64_t>(i);
  for (size_t i = 0; i < columns.size(); ++i)
    columns[i] = static_cast<int64_t>(i);
  HostTensor row = HostTensor::ints({(int64_t)rows.size(), 1}, rows, i64);
  HostTensor column = HostTensor::ints({(int64_t)columns.size()}, columns, i64);
  std::optional<HostTensor> difference =
      HostTensor::indexDifference(column, row);
  if (!difference)
    difference = HostTensor::map({column, row}, i64, [](ArrayRef<Scalar> x) {
      Scalar scalar;
      scalar.i = x[0].i - x[1].i;
      return scalar;
    });
  if (!difference)
    return std::nullopt;
  std::optional<HostTensor> keep =
      HostTensor::map({*difference}, IntegerType::get(node.getContext(), 1),
                      [&](ArrayRef<Scalar> x) {
                        Scalar scalar;
                        scalar.i = upper ? x[0].i >= *k : x[0].i <= *k;
                        return scalar;
                      });
  if (!keep)
    return std::nullopt;
  bool isFloat = inputs[0]->isFloat();
  auto result =
      HostTensor::map({*keep, *inputs[0]}, inputs[0]->getElementType(),
                      [&](ArrayRef<Scalar> x) {
                        Scalar zero;
                        zero.i = 0;
                        if (isFloat)
                          zero.f = 0;
                        return x[0].i ? x[1] : zero;
                      });
  if (!result)
    return std::nullopt;
  return one(*result);
}

HostOutputs tile(onnx::NodeOp, HostInputs inputs) {
  auto repeats = shortInts(inputAt(inputs, 1));
  if (!hasInputs(inputs, 1) || !repeats)
    return std::nullopt;
  ArrayRef<int64_t> shape = inputs[0]->getShape();
  if (repeats->size() != shape.size())
    return std::nullopt;
  // Interleave a repeated axis before each axis, then merge the two.
  HostTensor::Dims split, spread, merged;
  for (auto [times, dim] : llvm::zip(*repeats, shape)) {
    split.append({1, dim});
    spread.append({times, dim});
    if (times < 0 || llvm::MulOverflow(times, dim, merged.emplace_back()))
      return std::nullopt;
  }
  if (!inputs[0]->isSplat() && !countOf(merged))
    return std::nullopt;
  return one(inputs[0]->reshape(split).broadcast(spread).reshape(merged));
}

/// [n, channels, rows, columns] of a node, and how wide its blocks are; none
/// where they do not fit.
std::optional<HostTensor::Dims> readBlocks(onnx::NodeOp node, HostInputs inputs,
                                           int64_t &block) {
  block = node.getInt("blocksize", 0);
  if (!hasInputs(inputs, 1) || inputs[0]->getRank() != 4 || block < 1 ||
      block > 1 << 15 || !countOf(inputs[0]->getShape()))
    return std::nullopt;
  return HostTensor::Dims(inputs[0]->getShape());
}

HostOutputs depthToSpace(onnx::NodeOp node, HostInputs inputs) {
  int64_t b = 0;
  auto x = readBlocks(node, inputs, b);
  StringRef mode = node.getString("mode", "DCR");
  if (!x || (*x)[1] % (b * b) != 0 || (mode != "DCR" && mode != "CRD"))
    return std::nullopt;
  int64_t n = (*x)[0], depth = (*x)[1] / (b * b), h = (*x)[2], w = (*x)[3];
  HostTensor blocks = mode == "DCR" ? inputs[0]
                                          ->reshape({n, b, b, depth, h, w})
                                          .transpose({0, 3, 4, 1, 5, 2})
                                    : inputs[0]
                                          ->reshape({n, depth, b, b, h, w})
                                          .transpose({0, 1, 4, 2, 5, 3});
  return one(blocks.reshape({n, depth, h * b, w * b}));
}

HostOutputs spaceToDepth(onnx::NodeOp node, HostInputs inputs) {
  int64_t b = 0;
  auto x = readBlocks(node, inputs, b);
  StringRef mode = node.getString("mode", "DCR");
  if (!x || (*x)[2] % b != 0 || (*x)[3] % b != 0 ||
      (mode != "DCR" && mode != "CRD"))
    return std::nullopt;
  int64_t n = (*x)[0], depth = (*x)[1], h = (*x)[2] / b, w = (*x)[3] / b;
  SmallVector<int64_t> order = {0, 3, 5, 1, 2, 4};
  if (mode == "CRD")
    order = {0, 1, 3, 5, 2, 4};
  return one(inputs[0]
                 ->reshape({n, depth, h, b, w, b})
                 .transpose(order)
                 .reshape({n, depth * b * b, h, w}));
}

} // namespace

void addShapeEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Constant"] = constant;
  table["ConstantOfShape"] = constantOfShape;
  table["Range"] = range;
  table["Reshape"] = reshape;
  table["Flatten"] = flatten;
  table["Squeeze"] = squeeze;
  table["Unsqueeze"] = unsqueeze;
  table["Transpose"] = transpose;
  table["Expand"] = expand;
  table["Slice"] = slice;
  table["Concat"] = concat;
  table["Trilu"] = trilu;
  table["Tile"] = tile;
  table["DepthToSpace"] = depthToSpace;
  table["SpaceToDepth"] = spaceToDepth;
}

} // namespace shardonnx
