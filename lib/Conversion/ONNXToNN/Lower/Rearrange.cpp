// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders of elements that no single nn op has, and the ONNX ops that are such
// orders.

#include "Rearrange.h"

#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace shardonnx {

Value padAxis(Lowering &l, Value operand, unsigned axis, int64_t low,
              int64_t high, Value scalar) {
  SmallVector<int64_t> shape(shapeOf(operand));
  SmallVector<Value> parts;
  auto known = scalar.getDefiningOp<nn::ConstantOp>();
  auto filler = [&](int64_t size) {
    shape[axis] = size;
    if (size == 0)
      return;
    if (!known)
      return parts.push_back(l.broadcast(scalar, shape));
    auto value = cast<DenseElementsAttr>(known.getValue());
    parts.push_back(nn::ConstantOp::create(
        l.builder, l.loc,
        DenseElementsAttr::get(value.getType().clone(shape),
                               value.getSplatValue<Attribute>())));
  };
  filler(low);
  parts.push_back(operand);
  filler(high);
  return join(l, parts, axis);
}

/// Zeros around floats are nn.pad, other values are joined to the tensor.
Value padAxis(Lowering &l, Value operand, unsigned axis, int64_t low,
              int64_t high, double value) {
  Type element = elementType(operand);
  if (!isa<FloatType>(element) || value != 0)
    return padAxis(l, operand, axis, low, high, l.constant(value, element));
  SmallVector<int64_t> lows(rankOf(operand), 0), highs(lows);
  lows[axis] = low;
  highs[axis] = high;
  return nn::PadOp::create(l.builder, l.loc, operand, lows, highs);
}

Value padSpatial(Lowering &l, Value value, ArrayRef<int64_t> low,
                 ArrayRef<int64_t> high, double filler) {
  for (auto [i, before, after] : llvm::enumerate(low, high)) {
    unsigned axis = i + 2;
    int64_t size = shapeOf(value)[axis];
    int64_t cutLow = std::max<int64_t>(-before, 0),
            cutHigh = std::max<int64_t>(-after, 0);
    if (cutLow || cutHigh)
      value = l.slice(value, axis, cutLow, size - cutLow - cutHigh);
    SmallVector<Value> parts;
    auto fill = [&](int64_t count) {
      SmallVector<int64_t> shape(shapeOf(value));
      shape[axis] = count;
      if (count > 0)
        parts.push_back(l.constant(filler, elementType(value), shape));
    };
    fill(before);
    parts.push_back(value);
    fill(after);
    if (parts.size() > 1)
      value = nn::ConcatOp::create(l.builder, l.loc, parts, axis);
  }
  return value;
}

Value slideWindows(Lowering &l, Value value, const Windows &windows) {
  auto axes = llvm::to_vector(llvm::seq<int64_t>(2, windows.rank() + 2));
  return nn::WindowsOp::create(l.builder, l.loc, value, axes, windows.sizes,
                               windows.strides, windows.dilations);
}

Value join(Lowering &l, ArrayRef<Value> parts, unsigned axis) {
  if (parts.size() == 1)
    return parts.front();
  return nn::ConcatOp::create(l.builder, l.loc, parts, axis);
}

/// The middle one of three axes backwards. If even it is one of pairs: each
/// pair swapped, then the pairs reversed, as wider elements.
static Value reverseMiddle(Lowering &l, Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  int64_t outer = shape[0], size = shape[1], inner = shape[2];
  if (size == 1)
    return value;
  if (size % 2 == 1)
    return join(l,
                {l.slice(value, 1, size - 1, 1),
                 reverseMiddle(l, l.slice(value, 1, 0, size - 1))},
                1);
  Value pairs = l.reshape(value, {outer, size / 2, 2, inner});
  pairs = join(l, {l.slice(pairs, 2, 1, 1), l.slice(pairs, 2, 0, 1)}, 2);
  pairs = reverseMiddle(l, l.reshape(pairs, {outer, size / 2, 2 * inner}));
  return l.reshape(pairs, {outer, size, inner});
}

Value reverseAxis(Lowering &l, Value value, unsigned axis) {
  SmallVector<int64_t> shape(shapeOf(value));
  if (shape[axis] == 1)
    return value;
  ArrayRef<int64_t> sizes(shape);
  SmallVector<int64_t> flat = {
      ShapedType::getNumElements(sizes.take_front(axis)), shape[axis],
      ShapedType::getNumElements(sizes.drop_front(axis + 1))};
  return l.reshape(reverseMiddle(l, l.reshape(value, flat)), shape);
}

/// Groups of `step` elements, of which one stays: the first, or, where the axis
/// ends within the last group, a later one.
static Value everyNth(Lowering &l, Value value, unsigned axis, int64_t start,
                      int64_t step, int64_t count) {
  SmallVector<int64_t> shape(shapeOf(value));
  int64_t dim = shape[axis], length = count * step;
  if (length > dim) {
    value = padAxis(l, value, axis, 0, length - dim, 0);
    dim = length;
  }
  int64_t first = std::min(start, dim - length), inGroup = start - first;
  assert(inGroup < step && "the last element taken lies within the axis");
  value = l.slice(value, axis, first, length);
  SmallVector<int64_t> grouped(shape);
  grouped[axis] = count;
  grouped.insert(grouped.begin() + axis + 1, step);
  shape[axis] = count;
  value = l.slice(l.reshape(value, grouped), axis + 1, inGroup, 1);
  return l.reshape(value, shape);
}

