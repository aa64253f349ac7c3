// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers ONNX ops that view, cut or join tensors.

#include "Rearrange.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"

using namespace mlir;

namespace shardonnx {
namespace {

LogicalResult lowerReshape(Lowering &l, onnx::NodeOp node) {
  SmallVector<int64_t> wanted;
  if (!l.getInts(node.getInput(1), wanted))
    return l.unsupported(node, "its shape depends on data");
  Value operand = l.get(node.getInput(0));
  auto shape = resolveReshape(shapeOf(operand), wanted,
                              node.getInt("allowzero", 0) != 0);
  if (!shape)
    return l.unsupported(node, "its shape does not fit");
  l.set(node->getResult(0), l.reshape(operand, *shape));
  return success();
}

LogicalResult lowerFlatten(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  int64_t rank = rankOf(operand);
  int64_t axis = node.getInt("axis", 1), outer = 1, inner = 1;
  axis = axis < 0 ? axis + rank : axis;
  if (axis < 0 || axis > rank)
    return l.unsupported(node, "its axis is out of range");
  for (int64_t i = 0; i < rank; ++i)
    (i < axis ? outer : inner) *= shapeOf(operand)[i];
  l.set(node->getResult(0), l.reshape(operand, {outer, inner}));
  return success();
}

LogicalResult lowerTranspose(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  SmallVector<int64_t> permutation =
      llvm::to_vector(llvm::reverse(llvm::seq(int64_t(0), rankOf(operand))));
  node.getInts("perm", permutation);
  if (static_cast<int64_t>(permutation.size()) != rankOf(operand) ||
      !isPermutationVector(permutation))
    return l.unsupported(node, "its perm is no permutation of the axes");
  if (llvm::is_sorted(permutation))
    l.set(node->getResult(0), operand);
  else
    l.set(node->getResult(0), l.transpose(operand, permutation));
  return success();
}

/// The axes of Squeeze and Unsqueeze, an attribute before opset 13.
std::optional<SmallVector<int64_t>> axesOf(Lowering &l, onnx::NodeOp node,
                                           int64_t rank) {
  if (node.getInput(1) && !l.getConstant(node.getInput(1)))
    return std::nullopt;
  return readAxes(node, l.getConstant(node.getInput(1)), rank);
}

LogicalResult lowerSqueeze(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  ArrayRef<int64_t> from = shapeOf(operand);
  auto axes = axesOf(l, node, static_cast<int64_t>(from.size()));
  if (!axes)
    return l.unsupported(node, "its axes depend on data");
  SmallVector<int64_t> shape;
  for (auto [axis, dim] : llvm::enumerate(from)) {
    bool drop = axes->empty()
                    ? dim == 1
                    : llvm::is_contained(*axes, static_cast<int64_t>(axis));
    // PyTorch's squeeze(dim) leaves such an axis as it is.
    if (drop && dim != 1 && !node.getNodeAttr("keeps_longer"))
      return l.unsupported(node, "its axes are longer than 1");
    if (!drop || dim != 1)
      shape.push_back(dim);
  }
  l.set(node->getResult(0), l.reshape(operand, shape));
  return success();
}

LogicalResult lowerUnsqueeze(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  SmallVector<int64_t> shape(shapeOf(operand)), given;
  if (!l.getInts(node.getInput(1), given) && !node.getInts("axes", given))
    return l.unsupported(node, "its axes depend on data");
  auto axes =
      axesOf(l, node, static_cast<int64_t>(shape.size() + given.size()));
  if (!axes)
    return l.unsupported(node, "its axes are out of range");
  for (int64_t axis : *axes)
    shape.insert(shape.begin() + axis, 1);
  l.set(node->getResult(0), l.reshape(operand, shape));
  return success();
}

LogicalResult lowerExpand(Lowering &l, onnx::NodeOp node) {
  SmallVector<int64_t> wanted;
  if (!l.getInts(node.getInput(1), wanted))
    return l.unsupported(node, "its shape depends on data");
  Value operand = l.get(node.getInput(0));
  auto shape = broadcastShapes(shapeOf(operand), wanted);
  if (!shape || llvm::any_of(*shape, [](int64_t dim) { return dim < 0; }))
    return l.unsupported(node, "its shape does not fit");
  l.set(node->getResult(0), l.broadcast(operand, *shape));
  return success();
}

LogicalResult lowerSlice(Lowering &l, onnx::NodeOp node) {
  SmallVector<int64_t> starts, ends;
  if (!l.getInts(node.getInput(1), starts) ||
      !l.getInts(node.getInput(2), ends))
    return l.unsupported(node, "its bounds depend on data (those of "
                               "nn.EmbeddingBag do: write it as nn.Embedding "
                               "and a sum or mean)");
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, starts.size()));
  SmallVector<int64_t> steps(starts.size(), 1);
  if (!l.getOptionalInts(node.getInput(3), axes) ||
      !l.getOptionalInts(node.getInput(4), steps))
    return l.unsupported(node, "its axes or steps depend on data");
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size())
    return l.unsupported(node, "its bounds are malformed");
  Value result = l.get(node.getInput(0));
  SmallVector<int64_t> emptyShape;
  for (size_t i = 0; i < starts.size(); ++i) {
    ArrayRef<int64_t> shape = shapeOf(result);
    auto axis = normalizeAxis(axes[i], static_cast<int64_t>(shape.size()));
    if (!axis || steps[i] == 0)
      return l.unsupported(node, "its axes are out of range, or a step is 0");
    SliceBounds bounds = clampSlice(starts[i], ends[i], steps[i], shape[*axis]);
    if (bounds.size == 0) {
      if (emptyShape.empty())
        emptyShape.assign(shape.begin(), shape.end());
      emptyShape[*axis] = 0;
      continue;
    }
    result = stepAxis(l, result, *axis, bounds.start, bounds.step, bounds.size);
  }
  if (emptyShape.empty()) {
    l.set(node->getResult(0), result);
    return success();
  }
  // No elements: known, whatever the operand holds.
  for (auto [axis, dim] : llvm::enumerate(shapeOf(result)))
    emptyShape[axis] = emptyShape[axis] == 0 ? 0 : dim;
  l.setConstant(node->getResult(0),
                HostTensor::splat(emptyShape, elementType(result), Scalar{}));
  return success();
}

