// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers tensors of integers that stand for numbers: weights that a tool has
// quantized, which are read and do not train, and what training that is aware
// of quantization rounds.

#include "Quantization.h"
#include "Rearrange.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

using nn::ComparePredicate;

/// In the graph, not of what it has become.
Type graphType(Value value) {
  return cast<ShapedType>(value.getType()).getElementType();
}

/// Each of the elements along `axis` so often, cut to the axis's `size`.
Value repeatAlong(Lowering &l, Value value, int64_t axis, int64_t times,
                  int64_t size) {
  SmallVector<int64_t> shape(shapeOf(value));
  SmallVector<int64_t> apart = shape, repeated, whole = shape;
  apart.insert(apart.begin() + axis + 1, 1);
  repeated = apart;
  repeated[size_t(axis) + 1] = times;
  whole[size_t(axis)] *= times;
  Value all = l.reshape(l.broadcast(l.reshape(value, apart), repeated), whole);
  return stepAxis(l, all, unsigned(axis), 0, 1, size);
}

/// A scale or zero point, as it broadcasts to elements of `shape`: one number,
/// one for each place along `axis`, or one for each `block` elements along it.
/// Null if it is none of these.
Value spread(Lowering &l, Value value, ArrayRef<int64_t> shape, int64_t axis,
             int64_t block) {
  ArrayRef<int64_t> own = shapeOf(value);
  if (block == 0) {
    if (ShapedType::getNumElements(own) == 1 && own.size() <= 1)
      return l.reshape(value, {});
    if (shape.empty() || own != ArrayRef<int64_t>(shape[size_t(axis)]))
      return {};
    SmallVector<int64_t> broadcast(shape.size(), 1);
    broadcast[size_t(axis)] = own[0];
    return l.reshape(value, broadcast);
  }
  SmallVector<int64_t> blocks(shape);
  int64_t size = shape[size_t(axis)], times = std::min(block, size);
  blocks[size_t(axis)] = times == 0 ? 0 : llvm::divideCeil(size, times);
  if (own != ArrayRef<int64_t>(blocks))
    return {};
  return repeatAlong(l, value, axis, times, size);
}

/// `input` in f32; known integers as numbers of a program, which may have no
/// others of their type.
Value numbersOf(Lowering &l, Value input) {
  const HostTensor *known = l.getConstant(input);
  if (!known || known->isFloat())
    return l.f32(l.get(input));
  return l.constant(*HostTensor::map(
      {*known}, l.builder.getF32Type(),
      [](ArrayRef<Scalar> x) { return ofFloat(static_cast<double>(x[0].i)); }));
}

/// What a QuantizeLinear or DequantizeLinear has beside its first input.
struct Grid {
  Value scales, zeros;  // f32, broadcastable; zeros: null if there are none
  IntegerType integers; // what they are kept as
};

/// Of elements of `shape`; the integers are `kept` unless a zero point tells
/// them. Nothing after `unsupported`.
std::optional<Grid> gridOf(Lowering &l, onnx::NodeOp node,
                           ArrayRef<int64_t> shape, Type kept) {
  Value scale = l.get(node.getInput(1)), zero = node.getInput(2);
  Grid grid{
      {}, {}, dyn_cast_or_null<IntegerType>(zero ? graphType(zero) : kept)};
  unsigned width = grid.integers ? grid.integers.getWidth() : 0;
  const HostTensor *known = zero ? l.getConstant(zero) : nullptr;
  if (known && known->isSplat() && known->front().i == 0)
    zero = Value();
  // Of up to 16 bits, a sum or difference has all its bits in f32.
  if (width < 8 || width > (zero ? 16 : 32) || !isFloat(scale)) {
    l.unsupported(node, "only of integers of 8 to 32 bits, those of more than "
                        "16 without a zero point");
    return std::nullopt;
  }
  int64_t block = node.getInt("block_size", 0);
  auto axis =
      normalizeAxis(node.getInt("axis", 1), static_cast<int64_t>(shape.size()));
  if (ShapedType::getNumElements(shapeOf(scale)) == 1 && block == 0)
    axis = 0;
  if (axis && block >= 0 && (block == 0 || !shape.empty())) {
    grid.scales = spread(l, l.f32(scale), shape, *axis, block);
    if (zero)
      grid.zeros = spread(l, numbersOf(l, zero), shape, *axis, block);
  }
  if (grid.scales && (grid.zeros || !zero))
    return grid;
  l.unsupported(node, "its scale or zero point does not fit its axis and "
                      "block_size");
  return std::nullopt;
}

/// x/scale + zero point, a whole number in f32 that may lie out of range.
Value placeOnGrid(Lowering &l, Value x, const Grid &grid) {
  Value place = l.unary<nn::RoundOp>(l.div(l.f32(x), grid.scales));
  return grid.zeros ? l.add(place, grid.zeros) : place;
}

std::pair<Value, Value> rangeOf(Lowering &l, IntegerType integers) {
  double count = std::ldexp(1.0, static_cast<int>(integers.getWidth()));
  double least = integers.isUnsigned() ? 0 : -count / 2;
  return {l.constant(least), l.constant(least + count - 1)};
}

