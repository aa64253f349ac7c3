// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers convolutions to matrix products. Patches that neither overlap nor
// leave gaps (a vision transformer's) are a reshape of the image; other windows
// are copied into rows, one for each place of the kernel.

#include "Index.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace shardonnx {

std::optional<Windows> readWindows(Lowering &l, onnx::NodeOp node,
                                   ArrayRef<int64_t> shape,
                                   ArrayRef<int64_t> sizes) {
  Windows w;
  w.sizes.assign(sizes.begin(), sizes.end());
  int64_t rank = static_cast<int64_t>(shape.size()) - 2;
  SmallVector<int64_t> given, pads;
  if (node.getInts("kernel_shape", given)) {
    if (!sizes.empty() && ArrayRef<int64_t>(given) != sizes)
      return (void)l.unsupported(node, "kernel_shape is not the kernel's"),
             std::nullopt;
    w.sizes = given;
  }
  if (!node.getInts("strides", w.strides))
    w.strides.assign(std::max<int64_t>(rank, 0), 1);
  if (!node.getInts("dilations", w.dilations))
    w.dilations.assign(std::max<int64_t>(rank, 0), 1);
  if (!node.getInts("pads", pads))
    pads.assign(std::max<int64_t>(2 * rank, 0), 0);
  // What is larger is a mistake, and its products would not fit in an integer.
  constexpr int64_t kMost = 1 << 16;
  auto positive = [](ArrayRef<int64_t> values) {
    return llvm::all_of(values, [](int64_t v) { return v > 0 && v <= kMost; });
  };
  auto refuse = [&](const Twine &why) {
    (void)l.unsupported(node, why);
    return std::nullopt;
  };
  if (rank < 1 || w.rank() != rank || int64_t(w.strides.size()) != rank ||
      int64_t(w.dilations.size()) != rank || int64_t(pads.size()) != 2 * rank ||
      !positive(w.sizes) || !positive(w.strides) || !positive(w.dilations) ||
      llvm::any_of(pads, [](int64_t p) { return p < 0 || p > kMost; }))
    return refuse("its kernel, strides, dilations or pads do not fit");
  w.low.assign(pads.begin(), pads.begin() + rank);
  w.high.assign(pads.begin() + rank, pads.end());
  StringRef automatic = node.getString("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (int64_t i = 0; i < rank; ++i) {
      int64_t size = shape[i + 2];
      int64_t wanted = (size + w.strides[i] - 1) / w.strides[i];
      int64_t total =
          std::max<int64_t>(0, (wanted - 1) * w.strides[i] + w.span(i) - size);
      w.low[i] = automatic == "SAME_UPPER" ? total / 2 : (total + 1) / 2;
      w.high[i] = total - w.low[i];
    }
  } else if (automatic == "VALID") {
    w.low.assign(rank, 0);
    w.high.assign(rank, 0);
  } else if (automatic != "NOTSET") {
    return refuse("its auto_pad is unknown");
  }
  return w;
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
        parts.push_back(l.splat(filler, elementTypeOf(value), shape));
    };
    fill(before);
    parts.push_back(value);
    fill(after);
    if (parts.size() > 1)
      value = nn::ConcatOp::create(l.builder, l.loc(), parts, axis);
  }
  return value;
}

Value slideWindows(Lowering &l, Value value, const Windows &windows) {
  auto axes = llvm::to_vector(llvm::seq<int64_t>(2, windows.rank() + 2));
  return nn::WindowsOp::create(l.builder, l.loc(), value, axes, windows.sizes,
                               windows.strides, windows.dilations);
}

namespace {

int64_t productOf(ArrayRef<int64_t> dims) {
  return ShapedType::getNumElements(dims);
}

/// Neither overlap nor gaps, and nothing around.
bool arePatches(const Windows &w) {
  for (int64_t i = 0; i < w.rank(); ++i)
    if (w.strides[i] != w.span(i) || w.span(i) != w.sizes[i] || w.low[i] != 0 ||
        w.high[i] != 0)
      return false;
  return true;
}

/// Patches by reshape alone: [n, c, places…, sizes…].
Value cutPatches(Lowering &l, Value value, const Windows &w,
                 ArrayRef<int64_t> places) {
  SmallVector<int64_t> split(shapeOf(value).take_front(2)), order = {0, 1};
  for (int64_t i = 0; i < w.rank(); ++i) {
    value = l.slice(value, i + 2, 0, places[i] * w.sizes[i]);
    split.append({places[i], w.sizes[i]});
    order.push_back(2 + 2 * i);
  }
  for (int64_t i = 0; i < w.rank(); ++i)
    order.push_back(3 + 2 * i);
  return l.transpose(l.reshape(value, split), order);
}

/// The shapes of a convolution, an axis of groups first where there are some.
struct Shapes {
  int64_t batch, groups, inPerGroup, outPerGroup;
  SmallVector<int64_t> places, sizes; // of the result, of the kernel