/// The parts of a split: given sizes, or equal ones with a smaller last, and
/// nothing for those behind it.
std::optional<SmallVector<int64_t>> splitSizes(Lowering &l, Value sizes,
                                               onnx::NodeOp node, int64_t dim,
                                               int64_t parts) {
  SmallVector<int64_t> result;
  if (sizes && !l.getInts(sizes, result))
    return std::nullopt;
  if (!sizes && !node.getInts("split", result)) {
    if (dim > 0)
      result = equalParts(dim, (dim + parts - 1) / parts);
    result.resize(static_cast<size_t>(parts), 0);
  }
  int64_t total = 0;
  for (int64_t size : result)
    total += size;
  if (total != dim || llvm::any_of(result, [&](int64_t s) { return s < 0; }))
    return std::nullopt;
  return result;
}

SmallVector<Value> cut(Lowering &l, Value operand, unsigned axis,
                       ArrayRef<int64_t> sizes) {
  SmallVector<Value> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(l.slice(operand, axis, start, size));
    start += size;
  }
  return parts;
}

LogicalResult lowerSplit(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  auto axis = normalizeAxis(node.getInt("axis", 0), rankOf(operand));
  int64_t parts = node->getNumResults();
  if (!axis)
    return l.unsupported(node, "its axis is out of range");
  if (Value given = node.getInput(1); given && !l.getConstant(given))
    return l.unsupported(node, "its sizes depend on data");
  auto sizes =
      splitSizes(l, node.getInput(1), node, shapeOf(operand)[*axis], parts);
  if (!sizes || static_cast<int64_t>(sizes->size()) != parts)
    return l.unsupported(node, "its sizes do not fit");
  SmallVector<int64_t> shape(shapeOf(operand));
  int64_t start = 0;
  for (auto [result, size] : llvm::zip_equal(node->getResults(), *sizes)) {
    shape[*axis] = size;
    if (size > 0)
      l.set(result, l.slice(operand, *axis, start, size));
    else // no elements: known, whatever the operand holds
      l.setConstant(result,
                    HostTensor::splat(shape, elementType(operand), Scalar{}));
    start += size;
  }
  return success();
}

