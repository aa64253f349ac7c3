// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers Resize: one axis after the other, each as the choice of elements or as
// a product with the weights of few neighbours.

#include "Rearrange.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

/// What one axis becomes.
struct Scaling {
  int64_t from, to;
  double scale, roiStart = 0, roiEnd = 1;
};

/// The neighbours of one output, from `first` on, and their weights.
struct Taps {
  int64_t first = 0;
  SmallVector<double, 8> weights;
  bool outside = false; // of the region to crop
};

struct Interpolation {
  StringRef mode, coordinates, nearest;
  double cubic, extrapolation;
  bool antialias, excludeOutside;

  /// Where output `index` lies among the inputs; none where not known.
  std::optional<double> sourceOf(int64_t index, const Scaling &s) const;
  /// The weights of the neighbours when `ratio`, in (0, 1], is how far the
  /// second of the middle two is.
  SmallVector<double, 8> weightsAt(double ratio, double scale) const;
  std::optional<Taps> tapsOf(int64_t index, const Scaling &s) const;
};

std::optional<double> Interpolation::sourceOf(int64_t index,
                                              const Scaling &s) const {
  auto x = static_cast<double>(index), from = static_cast<double>(s.from);
  double width = s.scale * from;
  // Of a scale that gives no whole number of outputs the schema says one thing
  // and its reference another.
  auto to = static_cast<double>(s.to);
  bool whole = std::fabs(width - to) < 1e-5 * width;
  if (coordinates == "align_corners" && whole)
    return s.to == 1 ? 0 : x * (from - 1) / (to - 1);
  if (coordinates == "asymmetric")
    return x / s.scale;
  if (coordinates == "half_pixel")
    return (x + 0.5) / s.scale - 0.5;
  if (coordinates == "pytorch_half_pixel" && s.to > 1)
    return (x + 0.5) / s.scale - 0.5;
  // The same pixel for both -0.5 and 0, which are said; not so between four.
  if (coordinates == "pytorch_half_pixel" && whole && mode != "cubic")
    return 0;
  if (coordinates == "half_pixel_symmetric") {
    double adjustment = to / width;
    return from / 2 * (1 - adjustment) + (x + 0.5) / s.scale - 0.5;
  }
  if (coordinates != "tf_crop_and_resize")
    return std::nullopt;
  double part = (s.roiEnd - s.roiStart) * (from - 1);
  return (width == 1 ? part / 2 : x * part / (width - 1)) +
         s.roiStart * (from - 1);
}