  int64_t rows() const { return batch * productOf(places); }
  int64_t depth() const { return inPerGroup * productOf(sizes); }
};

/// [n, c, places…, sizes…] as rows [groups, n·places, c/groups·sizes].
Value windowRows(Lowering &l, Value windows, const Shapes &s) {
  int64_t rank = static_cast<int64_t>(s.places.size());
  SmallVector<int64_t> split = {s.batch, s.groups, s.inPerGroup};
  split.append(s.places);
  split.append(s.sizes);
  SmallVector<int64_t> order = {1, 0};
  for (int64_t i = 0; i < rank; ++i)
    order.push_back(3 + i);
  order.push_back(2);
  for (size_t i = 0; i < s.sizes.size(); ++i)
    order.push_back(3 + rank + static_cast<int64_t>(i));
  if (s.groups == 1) { // one axis less
    split.erase(split.begin() + 1);
    order.erase(order.begin());
    for (int64_t &axis : order)
      axis -= axis > 0;
    return l.reshape(l.transpose(l.reshape(windows, split), order),
                     {s.rows(), s.depth()});
  }
  return l.reshape(l.transpose(l.reshape(windows, split), order),
                   {s.groups, s.rows(), s.depth()});
}

/// Rows [groups, n·places, out/groups] as [n, out, places…].
Value channelsFirst(Lowering &l, Value rows, const Shapes &s) {
  int64_t rank = static_cast<int64_t>(s.places.size());
  SmallVector<int64_t> split = {s.groups, s.batch};
  split.append(s.places);
  split.push_back(s.outPerGroup);
  SmallVector<int64_t> order = {1, 0, 2 + rank};
  for (int64_t i = 0; i < rank; ++i)
    order.push_back(2 + i);
  SmallVector<int64_t> shape = {s.batch, s.groups * s.outPerGroup};
  shape.append(s.places);
  return l.reshape(l.transpose(l.reshape(rows, split), order), shape);
}

Value addBias(Lowering &l, onnx::NodeOp node, Value result) {
  if (!node.getInput(2))
    return result;
  SmallVector<int64_t> shape(shapeOf(result).size() - 1, 1);
  shape[0] = shapeOf(result)[1];
  Value bias = l.reshape(l.get(node.getInput(2)), shape);
  return l.binary<nn::AddOp>(result, bias);
}

LogicalResult checkOperands(Lowering &l, onnx::NodeOp node, Value x, Value w,
                            int64_t groups) {
  ArrayRef<int64_t> a = shapeOf(x), b = shapeOf(w);
  if (!isa<FloatType>(elementTypeOf(x)))
    return l.unsupported(node, "only of floats");
  if (a.size() < 3 || a.size() != b.size() || groups < 1 ||
      elementTypeOf(x) != elementTypeOf(w))
    return l.unsupported(node, "its operands do not fit");
  if (a.size() > 5 || (a.size() == 5 && groups > 1))
    return l.unsupported(node, "only of 1, 2 or 3 spatial axes, the last "
                               "without groups");
  return success();
}

LogicalResult lowerConv(Lowering &l, onnx::NodeOp node) {
  Value x = l.get(node.getInput(0)), w = l.get(node.getInput(1));
  int64_t groups = node.getInt("group", 1);
  if (failed(checkOperands(l, node, x, w, groups)))
    return failure();
  SmallVector<int64_t> from(shapeOf(x)), kernel(shapeOf(w));
  ArrayRef<int64_t> sizes = ArrayRef<int64_t>(kernel).drop_front(2);
  auto windows = readWindows(l, node, from, sizes);
  if (!windows)
    return failure();
  if (kernel[1] * groups != from[1] || kernel[0] % groups != 0)
    return l.unsupported(node, "its channels do not fit");
  Shapes s{from[0],   groups,
           kernel[1], kernel[0] / groups,
           {},        llvm::to_vector(sizes)};
  for (int64_t i = 0; i < windows->rank(); ++i) {
    if (from[i + 2] + windows->low[i] + windows->high[i] < windows->span(i))
      return l.unsupported(node, "its kernel is larger than the padded input");
    s.places.push_back(windows->count(i, from[i + 2]));
  }
  Value cut =
      arePatches(*windows)
          ? cutPatches(l, x, *windows, s.places)
          : slideWindows(l, padSpatial(l, x, windows->low, windows->high, 0),
                         *windows);
  Value rows = windowRows(l, cut, s);
  SmallVector<int64_t> matrix = {s.outPerGroup, s.depth()};
  if (groups > 1)
    matrix.insert(matrix.begin(), groups);
  Value product =
      nn::MatmulOp::create(l.builder, l.loc(), rows, l.reshape(w, matrix),
                           /*transposeLhs=*/false, /*transposeRhs=*/true);
  l.set(node->getResult(0), addBias(l, node, channelsFirst(l, product, s)));
  return success();
}

/// The pads of a ConvTranspose, given or from the wanted output_shape; and
/// what output_padding adds at the end.
bool readTransposedPads(onnx::NodeOp node, Windows &w, ArrayRef<int64_t> full) {
  SmallVector<int64_t> extra, wanted;
  if (!node.getInts("output_padding", extra))
    extra.assign(w.rank(), 0);
  bool hasShape = node.getInts("output_shape", wanted);
  if (hasShape && static_cast<int64_t>(wanted.size()) == w.rank() + 2)
    wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (static_cast<int64_t>(extra.size()) != w.rank() ||
      (hasShape && static_cast<int64_t>(wanted.size()) != w.rank()))
    return false;
  StringRef automatic = node.getString("auto_pad", "NOTSET");
  for (int64_t i = 0; i < w.rank(); ++i) {
    if (hasShape || automatic.starts_with("SAME")) {
      int64_t places = (full[i] - w.span(i)) / w.strides[i] + 1;
      int64_t size = hasShape ? wanted[i] : places * w.strides[i];
      int64_t total = full[i] + extra[i] - size;
      // What stands beyond the last product is told nowhere.
      if (total < 0 && !hasShape)
        return false;
      int64_t cut = std::max<int64_t>(0, total);
      w.low[i] = automatic == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
      w.high[i] = total - w.low[i];
    }
    w.high[i] -= extra[i];
    if (full[i] - w.low[i] - w.high[i] < 1)
      return false;
  }
  return true;
}

LogicalResult lowerConvTranspose(Lowering &l, onnx::NodeOp node) {
  Value x = l.get(node.getInput(0)), w = l.get(node.getInput(1));
  int64_t groups = node.getInt("group", 1);
  if (failed(checkOperands(l, node, x, w, groups)))
    return failure();
  SmallVector<int64_t> from(shapeOf(x)), kernel(shapeOf(w));
  ArrayRef<int64_t> sizes = ArrayRef<int64_t>(kernel).drop_front(2);
  auto windows = readWindows(l, node, from, sizes);
  if (!windows)
    return failure();
  if (kernel[0] != from[1] || from[1] % groups != 0)
    return l.unsupported(node, "its channels do not fit");
  // The product's columns are what each place adds around itself.
  Shapes in{from[0], groups, from[1] / groups, kernel[1], {}, {}};
  in.places.assign(from.begin() + 2, from.end());
  SmallVector<int64_t> full;
  for (int64_t i = 0; i < windows->rank(); ++i)
    full.push_back((in.places[i] - 1) * windows->strides[i] + windows->span(i));
  if (!readTransposedPads(node, *windows, full))
    return l.unsupported(node, "its pads do not fit");
  int64_t columns = kernel[1] * productOf(sizes);
  SmallVector<int64_t> matrix = {in.inPerGroup, columns};
  if (groups > 1)
    matrix.insert(matrix.begin(), groups);
  Value product = nn::MatmulOp::create(l.builder, l.loc(), windowRows(l, x, in),
                                       l.reshape(w, matrix));
  in.outPerGroup = columns;
  Value cut = channelsFirst(l, product, in);
  // [n, out·sizes, places…] → [n, out, places…, sizes…].
  int64_t out = groups * kernel[1], rank = windows->rank();
  SmallVector<int64_t> split = {from[0], out};
  split.append(sizes.begin(), sizes.end());
  split.append(in.places);
  SmallVector<int64_t> order = {0, 1};
  for (int64_t i = 0; i < 2 * rank; ++i)
    order.push_back(2 + (i + rank) % (2 * rank));
  cut = l.transpose(l.reshape(cut, split), order);
  SmallVector<int64_t> shape = {from[0], out};
  shape.append(full);
  auto axes = llvm::to_vector(llvm::seq<int64_t>(2, rank + 2));
  Value sum = nn::OverlapAddOp::create(
      l.builder, l.loc(), RankedTensorType::get(shape, elementTypeOf(x)), cut,
      axes, windows->strides, windows->dilations);
  for (int64_t i = 0; i < rank; ++i) {
    windows->low[i] = -windows->low[i];
    windows->high[i] = -windows->high[i];
  }
  l.set(node->getResult(0),
        addBias(l, node, padSpatial(l, sum, windows->low, windows->high, 0)));
  return success();
}

} // namespace

void addConvolutionHandlers(HandlerTable &table) {
  table["Conv"] = lowerConv;
  table["ConvTranspose"] = lowerConvTranspose;
}

} // namespace shardonnx