LogicalResult lowerSplitToSequence(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  auto axis = normalizeAxis(node.getInt("axis", 0), rankOf(operand));
  if (!axis)
    return l.unsupported(node, "its axis is out of range");
  int64_t dim = shapeOf(operand)[*axis];
  if (dim > maxEvaluated)
    return l.unsupported(node, "it has too many parts");
  SmallVector<int64_t> sizes(dim, 1);
  if (Value split = node.getInput(1)) {
    const HostTensor *known = l.getConstant(split);
    if (!known)
      return l.unsupported(node, "its sizes depend on data");
    if (known->getRank() == 0) {
      int64_t size = known->front().i;
      if (size <= 0)
        return l.unsupported(node, "its sizes do not fit");
      sizes = equalParts(dim, size);
    } else {
      auto given = splitSizes(l, split, node, dim, 1);
      if (!given || (!l.interpreting && llvm::is_contained(*given, 0)))
        return l.unsupported(node, "its sizes do not fit");
      sizes = *given;
    }
  }
  SmallVector<Value> parts = cut(l, operand, *axis, sizes);
  bool squeeze = !node.getInput(1) && node.getInt("keepdims", 1) == 0;
  if (squeeze)
    for (Value &part : parts) {
      SmallVector<int64_t> shape(shapeOf(part));
      shape.erase(shape.begin() + *axis);
      part = l.reshape(part, shape);
    }
  l.setSequence(node->getResult(0), parts);
  return success();
}

LogicalResult lowerSequenceAt(Lowering &l, onnx::NodeOp node) {
  ArrayRef<Value> parts = l.getSequence(node.getInput(0));
  SmallVector<int64_t> index;
  if (!l.getInts(node.getInput(1), index) || index.size() != 1)
    return l.unsupported(node, "its index depends on data");
  int64_t count = static_cast<int64_t>(parts.size());
  auto at = normalizeAxis(index[0], count);
  if (!at)
    return l.unsupported(node, "its index is out of range");
  l.set(node->getResult(0), parts[*at]);
  return success();
}

/// Joins what has no elements, which is known.
LogicalResult joinNothing(Lowering &l, onnx::NodeOp node) {
  auto type = cast<ShapedType>(node.getInput(0).getType());
  SmallVector<int64_t> shape(l.getShape(node.getInput(0)));
  auto axis =
      normalizeAxis(node.getInt("axis", 0), static_cast<int64_t>(shape.size()));
  if (!axis)
    return l.unsupported(node, "its axis is out of range");
  for (Value input : node.getInputs().drop_front()) {
    if (l.getShape(input).size() != shape.size())
      return l.unsupported(node, "its parts do not fit");
    shape[*axis] += l.getShape(input)[*axis];
  }
  l.setConstant(node->getResult(0),
                HostTensor::splat(shape, type.getElementType(), Scalar{}));
  return success();
}