Value stepAxis(Lowering &l, Value value, unsigned axis, int64_t start,
               int64_t step, int64_t count) {
  if (count == 1)
    return l.slice(value, axis, start, 1);
  if (step < 0) {
    int64_t last = start + (count - 1) * step;
    return reverseAxis(l, stepAxis(l, value, axis, last, -step, count), axis);
  }
  if (step == 1)
    return l.slice(value, axis, start, count);
  return everyNth(l, value, axis, start, step, count);
}

static Value gatherAxis(Lowering &l, Value value, unsigned axis,
                        ArrayRef<int64_t> indices) {
  auto count = static_cast<int64_t>(indices.size());
  Value list =
      l.constant(HostTensor::ints({count, 1}, indices, l.builder.getI64Type()));
  auto axes = nn::IndexAxes::along(axis, rankOf(value), 1);
  return nn::GatherOp::create(l.builder, l.loc, value, list, axes.data,
                              axes.index, axes.indexed);
}

Value takeAxis(Lowering &l, Value value, unsigned axis,
               ArrayRef<int64_t> indices) {
  constexpr size_t kMaxRuns = 64;
  SmallVector<Value> parts;
  for (size_t i = 0; i < indices.size();) {
    int64_t step = i + 1 < indices.size() ? indices[i + 1] - indices[i] : 0;
    step = step < -1 || step > 1 ? 0 : step;
    size_t end = i + 1;
    while (end < indices.size() && indices[end] - indices[end - 1] == step)
      ++end;
    auto count = static_cast<int64_t>(end - i);
    if (step == 0) {
      SmallVector<int64_t> shape(shapeOf(value));
      shape[axis] = count;
      parts.push_back(l.broadcast(l.slice(value, axis, indices[i], 1), shape));
    } else {
      parts.push_back(stepAxis(l, value, axis, indices[i], step, count));
    }
    i = end;
    if (parts.size() > kMaxRuns)
      return gatherAxis(l, value, axis, indices);
  }
  return join(l, parts, axis);
}

