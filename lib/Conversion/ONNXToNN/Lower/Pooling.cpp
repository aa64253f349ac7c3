// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers poolings to reductions of windows.

#include "Index.h"
#include "Rearrange.h"
#include "shardonnx/Dialect/NN/IR/Ties.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace shardonnx {
namespace {

/// The windows' axes of a value of windows.
SmallVector<int64_t> lastAxes(Value value, int64_t count) {
  int64_t rank = rankOf(value);
  return llvm::to_vector(llvm::seq<int64_t>(rank - count, rank));
}

/// A pooling's windows and their elements, around the input `filler`.
struct Pooling {
  Windows windows;
  Value input, elements;
};

/// The windows over `x` with `filler` around it.
Value window(Lowering &l, Value x, const Windows &w, double filler) {
  SmallVector<int64_t> behind;
  for (auto [high, beyond] : llvm::zip(w.high, w.beyond))
    behind.push_back(high + beyond);
  return slideWindows(l, padSpatial(l, x, w.low, behind, filler), w);
}

std::optional<Pooling> pool(Lowering &l, onnx::NodeOp node, double filler) {
  Value x = l.get(node.getInput(0));
  SmallVector<int64_t> kernel;
  if (!isFloat(x) && !(l.interpreting && node.getOpType() == "MaxPool"))
    return l.unsupported(node, "only of floats");
  if (rankOf(x) < 3 || rankOf(x) > 5)
    return l.unsupported(node, "only of 1, 2 or 3 spatial axes");
  Windows w;
  node.getInts("kernel_shape", kernel);
  if (StringRef why = readWindows(node, shapeOf(x).drop_front(2), kernel, w);
      !why.empty())
    return l.unsupported(node, why);
  for (int64_t i = 0; i < w.rank(); ++i)
    if (std::max(w.span(i), shapeOf(x)[i + 2]) > maxEvaluated)
      return l.unsupported(node, "its windows are too large or too many");
  // A window over padding alone has no elements to pool.
  for (int64_t i = 0; i < w.rank(); ++i)
    if (w.low[i] >= w.span(i) || w.high[i] >= w.span(i))
      return l.unsupported(node, "its windows do not fit the padded input");
  return Pooling{w, x, window(l, x, w, filler)};
}

/// As in PyTorch, the gradient of a pooling is that of the first maximum.
void giveToFirst(Lowering &l, Value most) {
  most.getDefiningOp()->setAttr(nn::kFirstAttr, l.builder.getUnitAttr());
}

/// One element from each window.
template <typename Reduce>
Value reduceWindows(Lowering &l, Value elements, const Windows &w) {
  return Reduce::create(l.builder, l.loc, elements,
                        lastAxes(elements, w.rank()), /*keepdims=*/false);
}

/// The place of each element of a plane, [1, 1, spatial…], in the order of its
/// axes or, with `byColumn`, of its axes backwards.
Value placesInPlane(Lowering &l, ArrayRef<int64_t> spatial, bool byColumn) {
  Value places;
  int64_t step = 1;
  for (size_t n = 0; n < spatial.size(); ++n) {
    size_t i = byColumn ? n : spatial.size() - 1 - n;
    SmallVector<int64_t> line(spatial.size() + 2, 1);
    line[i + 2] = spatial[i];
    Value counts = l.mul(l.iota(line, static_cast<int64_t>(i + 2)),
                         static_cast<double>(step));
    places = places ? l.add(places, counts) : counts;
    step *= spatial[i];
  }
  return places;
}

/// Where in the whole input the maximum of each window stands.
Value placesOfMaxima(Lowering &l, const Pooling &p, bool byColumn) {
  const Windows &w = p.windows;
  ArrayRef<int64_t> x = shapeOf(p.input);
  int64_t size = ShapedType::getNumElements(w.sizes);
  auto asRows = [&](Value value) {
    SmallVector<int64_t> shape(shapeOf(value).drop_back(w.rank()));
    shape.push_back(size);
    return l.reshape(value, shape);
  };
  Value inPlane = asRows(
      window(l, placesInPlane(l, x.drop_front(2), byColumn), w, /*filler=*/0));
  Value elements = asRows(p.elements);
  inPlane = l.broadcast(inPlane, shapeOf(elements));
  int64_t last = rankOf(elements) - 1;
  auto best = nn::TopKOp::create(l.builder, l.loc, elements, last, 1,
                                 /*smallest=*/false, /*last_first=*/false);
  SmallVector<int64_t> shape(shapeOf(best.getIndices()));
  shape.push_back(1);
  auto axes = nn::IndexAxes::elements(last, last + 1);
  Value places = nn::GatherOp::create(l.builder, l.loc, inPlane,
                                      l.reshape(best.getIndices(), shape),
                                      axes.data, axes.index, axes.indexed);
  SmallVector<int64_t> planes(rankOf(p.input), 1);
  planes[0] = x[0];
  planes[1] = x[1];
  Value before = l.reshape(l.iota({x[0] * x[1]}, 0), planes);
  auto plane = static_cast<double>(ShapedType::getNumElements(x.drop_front(2)));
  shape.pop_back_n(2); // those of the best and of the coordinate
  return l.add(l.reshape(places, shape), l.mul(before, plane));
}

LogicalResult lowerMaxPool(Lowering &l, onnx::NodeOp node) {
  double least = -std::numeric_limits<double>::infinity();
  auto type = cast<ShapedType>(node->getResult(0).getType()).getElementType();
  if (auto integer = dyn_cast<IntegerType>(type))
    least = integer.isUnsigned() ? 0 : -std::ldexp(0.5, integer.getWidth());
  auto p = pool(l, node, least);
  if (!p)
    return failure();
  Value most = reduceWindows<nn::ReduceMaxOp>(l, p->elements, p->windows);
  giveToFirst(l, most);
  l.set(node->getResult(0), most);
  if (node->getNumResults() > 1 && !node->getResult(1).use_empty())
    l.set(node->getResult(1),
          placesOfMaxima(l, *p, node.getInt("storage_order", 0) != 0));
  return success();
}

/// One over how many elements each window along an axis counts.
Value inverseCounts(Lowering &l, const Windows &w, int64_t i, int64_t size,
                    int64_t places, bool includePadding) {
  int64_t begin = includePadding ? -w.low[i] : 0;
  int64_t end = includePadding ? size + w.high[i] : size;
  SmallVector<float> values;
  for (int64_t at = 0; at < places; ++at) {
    int64_t count = 0, first = at * w.strides[i] - w.low[i];
    for (int64_t k = 0; k < w.sizes[i]; ++k) {
      int64_t place = first + k * w.dilations[i];
      count += place >= begin && place < end;
    }
    values.push_back(1.0F / static_cast<float>(std::max<int64_t>(count, 1)));
  }
  SmallVector<int64_t> shape(w.rank() - i, 1);
  shape[0] = places;
  auto type = RankedTensorType::get(shape, l.builder.getF32Type());
  return nn::ConstantOp::create(
      l.builder, l.loc, type,
      DenseElementsAttr::get(type, ArrayRef<float>(values)));
}

LogicalResult lowerAveragePool(Lowering &l, onnx::NodeOp node) {
  auto p = pool(l, node, 0);
  if (!p)
    return failure();
  const Windows &w = p->windows;
  bool include = node.getInt("count_include_pad", 0) != 0;
  Value result = reduceWindows<nn::ReduceSumOp>(l, p->elements, w);
  // What PyTorch divides by instead, which ONNX has no place for.
  if (int64_t divisor = node.getInt("divisor_override", 0); divisor != 0) {
    l.set(node->getResult(0),
          l.mul(result, 1.0 / static_cast<double>(divisor)));
    return success();
  }
  for (int64_t i = 0; i < w.rank(); ++i) {
    Value counts = inverseCounts(l, w, i, shapeOf(p->input)[i + 2],
                                 shapeOf(result)[i + 2], include);
    result = l.binary<nn::MulOp>(result, l.cast(counts, elementType(result)));
  }
  l.set(node->getResult(0), result);
  return success();
}

/// |x|^p, and the p-th root of a sum of such.
Value power(Lowering &l, Value value, double exponent) {
  return l.binary<nn::PowOp>(value, l.constant(exponent, elementType(value)));
}

LogicalResult lowerLpPool(Lowering &l, onnx::NodeOp node) {
  auto pooling = pool(l, node, 0);
  if (!pooling)
    return failure();
  double p = static_cast<double>(node.getInt("p", 2));
  Value powers = power(l, l.unary<nn::AbsOp>(pooling->elements), p);
  Value total = reduceWindows<nn::ReduceSumOp>(l, powers, pooling->windows);
  l.set(node->getResult(0), power(l, total, 1 / p));
  return success();
}

template <typename Reduce>
LogicalResult lowerGlobal(Lowering &l, onnx::NodeOp node) {
  Value x = l.get(node.getInput(0));
  int64_t rank = rankOf(x);
  if (!isFloat(x) || rank < 3)
    return l.unsupported(node, "only of floats with spatial axes");
  Value result = Reduce::create(l.builder, l.loc, x,
                                llvm::to_vector(llvm::seq<int64_t>(2, rank)),
                                /*keepdims=*/true);
  if (result.getDefiningOp<nn::ReduceMaxOp>())
    giveToFirst(l, result);
  l.set(node->getResult(0), result);
  return success();
}

/// Each element back to where MaxPool found it: the indices count the elements
/// of all images. An output_shape adds zeros behind.
LogicalResult lowerMaxUnpool(Lowering &l, onnx::NodeOp node) {
  Value x = l.get(node.getInput(0)), places = l.get(node.getInput(1));
  if (!isFloat(x) || rankOf(x) < 3)
    return l.unsupported(node, "only of floats with spatial axes");
  SmallVector<int64_t> full(shapeOf(x)), wanted, kernel;
  node.getInts("kernel_shape", kernel);
  Windows w;
  if (StringRef why =
          readTransposedWindows(node, shapeOf(x).drop_front(2), kernel, w);
      !why.empty())
    return l.unsupported(node, why);
  for (int64_t i = 0; i < w.rank(); ++i)
    full[i + 2] = w.extent(i) - w.low[i] - w.high[i];
  if (!areIndices(places) || shapeOf(places) != shapeOf(x))
    return l.unsupported(node, "its indices do not fit");
  int64_t count = ShapedType::getNumElements(shapeOf(x));
  auto flat =
      RankedTensorType::get(ShapedType::getNumElements(full), elementType(x));
  auto axes = nn::IndexAxes::along(0, /*dataRank=*/1, /*indexRank=*/1);
  Value result = nn::ScatterOp::create(
      l.builder, l.loc, flat, nn::Scatter::none, l.reshape(places, {count, 1}),
      l.reshape(x, {count}), /*data=*/Value(), axes.data, axes.index,
      axes.indexed);
  result = l.reshape(result, full);
  if (Value given = node.getInput(2); given && !l.getInts(given, wanted))
    return l.unsupported(node, "its output_shape depends on data");
  for (size_t axis = 0; axis < wanted.size(); ++axis) {
    if (wanted.size() != full.size() || wanted[axis] < full[axis])
      return l.unsupported(node, "its output_shape does not fit");
    if (int64_t more = wanted[axis] - full[axis])
      result = padAxis(l, result, static_cast<unsigned>(axis), 0, more, 0);
  }
  l.set(node->getResult(0), result);
  return success();
}

} // namespace

void addPoolingHandlers(HandlerTable &table) {
  table["MaxPool"] = lowerMaxPool;
  table["MaxUnpool"] = lowerMaxUnpool;
  table["AveragePool"] = lowerAveragePool;
  table["LpPool"] = lowerLpPool;
  table["GlobalAveragePool"] = lowerGlobal<nn::ReduceMeanOp>;
  table["GlobalMaxPool"] = lowerGlobal<nn::ReduceMaxOp>;
}

} // namespace shardonnx
