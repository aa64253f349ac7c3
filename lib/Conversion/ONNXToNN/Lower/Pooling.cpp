// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers poolings to reductions of windows.

#include "Index.h"
#include "Rearrange.h"
#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace mlir;

namespace shardonnx {
namespace {

LogicalResult checkOperand(Lowering &l, onnx::NodeOp node, Value x) {
  if (!isa<FloatType>(elementTypeOf(x)))
    return l.unsupported(node, "only of floats");
  if (shapeOf(x).size() < 3 || shapeOf(x).size() > 5)
    return l.unsupported(node, "only of 1, 2 or 3 spatial axes");
  return success();
}

/// The windows of a pooling. With ceil_mode a last window may reach over the
/// end; `beyond` is by how much, behind the padding.
std::optional<Windows> readPooling(Lowering &l, onnx::NodeOp node, Value x,
                                   SmallVectorImpl<int64_t> &beyond) {
  ArrayRef<int64_t> shape = shapeOf(x);
  auto w = readWindows(l, node, shape);
  if (!w)
    return std::nullopt;
  bool ceil = node.getInt("ceil_mode", 0) != 0 &&
              node.getString("auto_pad", "NOTSET") == "NOTSET";
  for (int64_t i = 0; i < w->rank(); ++i) {
    int64_t size = shape[i + 2], padded = size + w->low[i] + w->high[i];
    int64_t stride = w->strides[i], span = w->span(i);
    // A window over padding alone has no elements to pool.
    if (padded < span || w->low[i] >= span || w->high[i] >= span) {
      (void)l.unsupported(node, "its windows do not fit the padded input");
      return std::nullopt;
    }
    int64_t count = (padded - span + (ceil ? stride - 1 : 0)) / stride + 1;
    if (ceil && (count - 1) * stride >= size + w->low[i])
      --count;
    beyond.push_back(
        std::max<int64_t>(0, (count - 1) * stride + span - padded));
  }
  return w;
}

/// The windows' axes of a value of windows.
SmallVector<int64_t> lastAxes(Value value, int64_t count) {
  int64_t rank = static_cast<int64_t>(shapeOf(value).size());
  return llvm::to_vector(llvm::seq<int64_t>(rank - count, rank));
}

/// A pooling's windows and their elements, around the input `filler`.
struct Pooling {
  Windows windows;
  Value input, elements;
};

std::optional<Pooling> pool(Lowering &l, onnx::NodeOp node, double filler) {
  Value x = l.get(node.getInput(0));
  SmallVector<int64_t> beyond;
  if (failed(checkOperand(l, node, x)))
    return std::nullopt;
  auto w = readPooling(l, node, x, beyond);
  if (!w)
    return std::nullopt;
  SmallVector<int64_t> behind;
  for (auto [pad, more] : llvm::zip(w->high, beyond))
    behind.push_back(pad + more);
  Value padded = padSpatial(l, x, w->low, behind, filler);
  return Pooling{*w, x, slideWindows(l, padded, *w)};
}

/// One element from each window.
template <typename Reduce>
Value reduceWindows(Lowering &l, Value elements, const Windows &w) {
  return Reduce::create(l.builder, l.loc(), elements,
                        lastAxes(elements, w.rank()), /*keepdims=*/false);
}

LogicalResult lowerMaxPool(Lowering &l, onnx::NodeOp node) {
  if (node->getNumResults() > 1 && !node->getResult(1).use_empty())
    return l.unsupported(node, "with its indices");
  auto p = pool(l, node, -std::numeric_limits<double>::infinity());
  if (!p)
    return failure();
  l.set(node->getResult(0),
        reduceWindows<nn::ReduceMaxOp>(l, p->elements, p->windows));
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
      l.builder, l.loc(), type,
      DenseElementsAttr::get(type, ArrayRef<float>(values)));
}

LogicalResult lowerAveragePool(Lowering &l, onnx::NodeOp node) {
  auto p = pool(l, node, 0);
  if (!p)
    return failure();
  const Windows &w = p->windows;
  bool include = node.getInt("count_include_pad", 0) != 0;
  Value result = reduceWindows<nn::ReduceSumOp>(l, p->elements, w);
  for (int64_t i = 0; i < w.rank(); ++i) {
    Value counts = inverseCounts(l, w, i, shapeOf(p->input)[i + 2],
                                 shapeOf(result)[i + 2], include);
    result =
        l.binary<nn::MulOp>(result, l.castTo(counts, elementTypeOf(result)));
  }
  l.set(node->getResult(0), result);
  return success();
}

/// |x|^p, and the p-th root of a sum of such.
Value power(Lowering &l, Value value, double exponent) {
  return l.binary<nn::PowOp>(value, l.splat(exponent, elementTypeOf(value)));
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
  int64_t rank = static_cast<int64_t>(shapeOf(x).size());
  if (!isa<FloatType>(elementTypeOf(x)) || rank < 3)
    return l.unsupported(node, "only of floats with spatial axes");
  l.set(node->getResult(0),
        Reduce::create(l.builder, l.loc(), x,
                       llvm::to_vector(llvm::seq<int64_t>(2, rank)),
                       /*keepdims=*/true));
  return success();
}

/// The shape that a pooling read to leave `shape`: all that its windows cover.
bool readUnpooled(onnx::NodeOp node, SmallVectorImpl<int64_t> &shape) {
  size_t rank = shape.size() - 2;
  SmallVector<int64_t> kernel, strides, pads;
  if (!node.getInts("kernel_shape", kernel) || kernel.size() != rank)
    return false;
  if (!node.getInts("strides", strides))
    strides.assign(rank, 1);
  if (!node.getInts("pads", pads))
    pads.assign(2 * rank, 0);
  if (strides.size() != rank || pads.size() != 2 * rank)
    return false;
  for (size_t i = 0; i < rank; ++i) {
    int64_t &size = shape[i + 2];
    size = (size - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i];
    if (size < 1 || size > (int64_t(1) << 20))
      return false;
  }
  return true;
}

/// Each element back to where MaxPool found it: the indices count the elements
/// of all images. An output_shape adds zeros behind.
LogicalResult lowerMaxUnpool(Lowering &l, onnx::NodeOp node) {
  Value x = l.get(node.getInput(0)), places = l.get(node.getInput(1));
  if (failed(checkOperand(l, node, x)))
    return failure();
  SmallVector<int64_t> full(shapeOf(x)), wanted;
  if (!readUnpooled(node, full))
    return l.unsupported(node, "its kernel, strides or pads do not fit");
  if (!areIndices(places) || shapeOf(places) != shapeOf(x))
    return l.unsupported(node, "its indices do not fit");
  int64_t count = ShapedType::getNumElements(shapeOf(x));
  auto flat =
      RankedTensorType::get(ShapedType::getNumElements(full), elementTypeOf(x));
  auto axes = nn::IndexAxes::along(0, /*dataRank=*/1, /*indexRank=*/1);
  Value result = nn::ScatterOp::create(
      l.builder, l.loc(), flat, nn::Scatter::none,
      l.reshape(places, {count, 1}), l.reshape(x, {count}), /*data=*/Value(),
      axes.data, axes.index, axes.indexed);
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