namespace {

/// Copies of a tensor behind each other along one axis.
Value repeat(Lowering &l, Value value, int64_t axis, int64_t count) {
  if (count == 1)
    return value;
  SmallVector<int64_t> shape(shapeOf(value));
  int64_t outer = 1, inner = 1;
  for (auto [i, size] : llvm::enumerate(shape))
    (static_cast<int64_t>(i) < axis ? outer : inner) *= size;
  Value copies =
      l.broadcast(l.reshape(value, {outer, 1, inner}), {outer, count, inner});
  shape[axis] *= count;
  return l.reshape(copies, shape);
}

LogicalResult lowerTile(Lowering &l, onnx::NodeOp node) {
  SmallVector<int64_t> repeats;
  if (!l.getInts(node.getInput(1), repeats))
    return l.unsupported(node, "its repeats depend on data");
  Value operand = l.get(node.getInput(0));
  if (repeats.size() != shapeOf(operand).size() ||
      llvm::any_of(repeats, [](int64_t n) { return n < 1; }))
    return l.unsupported(node, "its repeats do not fit");
  int64_t elements = cast<ShapedType>(operand.getType()).getNumElements();
  for (int64_t count : repeats)
    if (llvm::MulOverflow(count, elements, elements))
      return l.unsupported(node, "its repeats do not fit");
  // The innermost first: what is copied again is the longest run.
  for (int64_t axis = rankOf(operand) - 1; axis >= 0; --axis)
    operand = repeat(l, operand, axis, repeats[axis]);
  l.set(node->getResult(0), operand);
  return success();
}

/// i1 [rows, columns]: how the diagonal that an element lies on, its column
/// less its row, compares with one.
Value compareDiagonals(Lowering &l, nn::ComparePredicate predicate,
                       ArrayRef<int64_t> shape, int64_t diagonal) {
  int64_t rows = shape[0], columns = shape[1];
  Value column = l.iota({1, columns}, 1), row = l.iota({rows, 1}, 0);
  // Far outside the matrix it makes no difference how far.
  int64_t bound = std::clamp(diagonal, -rows - 1, columns + 1);
  return l.compare(
      predicate, l.sub(column, row),
      l.constant(static_cast<double>(bound), l.builder.getI64Type()));
}

LogicalResult lowerTrilu(Lowering &l, onnx::NodeOp node) {
  SmallVector<int64_t> diagonal = {0};
  if (node.getInput(1) && !l.getInts(node.getInput(1), diagonal))
    return l.unsupported(node, "its diagonal depends on data");
  Value operand = l.get(node.getInput(0));
  ArrayRef<int64_t> shape = shapeOf(operand);
  if (shape.size() < 2 || diagonal.size() != 1)
    return l.unsupported(node, "only of matrices");
  bool upper = node.getInt("upper", 1) != 0;
  Value keep = compareDiagonals(
      l, upper ? nn::ComparePredicate::ge : nn::ComparePredicate::le,
      shape.take_back(2), diagonal[0]);
  Value zero = l.constant(0, elementType(operand));
  l.set(node->getResult(0), l.select(keep, operand, zero));
  return success();
}

LogicalResult lowerEyeLike(Lowering &l, onnx::NodeOp node) {
  ArrayRef<int64_t> shape = l.getShape(node.getInput(0));
  if (shape.size() != 2)
    return l.unsupported(node, "only like matrices");
  auto type = cast<ShapedType>(node->getResult(0).getType());
  Value ones =
      compareDiagonals(l, nn::ComparePredicate::eq, shape, node.getInt("k", 0));
  l.set(node->getResult(0), l.cast(ones, type.getElementType()));
  return success();
}

/// Turns round the first elements of each sample, as many as its length says:
/// element t < length comes from length - 1 - t.
LogicalResult lowerReverseSequence(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  int64_t batch = node.getInt("batch_axis", 1),
          time = node.getInt("time_axis", 0);
  SmallVector<int64_t> shape(shapeOf(operand)), line(2, 1), column(2, 1);
  if (shape.size() < 2 || std::min(batch, time) != 0 ||
      std::max(batch, time) != 1 ||
      l.getShape(node.getInput(1)) != ArrayRef<int64_t>(shape[batch]))
    return l.unsupported(node, "its axes or lengths do not fit");
  line[time] = shape[time];
  column[batch] = shape[batch];
  Type i64 = l.builder.getI64Type();
  Value lengths = l.reshape(l.cast(l.get(node.getInput(1)), i64), column);
  Value place = l.iota(line, time);
  Value turned = l.sub(l.sub(lengths, l.constant(1, i64)), place);
  Value within = l.compare(nn::ComparePredicate::lt, place, lengths);
  Value from = l.select(within, turned, place);
  // Both axes walk through the places, all but time through the data.
  nn::IndexAxes axes;
  for (int64_t i = 0; i < rankOf(operand); ++i) {
    axes.data.push_back(i == time ? -1 : i);
    axes.index.push_back(i < 2 ? i : -1);
  }
  axes.indexed = {time};
  l.set(node->getResult(0),
        nn::GatherOp::create(l.builder, l.loc, operand,
                             l.reshape(from, {shape[0], shape[1], 1}),
                             axes.data, axes.index, axes.indexed));
  return success();
}

/// A wider block is a mistake, and its square would not fit in an integer.
constexpr int64_t kMostBlock = 1 << 15;

/// Channels [C, b, b] beside blocks: mode DCR has the block's axes first.
LogicalResult lowerDepthToSpace(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  SmallVector<int64_t> s(shapeOf(operand));
  int64_t size = node.getInt("blocksize", 0);
  if (s.size() != 4 || size < 1 || size > kMostBlock ||
      s[1] % (size * size) != 0)
    return l.unsupported(node, "its blocksize does not fit");
  int64_t depth = s[1] / (size * size);
  Value result;
  if (node.getString("mode", "DCR") == "CRD")
    result =
        l.transpose(l.reshape(operand, {s[0], depth, size, size, s[2], s[3]}),
                    {0, 1, 4, 2, 5, 3});
  else
    result =
        l.transpose(l.reshape(operand, {s[0], size, size, depth, s[2], s[3]}),
                    {0, 3, 4, 1, 5, 2});
  l.set(node->getResult(0),
        l.reshape(result, {s[0], depth, s[2] * size, s[3] * size}));
  return success();
}

LogicalResult lowerSpaceToDepth(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  SmallVector<int64_t> s(shapeOf(operand));
  int64_t size = node.getInt("blocksize", 0);
  if (s.size() != 4 || size < 1 || size > kMostBlock || s[2] % size != 0 ||
      s[3] % size != 0)
    return l.unsupported(node, "its blocksize does not fit");
  SmallVector<int64_t> order = {0, 3, 5, 1, 2, 4};
  if (node.getString("mode", "DCR") == "CRD")
    order = {0, 1, 3, 5, 2, 4};
  Value blocks = l.transpose(
      l.reshape(operand, {s[0], s[1], s[2] / size, size, s[3] / size, size}),
      order);
  l.set(node->getResult(0), l.reshape(blocks, {s[0], s[1] * size * size,
                                               s[2] / size, s[3] / size}));
  return success();
}

} // namespace

void addRearrangeHandlers(HandlerTable &table) {
  table["Tile"] = lowerTile;
  table["Trilu"] = lowerTrilu;
  table["EyeLike"] = lowerEyeLike;
  table["ReverseSequence"] = lowerReverseSequence;
  table["DepthToSpace"] = lowerDepthToSpace;
  table["SpaceToDepth"] = lowerSpaceToDepth;
}

} // namespace shardonnx