LogicalResult lowerConcat(Lowering &l, onnx::NodeOp node) {
  SmallVector<Value> parts;
  for (Value input : node.getInputs())
    if (!llvm::is_contained(l.getShape(input), 0))
      parts.push_back(l.get(input));
  if (parts.empty())
    return joinNothing(l, node);
  SmallVector<int64_t> shape(shapeOf(parts.front()));
  auto axis =
      normalizeAxis(node.getInt("axis", 0), static_cast<int64_t>(shape.size()));
  if (!axis)
    return l.unsupported(node, "its axis is out of range");
  shape[*axis] = 0;
  for (Value part : parts) {
    SmallVector<int64_t> fits(shapeOf(part));
    if (fits.size() != shape.size() ||
        elementType(part) != elementType(parts.front()))
      return l.unsupported(node, "its parts do not fit");
    shape[*axis] += fits[*axis];
    fits[*axis] = shape[*axis];
    if (fits != shape)
      return l.unsupported(node, "its parts do not fit");
  }
  Type type = RankedTensorType::get(shape, elementType(parts.front()));
  l.set(node->getResult(0),
        nn::ConcatOp::create(l.builder, l.loc, type, parts,
                             l.builder.getI64IntegerAttr(*axis)));
  return success();
}

LogicalResult lowerPad(Lowering &l, onnx::NodeOp node) {
  SmallVector<int64_t> pads;
  Value result = l.get(node.getInput(0));
  int64_t rank = rankOf(result);
  StringRef mode = node.getString("mode", "constant");
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (!l.getInts(node.getInput(1), pads) ||
      !l.getOptionalInts(node.getInput(3), axes))
    return l.unsupported(node, "its sizes depend on data");
  // Of wider ones the sizes would not fit in an integer.
  constexpr int64_t widest = int64_t(1) << 48;
  Value filler;
  if (Value given = node.getInput(2)) {
    if (ShapedType::getNumElements(l.getShape(given)) != 1)
      return l.unsupported(node, "its value is not one");
    filler =
        l.cast(l.reshape(l.getBroadcastable(given), {}), elementType(result));
    if (isFloat(result) && nn::getSplat(filler) == 0.0)
      filler = Value();
  }
  if (pads.size() != 2 * axes.size() ||
      llvm::any_of(pads, [](int64_t p) { return p < -widest || p > widest; }))
    return l.unsupported(node, "its pads do not fit");
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = normalizeAxis(axes[i], rank);
    int64_t low = pads[i], high = pads[i + axes.size()];
    if (!axis)
      return l.unsupported(node, "its axes are out of range");
    int64_t dim = shapeOf(result)[*axis];
    int64_t kept = dim + std::min<int64_t>(low, 0) + std::min<int64_t>(high, 0);
    int64_t cut = std::max<int64_t>(-low, 0);
    low = std::max<int64_t>(low, 0);
    high = std::max<int64_t>(high, 0);
    if (kept == 0 && mode == "constant" && low + high > 0) {
      SmallVector<int64_t> shape(shapeOf(result));
      shape[*axis] = low + high;
      Value fill = filler ? filler : l.constant(0, elementType(result));
      result = l.broadcast(fill, shape);
      continue;
    }
    if (kept <= 0)
      return l.unsupported(node, "its result is empty");
    result = l.slice(result, *axis, cut, kept);
    if (low == 0 && high == 0)
      continue;
    if (mode == "constant") {
      result = filler ? padAxis(l, result, *axis, low, high, filler)
                      : padAxis(l, result, *axis, low, high, 0.0);
      continue;
    }
    auto places = padPlaces(mode, shapeOf(result)[*axis], low, high);
    if (!places)
      return l.unsupported(node, "its mode is unknown, or it is too wide");
    result = takeAxis(l, result, *axis, *places);
  }
  l.set(node->getResult(0), result);
  return success();
}

} // namespace

void addShapeHandlers(HandlerTable &table) {
  table["Reshape"] = lowerReshape;
  table["Flatten"] = lowerFlatten;
  table["Transpose"] = lowerTranspose;
  table["Squeeze"] = lowerSqueeze;
  table["Unsqueeze"] = lowerUnsqueeze;
  table["Expand"] = lowerExpand;
  table["Slice"] = lowerSlice;
  table["Split"] = lowerSplit;
  table["SplitToSequence"] = lowerSplitToSequence;
  table["SequenceAt"] = lowerSequenceAt;
  table["Concat"] = lowerConcat;
  table["Pad"] = lowerPad;
}

} // namespace shardonnx