/// Keys' cubic kernel with parameter `a`.
double cubicKernel(double x, double a) {
  x = std::fabs(x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

SmallVector<double, 8> Interpolation::weightsAt(double ratio,
                                                double scale) const {
  if (mode == "nearest") {
    bool second = ratio == 1 || nearest == "ceil" ||
                  (nearest == "round_prefer_floor" && ratio > 0.5) ||
                  (nearest == "round_prefer_ceil" && ratio >= 0.5);
    return {second ? 0.0 : 1.0, second ? 1.0 : 0.0};
  }
  // Antialiasing widens the kernel when there are fewer outputs than inputs.
  double narrow = antialias ? std::min(scale, 1.0) : 1.0;
  double reach = mode == "cubic" ? 2 : 1;
  auto start = static_cast<int64_t>(std::floor(-reach / narrow)) + 1;
  SmallVector<double, 8> weights;
  double sum = 0;
  for (int64_t i = start; i < 2 - start; ++i) {
    double x = narrow * (static_cast<double>(i) - ratio);
    weights.push_back(mode == "cubic" ? cubicKernel(x, cubic)
                                      : std::max(0.0, 1 - std::fabs(x)));
    sum += weights.back();
  }
  for (double &weight : weights)
    weight /= sum;
  return weights;
}

std::optional<Taps> Interpolation::tapsOf(int64_t index,
                                          const Scaling &s) const {
  std::optional<double> source = sourceOf(index, s);
  if (!source || !std::isfinite(*source) || std::fabs(*source) > 1e12)
    return std::nullopt;
  Taps taps;
  taps.outside = coordinates == "tf_crop_and_resize" &&
                 (*source < 0 || *source > static_cast<double>(s.from - 1));
  // Of an input that is met exactly, the one before is the first of the two.
  double floor = std::floor(*source);
  bool exact = floor == *source;
  taps.weights = weightsAt(exact ? 1 : *source - floor, s.scale);
  auto count = static_cast<int64_t>(taps.weights.size());
  taps.first = static_cast<int64_t>(floor) - exact + 1 - count / 2;
  if (!excludeOutside)
    return taps;
  double sum = 0;
  for (auto [i, weight] : llvm::enumerate(taps.weights)) {
    int64_t at = taps.first + static_cast<int64_t>(i);
    weight = at < 0 || at >= s.from ? 0 : weight;
    sum += weight;
  }
  for (double &weight : taps.weights)
    weight = sum == 0 ? 0 : weight / sum;
  return taps;
}

/// A product along an axis: result[n] = Σ weights[n][k]·x[k] + addends[n].
struct Weights {
  int64_t from, to;
  std::vector<double> weights; // [to, from]
  std::vector<double> addends; // extrapolated values
  bool extrapolates = false;

  /// The one element that each result is; none where it is a sum.
  std::optional<SmallVector<int64_t>> picks() const;
};

std::optional<SmallVector<int64_t>> Weights::picks() const {
  SmallVector<int64_t> result;
  if (extrapolates)
    return std::nullopt;
  for (int64_t n = 0; n < to; ++n) {
    ArrayRef<double> row(&weights[n * from], from);
    const double *one = llvm::find(row, 1.0);
    if (one == row.end() || llvm::count(row, 0.0) != from - 1)
      return std::nullopt;
    result.push_back(one - row.begin());
  }
  return result;
}

/// Inputs beyond the ends are the last ones.
std::optional<Weights> weightsOf(const Scaling &s, const Interpolation &how) {
  constexpr int64_t most = int64_t(1) << 25;
  if (s.to > most / s.from)
    return std::nullopt;
  Weights w{s.from, s.to, std::vector<double>(s.from * s.to),
            std::vector<double>(s.to)};
  for (int64_t n = 0; n < s.to; ++n) {
    auto taps = how.tapsOf(n, s);
    if (!taps)
      return std::nullopt;
    if (taps->outside) {
      w.extrapolates = true;
      w.addends[n] = how.extrapolation;
      continue;
    }
    for (auto [t, weight] : llvm::enumerate(taps->weights)) {
      int64_t at = taps->first + static_cast<int64_t>(t);
      w.weights[n * s.from + std::clamp<int64_t>(at, 0, s.from - 1)] += weight;
    }
  }
  return w;
}

/// A constant of floats.
Value constantOf(Lowering &l, ArrayRef<int64_t> shape, ArrayRef<double> values,
                 Type type) {
  std::vector<Scalar> elements;
  for (double value : values)
    elements.push_back(scalarOf(value, type));
  return l.constant(HostTensor::dense(shape, type, std::move(elements)));
}

/// `value`, of floats, with an axis multiplied by weights.
Value multiplyAxis(Lowering &l, Value value, unsigned axis, const Weights &w) {
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq(int64_t(0), rankOf(value)));
  std::swap(order[axis], order.back());
  bool moved = axis + 1 != order.size();
  if (moved)
    value = l.transpose(value, order);
  SmallVector<int64_t> shape(shapeOf(value));
  Type type = elementType(value);
  Value rows =
      l.reshape(value, {ShapedType::getNumElements(shape) / w.from, w.from});
  Value matrix = constantOf(l, {w.to, w.from}, w.weights, type);
  Value product = nn::MatmulOp::create(
      l.builder, l.loc, rows, l.broadcast(matrix, {w.to, w.from}),
      /*transposeLhs=*/false, /*transposeRhs=*/true);
  if (w.extrapolates)
    product = l.add(product, constantOf(l, {1, w.to}, w.addends, type));
  shape.back() = w.to;
  value = l.reshape(product, shape);
  return moved ? l.transpose(value, order) : value;
}

/// Sizes that keep the ratio of the axes: none larger, or none smaller, than
/// what is asked for.
bool keepRatio(StringRef policy, ArrayRef<unsigned> axes,
               MutableArrayRef<Scaling> scalings) {
  if (policy == "stretch" || policy.empty())
    return true;
  if ((policy != "not_larger" && policy != "not_smaller") || axes.empty())
    return false;
  double scale = scalings[axes[0]].scale;
  for (unsigned axis : axes)
    scale = policy == "not_larger" ? std::min(scale, scalings[axis].scale)
                                   : std::max(scale, scalings[axis].scale);
  for (unsigned axis : axes) {
    Scaling &s = scalings[axis];
    s.scale = scale;
    s.to = static_cast<int64_t>(scale * static_cast<double>(s.from) + 0.5);
  }
  return true;
}

std::optional<SmallVector<unsigned>> readResizeAxes(onnx::NodeOp node,
                                                    int64_t rank) {
  SmallVector<int64_t> list;
  if (!node.getInts("axes", list))
    for (int64_t i = 0; i < rank; ++i)
      list.push_back(i);
  SmallVector<unsigned> axes;
  for (int64_t item : list) {
    auto axis = normalizeAxis(item, rank);
    if (!axis || llvm::is_contained(axes, *axis))
      return std::nullopt;
    axes.push_back(*axis);
  }
  return axes;
}

std::optional<SmallVector<Scaling>> readScalings(Lowering &l, onnx::NodeOp node,
                                                 ArrayRef<unsigned> axes) {
  const HostTensor *roi = l.getConstant(node.getInput(1)),
                   *scales = l.getConstant(node.getInput(2)),
                   *sizes = l.getConstant(node.getInput(3));
  auto hasOneEach = [&](const HostTensor *tensor, size_t times) {
    return tensor && tensor->getRank() == 1 &&
           tensor->getShape()[0] == static_cast<int64_t>(axes.size() * times);
  };
  bool byScale = hasOneEach(scales, 1);
  if (!byScale && !hasOneEach(sizes, 1))
    return std::nullopt;
  SmallVector<Scaling> result;
  for (int64_t dim : l.getShape(node.getInput(0)))
    result.push_back({dim, dim, 1});
  for (auto [i, axis] : llvm::enumerate(axes)) {
    Scaling &s = result[axis];
    auto at = static_cast<int64_t>(i), n = static_cast<int64_t>(axes.size());
    auto from = static_cast<double>(s.from);
    if (byScale) {
      s.scale = scales->at({at}).f;
      if (!(s.scale > 0 && s.scale * from < 0x1p31))
        return std::nullopt;
      s.to = static_cast<int64_t>(s.scale * from);
    } else {
      s.to = sizes->at({at}).i;
      s.scale = static_cast<double>(s.to) / from;
    }
    if (s.from < 1 || s.to < 0)
      return std::nullopt;
    if (hasOneEach(roi, 2)) {
      s.roiStart = roi->at({at}).f;
      s.roiEnd = roi->at({at + n}).f;
    }
  }
  if (!byScale &&
      !keepRatio(node.getString("keep_aspect_ratio_policy", "stretch"), axes,
                 result))
    return std::nullopt;
  return result;
}

/// Integers are rounded, and kept in their range.
Value roundedTo(Lowering &l, Value value, Type type) {
  if (isa<FloatType>(type))
    return l.cast(value, type);
  int width = static_cast<int>(type.getIntOrFloatBitWidth());
  bool isUnsigned = type.isUnsignedInteger();
  double low = isUnsigned ? 0 : -std::ldexp(1.0, width - 1);
  double high = std::ldexp(1.0, isUnsigned ? width : width - 1) - 1;
  Type element = elementType(value);
  value = l.unary<nn::RoundOp>(value);
  value = l.binary<nn::MaxOp>(value, l.constant(low, element));
  return l.cast(l.binary<nn::MinOp>(value, l.constant(high, element)), type);
}

LogicalResult lowerResize(Lowering &l, onnx::NodeOp node) {
  Value result = l.get(node.getInput(0));
  Type type = elementType(result);
  auto axes = readResizeAxes(node, rankOf(result));
  if (!axes)
    return l.unsupported(node, "its axes are out of range");
  auto scalings = readScalings(l, node, *axes);
  Interpolation how{
      node.getString("mode", "nearest"),
      node.getString("coordinate_transformation_mode", "half_pixel"),
      node.getString("nearest_mode", "round_prefer_floor"),
      node.getFloat("cubic_coeff_a", -0.75),
      node.getFloat("extrapolation_value", 0),
      node.getInt("antialias", 0) != 0,
      node.getInt("exclude_outside", 0) != 0};
  bool cropsByData = node.getInput(1) && !l.getConstant(node.getInput(1));
  if (!scalings || cropsByData ||
      (how.mode != "nearest" && how.mode != "linear" && how.mode != "cubic"))
    return l.unsupported(node, "its sizes are not known, or its mode is not");
  for (unsigned axis : *axes) {
    const Scaling &s = (*scalings)[axis];
    if (s.from == s.to && std::fabs(s.scale - 1) < 1e-9 && s.roiStart == 0 &&
        s.roiEnd == 1)
      continue;
    auto weights = weightsOf(s, how);
    if (!weights)
      return l.unsupported(node, "how it finds its neighbours is not defined");
    auto picks = weights->picks();
    Value picked = picks ? takeAxis(l, result, axis, *picks) : Value();
    if (picked) {
      result = picked;
      continue;
    }
    bool exact = l.interpreting && !isFloat(result);
    Value numbers =
        exact ? l.cast(result, l.builder.getF64Type()) : l.f32(result);
    result = multiplyAxis(l, numbers, axis, *weights);
  }
  l.set(node->getResult(0),
        elementType(result) == type ? result : roundedTo(l, result, type));
  return success();
}

} // namespace

void addResizeHandlers(HandlerTable &table) { table["Resize"] = lowerResize; }

} // namespace shardonnx
