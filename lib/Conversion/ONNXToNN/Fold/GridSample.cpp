// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluator of GridSample over any number of spatial axes.

#include "Evaluate.h"

#include "llvm/ADT/StringSwitch.h"

#include <cmath>

using namespace mlir;

namespace shardonnx {
namespace {

/// An element along one axis and its weight; -1 stands for a zero outside.
struct Tap {
  int64_t index;
  double weight;
};

struct Sampler {
  StringRef mode, padding;
  bool alignCorners;

  /// A position in [-1, 1] among `size` elements. As f32, so that halves are
  /// rounded as others round them.
  double locate(double position, int64_t size) const {
    auto length = static_cast<double>(size);
    double x = alignCorners ? (position + 1) / 2 * (length - 1)
                            : ((position + 1) * length - 1) / 2;
    return static_cast<double>(static_cast<float>(x));
  }
  double reflect(double x, int64_t size) const;
  double keepInside(double x, int64_t size) const;
  int64_t indexAt(int64_t i, int64_t size) const;
  SmallVector<Tap, 4> tapsAt(double position, int64_t size) const;
};

/// Mirrors `x` at the borders until it lies between them.
double Sampler::reflect(double x, int64_t size) const {
  double low = alignCorners ? 0 : -0.5;
  double high = static_cast<double>(size) - (alignCorners ? 1 : 0.5);
  double range = high - low;
  if (range <= 0)
    return 0;
  double past = x < low ? low - x : x > high ? x - high : 0;
  if (past == 0)
    return x;
  double turns = std::floor(past / range), rest = past - turns * range;
  bool fromLow = (x < low) == (std::fmod(turns, 2) == 0);
  return fromLow ? low + rest : high - rest;
}

double Sampler::keepInside(double x, int64_t size) const {
  auto length = static_cast<double>(size);
  double low = alignCorners ? 0 : -0.5;
  double high = length - (alignCorners ? 1 : 0.5);
  if (x >= low && x <= high)
    return x;
  if (padding == "border")
    return std::min(std::max(x, 0.0), length - 1);
  return padding == "reflection" ? reflect(x, size) : x;
}

int64_t Sampler::indexAt(int64_t i, int64_t size) const {
  if (i >= 0 && i < size)
    return i;
  if (padding == "zeros")
    return -1;
  if (padding == "border")
    return i < 0 ? 0 : size - 1;
  auto mirrored = static_cast<int64_t>(reflect(static_cast<double>(i), size));
  return std::min(std::max<int64_t>(mirrored, 0), size - 1);
}

SmallVector<Tap, 4> Sampler::tapsAt(double position, int64_t size) const {
  double x = locate(position, size);
  if (mode == "nearest") {
    auto index = static_cast<int64_t>(keepInside(std::nearbyint(x), size));
    return {{indexAt(index, size), 1}};
  }
  x = keepInside(x, size);
  auto left = static_cast<int64_t>(std::floor(x));
  double ratio = x - std::floor(x);
  if (mode == "linear")
    return {{indexAt(left, size), 1 - ratio}, {indexAt(left + 1, size), ratio}};
  SmallVector<Tap, 4> taps;
  constexpr double a = -0.75;
  for (int64_t i = -1; i <= 2; ++i) {
    double d = std::fabs(static_cast<double>(i) - ratio);
    double weight = d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1
                           : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    taps.push_back({indexAt(left + i, size), weight});
  }
  return taps;
}

/// The sum over all combinations of the taps of each axis.
double combine(const Scalar *plane, ArrayRef<int64_t> shape,
               ArrayRef<SmallVector<Tap, 4>> taps) {
  HostTensor::Dims counts, index(shape.size(), 0);
  for (const SmallVector<Tap, 4> &list : taps)
    counts.push_back(static_cast<int64_t>(list.size()));
  double sum = 0;
  do {
    double weight = 1;
    int64_t at = 0;
    bool outside = false;
    for (size_t i = 0; i < shape.size(); ++i) {
      const Tap &tap = taps[i][index[i]];
      outside |= tap.index < 0;
      weight *= tap.weight;
      at = at * shape[i] + tap.index;
    }
    if (!outside)
      sum += weight * plane[at].f;
  } while (advance(index, counts));
  return sum;
}

/// Opset 16 has other names for the modes.
StringRef modeOf(onnx::NodeOp node) {
  return llvm::StringSwitch<StringRef>(node.getString("mode", "linear"))
      .Cases({"linear", "bilinear"}, "linear")
      .Cases({"cubic", "bicubic"}, "cubic")
      .Case("nearest", "nearest")
      .Default("");
}

HostOutputs gridSample(onnx::NodeOp node, HostInputs inputs) {
  if (!hasInputs(inputs, 2) || inputs[0]->getRank() < 3 ||
      inputs[1]->getRank() != inputs[0]->getRank() || !inputs[0]->isFloat() ||
      !inputs[1]->isFloat() || !countOf(inputs[0]->getShape()))
    return std::nullopt;
  ArrayRef<int64_t> x = inputs[0]->getShape(), g = inputs[1]->getShape();
  ArrayRef<int64_t> spatial = x.drop_front(2);
  Sampler sampler{modeOf(node), node.getString("padding_mode", "zeros"),
                  node.getInt("align_corners", 0) != 0};
  HostTensor::Dims shape = {x[0], x[1]};
  shape.append(g.begin() + 1, g.end() - 1);
  auto count = countOf(shape);
  auto axes = static_cast<int64_t>(spatial.size());
  // Whether a cubic kernel reaches beyond the border before or after positions
  // are moved to it, implementations do not agree.
  bool unclear = sampler.mode == "cubic" && sampler.padding == "border";
  if (unclear || sampler.mode.empty() || g[0] != x[0] || g.back() != axes ||
      !count || llvm::is_contained(x, 0))
    return std::nullopt;
  std::vector<Scalar> data = inputs[0]->flatten(), grid = inputs[1]->flatten();
  int64_t plane = *countOf(spatial), points = *countOf(g) / (x[0] * axes);
  std::vector<Scalar> result(*count);
  Type type = inputs[0]->getElementType();
  SmallVector<SmallVector<Tap, 4>> taps(axes);
  for (int64_t n = 0; n < x[0]; ++n)
    for (int64_t p = 0; p < points; ++p) {
      for (int64_t i = 0; i < axes; ++i) {
        // The last axis comes first.
        double position = grid[(n * points + p) * axes + axes - 1 - i].f;
        if (!(std::fabs(position) < 1e9))
          return std::nullopt;
        taps[i] = sampler.tapsAt(position, spatial[i]);
      }
      for (int64_t c = 0; c < x[1]; ++c)
        result[(n * x[1] + c) * points + p].f = roundTo(
            combine(&data[(n * x[1] + c) * plane], spatial, taps), type);
    }
  return one(HostTensor::dense(shape, type, std::move(result)));
}

} // namespace

void addGridSampleEvaluators(llvm::StringMap<Evaluator> &table) {
  table["GridSample"] = gridSample;
}

} // namespace shardonnx
