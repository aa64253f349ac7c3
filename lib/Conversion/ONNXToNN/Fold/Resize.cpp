// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluator of Resize: one axis after the other, each as a weighted sum of few
// neighbours.

#include "Evaluate.h"

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

/// Inputs beyond the ends are the last ones.
bool resizeAxis(std::vector<double> &values, HostTensor::Dims &shape,
                unsigned axis, const Scaling &s, const Interpolation &how) {
  AxisView from(shape, axis);
  shape[axis] = s.to;
  AxisView to(shape, axis);
  auto count = countOf(shape);
  if (!count)
    return false;
  std::vector<double> result(*count);
  for (int64_t n = 0; n < s.to; ++n) {
    auto taps = how.tapsOf(n, s);
    if (!taps)
      return false;
    for (int64_t o = 0; o < from.outer; ++o)
      for (int64_t i = 0; i < from.inner; ++i) {
        double sum = 0;
        for (auto [t, weight] : llvm::enumerate(taps->weights)) {
          int64_t at = taps->first + static_cast<int64_t>(t);
          at = std::min(std::max<int64_t>(at, 0), s.from - 1);
          sum += weight == 0 ? 0 : weight * values[from.at(o, at, i)];
        }
        result[to.at(o, n, i)] = taps->outside ? how.extrapolation : sum;
      }
  }
  values = std::move(result);
  return true;
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

std::optional<SmallVector<Scaling>>
readScalings(onnx::NodeOp node, HostInputs inputs, ArrayRef<unsigned> axes) {
  const HostTensor *roi = inputAt(inputs, 1), *scales = inputAt(inputs, 2),
                   *sizes = inputAt(inputs, 3);
  auto hasOneEach = [&](const HostTensor *tensor, size_t times) {
    return tensor && tensor->getRank() == 1 &&
           tensor->getShape()[0] == static_cast<int64_t>(axes.size() * times);
  };
  bool byScale = hasOneEach(scales, 1);
  if (!byScale && !hasOneEach(sizes, 1))
    return std::nullopt;
  SmallVector<Scaling> result;
  for (int64_t dim : inputs[0]->getShape())
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
Scalar finished(double value, Type type) {
  if (isa<FloatType>(type))
    return ofFloat(roundTo(value, type));
  value = std::nearbyint(value);
  unsigned width = type.getIntOrFloatBitWidth();
  double low = type.isUnsignedInteger() ? 0 : -std::ldexp(1.0, width - 1);
  double high = std::ldexp(1.0, type.isUnsignedInteger() ? width : width - 1);
  return ofInt(static_cast<int64_t>(std::min(std::max(value, low), high - 1)));
}

HostOutputs resize(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 1) || !countOf(inputs[0]->getShape()) ||
      inputs[0]->getElementType().getIntOrFloatBitWidth() > 32)
    return std::nullopt;
  auto axes = readResizeAxes(node, inputs[0]->getRank());
  if (!axes)
    return std::nullopt;
  auto scalings = readScalings(node, inputs, *axes);
  Interpolation how{
      node.getString("mode", "nearest"),
      node.getString("coordinate_transformation_mode", "half_pixel"),
      node.getString("nearest_mode", "round_prefer_floor"),
      node.getFloat("cubic_coeff_a", -0.75),
      node.getFloat("extrapolation_value", 0),
      node.getInt("antialias", 0) != 0,
      node.getInt("exclude_outside", 0) != 0};
  if (!scalings ||
      (how.mode != "nearest" && how.mode != "linear" && how.mode != "cubic"))
    return std::nullopt;
  Type type = inputs[0]->getElementType();
  std::vector<double> values;
  for (Scalar item : inputs[0]->flatten())
    values.push_back(toDouble(item, type));
  HostTensor::Dims shape(inputs[0]->getShape());
  for (unsigned axis : *axes) {
    const Scaling &s = (*scalings)[axis];
    bool same = s.from == s.to && std::fabs(s.scale - 1) < 1e-9 &&
                s.roiStart == 0 && s.roiEnd == 1;
    if (!same && !resizeAxis(values, shape, axis, s, how))
      return std::nullopt;
  }
  std::vector<Scalar> result;
  result.reserve(values.size());
  for (double value : values)
    result.push_back(finished(value, type));
  return one(HostTensor::dense(shape, type, std::move(result)));
}

} // namespace

void addResizeEvaluators(llvm::StringMap<Evaluator> &table) {
  table["Resize"] = resize;
}

} // namespace shardonnx
