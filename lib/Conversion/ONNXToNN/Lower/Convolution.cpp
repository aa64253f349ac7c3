// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers convolutions to matrix products. Patches that neither overlap nor
// leave gaps (a vision transformer's) are a reshape of the image; other windows
// are copied into columns, a row for each place of the kernel. Those with a
// kernel for each channel have an op of their own.

#include "../Attributes/Windows.h"
#include "Rearrange.h"
#include "shardonnx/Dialect/NN/IR/NNConvolution.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace shardonnx {
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
Value cutPatches(Lowering &l, Value value, const Windows &w) {
  SmallVector<int64_t> split(shapeOf(value).take_front(2)), order = {0, 1};
  for (int64_t i = 0; i < w.rank(); ++i) {
    value = l.slice(value, i + 2, 0, w.places[i] * w.sizes[i]);
    split.append({w.places[i], w.sizes[i]});
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

/// [n, c, places…, sizes…] as a matrix for each group: of rows, [groups,
/// n·places, c/groups·sizes], or of columns, [groups, c/groups·sizes,
/// n·places], where a row of neighbouring windows is copied at once.
Value windowMatrix(Lowering &l, Value windows, const Shapes &s, bool columns) {
  SmallVector<int64_t> split = {s.batch, s.groups, s.inPerGroup};
  // The axes of split that count windows, and their elements.
  SmallVector<int64_t> places = {0}, elements = {2};
  auto add = [&](SmallVector<int64_t> &axes, ArrayRef<int64_t> sizes) {
    for (int64_t size : sizes) {
      axes.push_back(static_cast<int64_t>(split.size()));
      split.push_back(size);
    }
  };
  // Nine axes are more than a copy has; places and sizes stay together.
  bool merges = s.places.size() == 3 && s.groups > 1;
  SmallVector<int64_t> together = {productOf(s.places), productOf(s.sizes)};
  add(places, merges ? ArrayRef(together).take_front() : ArrayRef(s.places));
  add(elements, merges ? ArrayRef(together).take_back() : ArrayRef(s.sizes));
  SmallVector<int64_t> order = {1}, matrix = {s.groups};
  order.append(columns ? elements : places);
  order.append(columns ? places : elements);
  matrix.push_back(columns ? s.depth() : s.rows());
  matrix.push_back(columns ? s.rows() : s.depth());
  if (s.groups == 1) { // one axis less
    split.erase(split.begin() + 1);
    order.erase(order.begin());
    for (int64_t &axis : order)
      axis -= axis > 0;
    matrix.erase(matrix.begin());
  }
  return l.reshape(l.transpose(l.reshape(windows, split), order), matrix);
}

/// Columns [groups, out/groups, n·places] as [n, out, places…].
Value samplesFirst(Lowering &l, Value columns, const Shapes &s) {
  SmallVector<int64_t> split = {s.groups * s.outPerGroup, s.batch,
                                productOf(s.places)};
  SmallVector<int64_t> shape = {s.batch, s.groups * s.outPerGroup};
  shape.append(s.places);
  return l.reshape(l.transpose(l.reshape(columns, split), {1, 0, 2}), shape);
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

/// [n, channels·sizes, places…] summed where the windows overlap.
Value addWindows(Lowering &l, Value columns, int64_t channels,
                 const Windows &w) {
  int64_t rank = w.rank(), batch = shapeOf(columns)[0];
  // [n, channels, places…, sizes…]
  SmallVector<int64_t> split = {batch, channels}, shape(split), order = {0, 1};
  split.append(w.sizes);
  split.append(w.places);
  for (int64_t i = 0; i < 2 * rank; ++i)
    order.push_back(2 + (i + rank) % (2 * rank));
  for (int64_t i = 0; i < rank; ++i)
    shape.push_back(w.extent(i));
  return nn::OverlapAddOp::create(
      l.builder, l.loc, RankedTensorType::get(shape, elementType(columns)),
      l.transpose(l.reshape(columns, split), order),
      llvm::to_vector(llvm::seq<int64_t>(2, rank + 2)), w.strides, w.dilations);
}

/// Whether a bias is one number for each output channel, or there is none.
/// (The exporter gives a convolution without one zeros of [channels, depth].)
bool fitsBias(Lowering &l, onnx::NodeOp node, int64_t channels) {
  return !node.getInput(2) ||
         l.getShape(node.getInput(2)) == ArrayRef<int64_t>(channels);
}

constexpr StringRef kStrangeBias =
    "its bias is not one number for each output channel; give the layer one of "
    "its own (bias=True), or export with optimize=True";

Value addBias(Lowering &l, onnx::NodeOp node, Value result) {
  if (!node.getInput(2))
    return result;
  SmallVector<int64_t> shape(shapeOf(result).size() - 1, 1);
  shape[0] = shapeOf(result)[1];
  Value bias = l.reshape(l.get(node.getInput(2)), shape);
  return l.binary<nn::AddOp>(result, bias);
}

/// The operands of a convolution: [n, c, spatial…] and its kernel.
struct Operands {
  Value x, w;
  int64_t groups;
  SmallVector<int64_t> from, kernel; // their shapes

  ArrayRef<int64_t> spatial() const { return ArrayRef(from).drop_front(2); }
  ArrayRef<int64_t> sizes() const { return ArrayRef(kernel).drop_front(2); }
  /// A kernel as a matrix, or one for each group.
  Value matrix(Lowering &l, int64_t rows, int64_t columns) const {
    if (groups == 1)
      return l.reshape(w, {rows, columns});
    return l.reshape(w, {groups, rows, columns});
  }
};

std::optional<Operands> readOperands(Lowering &l, onnx::NodeOp node) {
  Operands o{l.get(node.getInput(0)),
             l.get(node.getInput(1)),
             node.getInt("group", 1),
             {},
             {}};
  o.from.assign(shapeOf(o.x).begin(), shapeOf(o.x).end());
  o.kernel.assign(shapeOf(o.w).begin(), shapeOf(o.w).end());
  if (!isFloat(o.x))
    return l.unsupported(node, "only of floats");
  if (o.from.size() < 3 || o.from.size() != o.kernel.size() || o.groups < 1 ||
      elementType(o.x) != elementType(o.w))
    return l.unsupported(node, "its operands do not fit");
  if (o.from.size() > 5)
    return l.unsupported(node, "only of 1, 2 or 3 spatial axes");
  return o;
}

/// A kernel for each channel, and channels that the op takes.
bool isDepthwise(const Windows &w, const Shapes &s) {
  constexpr int64_t kMost = int64_t(1) << 30; // elements of a padded channel
  int64_t elements = 1;
  for (int64_t i = 0; i < w.rank(); ++i)
    if (std::abs(w.low[i]) >= kMost || std::abs(w.high[i]) >= kMost ||
        llvm::MulOverflow(elements, w.extent(i) + w.strides[i], elements) ||
        elements > kMost)
      return false;
  return s.groups > 1 && s.inPerGroup == 1 && s.outPerGroup == 1;
}

/// Whether the channels lie side by side in memory, behind a transpose.
bool isChannelsLast(Value image) {
  auto transpose = image.getDefiningOp<nn::TransposeOp>();
  return transpose &&
         transpose.getPermutation()[1] == rankOf(transpose.getOperand()) - 1;
}

/// Rows are a reshape of patches, and the result's channels then lie side by
/// side. One element's windows are as well columns, which channels in front
/// are already.
bool takesRows(const Operands &o, const Windows &w) {
  return arePatches(w) && (productOf(w.sizes) > 1 || isChannelsLast(o.x));
}

Value convolve(Lowering &l, const Operands &o, const Windows &w,
               const Shapes &s) {
  if (isDepthwise(w, s)) {
    SmallVector<int64_t> kernel(w.sizes);
    kernel.insert(kernel.begin(), s.groups);
    return nn::DepthwiseConvOp::create(l.builder, l.loc, o.x,
                                       l.reshape(o.w, kernel), w.strides,
                                       w.dilations, w.low, w.high);
  }
  Value matrix = o.matrix(l, s.outPerGroup, s.depth());
  if (takesRows(o, w))
    return channelsFirst(
        l,
        nn::MatmulOp::create(
            l.builder, l.loc,
            windowMatrix(l, cutPatches(l, o.x, w), s, /*columns=*/false),
            matrix,
            /*transposeLhs=*/false, /*transposeRhs=*/true),
        s);
  // A reshape is split over a mesh where windows are not.
  Value windows =
      arePatches(w) ? cutPatches(l, o.x, w)
                    : slideWindows(l, padSpatial(l, o.x, w.low, w.high, 0), w);
  return samplesFirst(
      l,
      nn::MatmulOp::create(l.builder, l.loc, matrix,
                           windowMatrix(l, windows, s, /*columns=*/true)),
      s);
}

LogicalResult lowerConv(Lowering &l, onnx::NodeOp node) {
  auto o = readOperands(l, node);
  if (!o)
    return failure();
  Windows w;
  if (StringRef why = readWindows(node, o->spatial(), o->sizes(), w);
      !why.empty())
    return l.unsupported(node, why);
  int64_t channels = o->kernel[1], outputs = o->kernel[0] / o->groups;
  if (channels * o->groups != o->from[1] || o->kernel[0] % o->groups != 0)
    return l.unsupported(node, "its channels do not fit");
  if (!fitsBias(l, node, o->kernel[0]))
    return l.unsupported(node, kStrangeBias);
  Shapes s{o->from[0], o->groups, channels, outputs, w.places, w.sizes};
  l.set(node->getResult(0), addBias(l, node, convolve(l, *o, w, s)));
  return success();
}

LogicalResult lowerConvTranspose(Lowering &l, onnx::NodeOp node) {
  auto o = readOperands(l, node);
  if (!o)
    return failure();
  Windows w;
  if (StringRef why = readTransposedWindows(node, o->spatial(), o->sizes(), w);
      !why.empty())
    return l.unsupported(node, why);
  if (o->kernel[0] != o->from[1] || o->from[1] % o->groups != 0)
    return l.unsupported(node, "its channels do not fit");
  if (!fitsBias(l, node, o->kernel[1] * o->groups))
    return l.unsupported(node, kStrangeBias);
  // The product's columns are what each place adds around itself.
  Shapes s{o->from[0], o->groups, o->from[1] / o->groups, 0, w.places, {}};
  s.outPerGroup = o->kernel[1] * productOf(w.sizes);
  Value product = nn::MatmulOp::create(
      l.builder, l.loc, windowMatrix(l, o->x, s, /*columns=*/false),
      o->matrix(l, s.inPerGroup, s.outPerGroup));
  Value columns = channelsFirst(l, product, s);
  Value sum = addWindows(l, columns, o->groups * o->kernel[1], w);
  for (SmallVector<int64_t> *pads : {&w.low, &w.high})
    for (int64_t &pad : *pads)
      pad = -pad;
  l.set(node->getResult(0),
        addBias(l, node, padSpatial(l, sum, w.low, w.high, 0)));
  return success();
}

/// Columns of blocks, added up where these overlap in the image.
LogicalResult lowerCol2Im(Lowering &l, onnx::NodeOp node) {
  Value columns = l.get(node.getInput(0));
  SmallVector<int64_t> image, block;
  if (!l.getInts(node.getInput(1), image) ||
      !l.getInts(node.getInput(2), block))
    return l.unsupported(node, "its shapes depend on data");
  Windows w;
  if (StringRef why = readWindows(node, image, block, w); !why.empty())
    return l.unsupported(node, why);
  ArrayRef<int64_t> shape = shapeOf(columns);
  if (!isFloat(columns) || shape.size() != 3 ||
      shape[1] % productOf(w.sizes) != 0 || shape[2] != productOf(w.places))
    return l.unsupported(node, "its blocks do not fit");
  Value sum = addWindows(l, columns, shape[1] / productOf(w.sizes), w);
  SmallVector<int64_t> low, high;
  for (int64_t i = 0; i < w.rank(); ++i) {
    low.push_back(-w.low[i]);
    high.push_back(image[i] + w.low[i] - w.extent(i));
  }
  l.set(node->getResult(0), padSpatial(l, sum, low, high, 0));
  return success();
}

} // namespace

void addConvolutionHandlers(HandlerTable &table) {
  table["Conv"] = lowerConv;
  table["ConvTranspose"] = lowerConvTranspose;
  table["Col2Im"] = lowerCol2Im;
}

} // namespace shardonnx