/// What zero points and outputs without them are by default: uint8.
Type quantizedType(onnx::NodeOp node) {
  constexpr int64_t kUint8 = 2; // TensorProto's number
  int64_t type = node.getInt("output_dtype", 0);
  return elementTypeOf(type == 0 ? kUint8 : type, node.getContext());
}

Value saturate(Lowering &l, Value place, const Grid &grid) {
  auto [least, most] = rangeOf(l, grid.integers);
  return l.binary<nn::MinOp>(l.binary<nn::MaxOp>(place, least), most);
}

/// Of the integers that a node makes: whether they are only read as numbers
/// again.
bool isReadBack(Value result) {
  return llvm::all_of(result.getUsers(), [](Operation *user) {
    auto reader = dyn_cast<onnx::NodeOp>(user);
    return reader && reader.getOpType() == "DequantizeLinear";
  });
}

/// Halves go to the even number.
LogicalResult lowerQuantizeLinear(Lowering &l, onnx::NodeOp node) {
  Value x = l.get(node.getInput(0));
  if (!isFloat(x))
    return l.unsupported(node, "only of floats");
  auto grid = gridOf(l, node, shapeOf(x), quantizedType(node));
  if (!grid)
    return failure();
  // Bounds of 32 bits are more than f32 has bits for.
  if (grid->integers.getWidth() > 16)
    return l.unsupported(node, "to integers of more than 16 bits");
  Value place = saturate(l, placeOnGrid(l, x, *grid), *grid);
  l.set(node->getResult(0),
        isReadBack(node->getResult(0)) ? place : l.cast(place, grid->integers));
  return success();
}

/// (place - zero point)·scale
Value leaveGrid(Lowering &l, Value place, const Grid &grid) {
  if (grid.zeros)
    place = l.sub(place, grid.zeros);
  return l.mul(place, grid.scales);
}

/// x rounded to the grid. The gradient goes straight through where x was in
/// range, as torch.fake_quantize_per_tensor_affine has it.
Value roundToGrid(Lowering &l, Value x, const Grid &grid) {
  auto [least, most] = rangeOf(l, grid.integers);
  Value place = placeOnGrid(l, x, grid), zero = l.constant(0);
  Value rounded = leaveGrid(l, saturate(l, place, grid), grid);
  Value below = l.compare(ComparePredicate::lt, place, least);
  Value above = l.compare(ComparePredicate::gt, place, most);
  Value inside = l.select(below, zero, l.select(above, zero, l.f32(x)));
  // A difference of zero, whose first term alone has a gradient.
  Value through = l.sub(inside, l.unary<nn::StopGradientOp>(inside));
  return l.add(l.unary<nn::StopGradientOp>(rounded), through);
}

/// Whether two nodes spread the same scales over elements in the same way.
bool sameSpread(Lowering &l, onnx::NodeOp a, onnx::NodeOp b) {
  auto axisOf = [&](onnx::NodeOp node) {
    return normalizeAxis(node.getInt("axis", 1),
                         rankOf(l.get(node.getInput(0))));
  };
  int64_t block = a.getInt("block_size", 0);
  bool forAll = ShapedType::getNumElements(l.getShape(a.getInput(1))) == 1;
  return block == b.getInt("block_size", 0) &&
         ((forAll && block == 0) || axisOf(a) == axisOf(b));
}

/// The QuantizeLinear of data on the same grid whose result `node` reads, or
/// null.
onnx::NodeOp quantizerOf(Lowering &l, onnx::NodeOp node) {
  auto before = node.getInput(0).getDefiningOp<onnx::NodeOp>();
  bool same = before && !l.getConstant(node.getInput(0)) &&
              before.getOpType() == "QuantizeLinear" &&
              before.getInput(1) == node.getInput(1) &&
              before.getInput(2) == node.getInput(2) &&
              sameSpread(l, before, node);
  return same ? before : onnx::NodeOp();
}

LogicalResult lowerDequantizeLinear(Lowering &l, onnx::NodeOp node) {
  Value x = numbersOf(l, node.getInput(0)), scale = l.get(node.getInput(1));
  auto grid = gridOf(l, node, shapeOf(x), graphType(node.getInput(0)));
  if (!grid)
    return failure();
  onnx::NodeOp before = quantizerOf(l, node);
  Value result = before ? roundToGrid(l, l.get(before.getInput(0)), *grid)
                        : leaveGrid(l, x, *grid);
  int64_t type = node.getInt("output_dtype", 0);
  l.set(node->getResult(0),
        l.cast(result, type == 0 ? elementType(scale)
                                 : elementTypeOf(type, node.getContext())));
  return success();
}

} // namespace

bool isOfNumbers(Lowering &l, onnx::NodeOp node) {
  auto known = [&](unsigned input) {
    Value value = node.getInput(input);
    return !value || l.getConstant(value);
  };
  if (node.getOpType() == "QuantizeLinear")
    return known(2) && isReadBack(node->getResult(0));
  return node.getOpType() == "DequantizeLinear" && known(2) &&
         (known(0) || isFloat(l.get(node.getInput(0))));
}

void addQuantizationHandlers(HandlerTable &table) {
  table["QuantizeLinear"] = lowerQuantizeLinear;
  table["DequantizeLinear"] = lowerDequantizeLinear;
}

} // namespace shardonnx
