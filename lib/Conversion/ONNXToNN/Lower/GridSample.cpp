// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers GridSample (torch.nn.functional.grid_sample) over any number of
// spatial axes: the neighbours of every point in one gather, then a weighted
// sum. Gradients of the data and of the grid follow from these.

#include "Index.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace shardonnx {
namespace {

enum class Mode { Nearest, Linear, Cubic };
enum class Padding { Zeros, Border, Reflection };

/// A neighbour along one axis: its index, f32, within the axis, and its weight.
struct Neighbour {
  Value index, weight;
};

class GridSampler {
public:
  GridSampler(Lowering &l, Mode mode, Padding padding, bool alignCorners)
      : l(l), mode(mode), padding(padding), alignCorners(alignCorners) {}

  /// Of positions in [-1, 1] among `size` elements.
  SmallVector<Neighbour, 4> neighboursAt(Value positions, int64_t size);

private:
  Value locate(Value positions, double size);
  Value reflect(Value x, double size);
  Value clamp(Value x, double high);
  Neighbour at(Value index, Value weight, double size);

  Lowering &l;
  Mode mode;
  Padding padding;
  bool alignCorners;
};

/// `x` within [0, high], its gradient zero from there on; NaN is 0.
Value GridSampler::clamp(Value x, double high) {
  Value top = l.constant(high), zero = l.constant(0.0);
  x = l.select(l.compare(nn::ComparePredicate::lt, x, top), x, top);
  return l.select(l.compare(nn::ComparePredicate::gt, x, zero), x, zero);
}

/// Mirrors `x` at the borders until it lies between them.
Value GridSampler::reflect(Value x, double size) {
  double low = alignCorners ? 0 : -0.5;
  double range = alignCorners ? size - 1 : size;
  if (range <= 0)
    return l.mul(x, 0.0);
  Value past = l.unary<nn::AbsOp>(l.add(x, -low));
  Value turns = l.unary<nn::FloorOp>(l.mul(past, 1 / range));
  Value rest = l.sub(past, l.mul(turns, range));
  Value pairs = l.unary<nn::FloorOp>(l.mul(turns, 0.5));
  Value even = l.compare(nn::ComparePredicate::eq, turns, l.mul(pairs, 2.0));
  Value back = l.sub(l.constant(range), rest);
  return l.add(l.select(even, rest, back), low);
}

Value GridSampler::locate(Value positions, double size) {
  Value moved = l.add(positions, 1.0);
  if (alignCorners)
    return l.mul(l.mul(moved, 0.5), size - 1);
  return l.mul(l.add(l.mul(moved, size), -1.0), 0.5);
}

/// What stands beyond the border is zero, or another element. Only cubic
/// neighbours with a weight do, where the position is moved within it.
Neighbour GridSampler::at(Value index, Value weight, double size) {
  if (mode == Mode::Cubic && padding == Padding::Reflection)
    index = reflect(index, size);
  Value inside = clamp(index, size - 1);
  if (padding == Padding::Zeros)
    weight = l.select(l.compare(nn::ComparePredicate::eq, inside, index),
                      weight, l.constant(0.0));
  return {inside, weight};
}

/// Keys' cubic kernel with a = -0.75, of the neighbours -1, 0, 1 and 2 of a
/// position that lies `ratio` behind neighbour 0.
static SmallVector<Value, 4> cubicWeights(Lowering &l, Value ratio) {
  constexpr double a = -0.75;
  // Σ c·dⁱ, the highest power first.
  auto polynomial = [&](Value d, ArrayRef<double> coefficients) {
    Value value = l.mul(d, coefficients.front());
    for (double c : coefficients.drop_front().drop_back())
      value = l.mul(l.add(value, c), d);
    return l.add(value, coefficients.back());
  };
  auto inner = [&](Value d) { return polynomial(d, {a + 2, -(a + 3), 0, 1}); };
  auto outer = [&](Value d) {
    return polynomial(d, {a, -5 * a, 8 * a, -4 * a});
  };
  Value back = l.oneMinus(ratio);
  return {outer(l.add(ratio, 1.0)), inner(ratio), inner(back),
          outer(l.add(back, 1.0))};
}

/// Of cubic neighbours each finds its element beyond the border, as PyTorch has
/// it; else the position is moved there.
SmallVector<Neighbour, 4> GridSampler::neighboursAt(Value positions,
                                                    int64_t size) {
  auto length = static_cast<double>(size);
  Value x = locate(l.f32(positions), length);
  if (mode != Mode::Cubic && padding == Padding::Reflection)
    x = reflect(x, length);
  if (mode != Mode::Cubic && padding != Padding::Zeros)
    x = clamp(x, length - 1);
  if (mode == Mode::Nearest)
    return {at(l.unary<nn::RoundOp>(x),
               l.broadcast(l.constant(1.0), shapeOf(x)), length)};
  Value left = l.unary<nn::FloorOp>(x), ratio = l.sub(x, left);
  if (mode == Mode::Linear)
    return {at(left, l.oneMinus(ratio), length),
            at(l.add(left, 1.0), ratio, length)};
  SmallVector<Neighbour, 4> neighbours;
  for (auto [i, weight] : llvm::enumerate(cubicWeights(l, ratio)))
    neighbours.push_back(
        at(l.add(left, static_cast<double>(i) - 1), weight, length));
  return neighbours;
}

/// All combinations of neighbours along each axis: of places in the flattened
/// data, and products of weights.
SmallVector<Neighbour> combine(Lowering &l, GridSampler sampler, Value grid,
                               ArrayRef<int64_t> spatial) {
  SmallVector<Neighbour> all;
  auto axes = static_cast<int64_t>(spatial.size());
  int64_t points = shapeOf(grid)[1];
  for (auto [axis, size] : llvm::enumerate(spatial)) {
    // The last axis comes first.
    Value positions = l.reshape(l.slice(grid, 2, axes - 1 - int64_t(axis), 1),
                                {shapeOf(grid)[0], points});
    SmallVector<Neighbour> longer;
    for (Neighbour next : sampler.neighboursAt(positions, size)) {
      // An index of f32 is exact up to 2^24, that of all axes together need
      // not be.
      next.index = l.cast(next.index, l.builder.getI64Type());
      if (axis == 0)
        longer.push_back(next);
      for (const Neighbour &left : all)
        longer.push_back(
            {l.add(l.mul(left.index, static_cast<double>(size)), next.index),
             l.mul(left.weight, next.weight)});
    }
    all = std::move(longer);
  }
  return all;
}

/// [batch, points] of each, joined to [batch, neighbours · points, 1].
Value join(Lowering &l, ArrayRef<Value> parts) {
  SmallVector<int64_t> shape(shapeOf(parts.front()));
  shape[1] *= static_cast<int64_t>(parts.size());
  Value joined =
      parts.size() == 1
          ? parts.front()
          : nn::ConcatOp::create(
                l.builder, l.loc,
                RankedTensorType::get(shape, elementType(parts.front())), parts,
                l.builder.getI64IntegerAttr(1));
  shape.push_back(1);
  return l.reshape(joined, shape);
}

/// The data [batch, channels, …] at the neighbours, weighted and summed:
/// [batch, points, channels], f32.
Value sum(Lowering &l, Value data, ArrayRef<Neighbour> neighbours) {
  ArrayRef<int64_t> shape = shapeOf(data);
  int64_t batch = shape[0], channels = shape[1];
  int64_t places = ShapedType::getNumElements(shape.drop_front(2));
  Value rows =
      l.transpose(l.reshape(data, {batch, channels, places}), {0, 2, 1});
  auto indices =
      llvm::map_to_vector(neighbours, [](auto &n) { return n.index; });
  auto weights =
      llvm::map_to_vector(neighbours, [](auto &n) { return n.weight; });
  auto axes = nn::IndexAxes::slices(/*coordinates=*/1, /*batchRank=*/1, 3, 3);
  Value read = nn::GatherOp::create(l.builder, l.loc, rows, join(l, indices),
                                    axes.data, axes.index, axes.indexed);
  Value weighted = l.mul(l.f32(read), join(l, weights));
  auto count = static_cast<int64_t>(neighbours.size());
  if (count == 1)
    return weighted;
  int64_t points = shapeOf(weighted)[1] / count;
  return l.sum(l.reshape(weighted, {batch, count, points, channels}), {1},
               /*keepdims=*/false);
}

LogicalResult lowerGridSample(Lowering &l, onnx::NodeOp node) {
  Value data = l.get(node.getInput(0)), grid = l.get(node.getInput(1));
  SmallVector<int64_t> shape(shapeOf(data)), points(shapeOf(grid));
  auto rank = static_cast<int64_t>(shape.size());
  if (rank < 3 || rankOf(grid) != rank || points[0] != shape[0] ||
      points.back() != rank - 2 || !isFloat(data) || !isFloat(grid))
    return l.unsupported(node, "its grid does not fit");
  // Opset 16 has other names for the modes.
  auto mode =
      llvm::StringSwitch<std::optional<Mode>>(node.getString("mode", "linear"))
          .Cases({"linear", "bilinear"}, Mode::Linear)
          .Cases({"cubic", "bicubic"}, Mode::Cubic)
          .Case("nearest", Mode::Nearest)
          .Default(std::nullopt);
  auto padding = llvm::StringSwitch<std::optional<Padding>>(
                     node.getString("padding_mode", "zeros"))
                     .Case("zeros", Padding::Zeros)
                     .Case("border", Padding::Border)
                     .Case("reflection", Padding::Reflection)
                     .Default(std::nullopt);
  if (!mode || !padding)
    return l.unsupported(node, "its mode or padding_mode is not known");
  SmallVector<int64_t> made = {points[0]};
  made.append(points.begin() + 1, points.end() - 1);
  int64_t count = ShapedType::getNumElements(made) / points[0];
  grid = l.reshape(grid, {points[0], count, rank - 2});
  GridSampler sampler(l, *mode, *padding, node.getInt("align_corners", 0) != 0);
  Value result =
      sum(l, data, combine(l, sampler, grid, ArrayRef(shape).drop_front(2)));
  made.push_back(shape[1]);
  // Channels go before the points.
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::rotate(order.begin() + 1, order.end() - 1, order.end());
  result = l.transpose(l.reshape(result, made), order);
  l.set(node->getResult(0), l.cast(result, elementType(data)));
  return success();
}

} // namespace

void addGridSampleHandlers(HandlerTable &table) {
  table["GridSample"] = lowerGridSample;
}

} // namespace shardonnx
