// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Depthwise convolutions with their results and gradients: what the tests of
// every device's calls compare with.

#ifndef SHARDONNX_TEST_UNIT_DEPTHWISE_PROBLEM_H
#define SHARDONNX_TEST_UNIT_DEPTHWISE_PROBLEM_H

#include "cpu_kernels_util.h"
#include "shardonnx/runtime/ConvolutionABI.h"

namespace shardonnx::test {

struct DepthwiseProblem {
  // The sizes along one axis, of which at least one place follows.
  static void drawAxis(ShxDepthwiseConv &d, int axis, std::mt19937 &random) {
    d.kernel[axis] = pick(random, {1, 2, 3, 7});
    d.stride[axis] = pick(random, {1, 1, 2, 5});
    d.dilation[axis] = pick(random, {1, 1, 3});
    d.low[axis] = pick(random, {0, 1, 4, -2});
    int64_t high = pick(random, {0, 2, 5, -1});
    int64_t span = (d.kernel[axis] - 1) * d.dilation[axis] + 1;
    int64_t least = std::max<int64_t>(1, span - d.low[axis] - high);
    d.image[axis] = least + pick(random, {0, 1, 6, 33});
    d.result[axis] =
        (d.image[axis] + d.low[axis] + high - span) / d.stride[axis] + 1;
  }

  static ShxDepthwiseConv draw(std::mt19937 &random) {
    ShxDepthwiseConv d{};
    d.batch = pick(random, {1, 3});
    d.channels = pick(random, {1, 2, 5});
    int axes = 1 + int(random() % 3);
    for (int axis = 0; axis < SHX_SPATIAL_AXES; ++axis) {
      d.image[axis] = d.kernel[axis] = d.result[axis] = 1;
      d.stride[axis] = d.dilation[axis] = 1;
      if (axis >= SHX_SPATIAL_AXES - axes)
        drawAxis(d, axis, random);
    }
    d.imageDtype = d.resultDtype = int32_t(random() % 3);
    d.kernelDtype = d.imageDtype;
    return d;
  }

  static int64_t volume(const int64_t (&sizes)[SHX_SPATIAL_AXES]) {
    return sizes[0] * sizes[1] * sizes[2];
  }

  explicit DepthwiseProblem(std::mt19937 &random)
      : d(draw(random)), planes(d.batch * d.channels),
        image(d.imageDtype, planes * volume(d.image)),
        kernel(d.kernelDtype, d.channels * volume(d.kernel)),
        result(d.resultDtype, planes * volume(d.result)) {
    image.fillRandom(random);
    kernel.fillRandom(random);
    result.fillRandom(random);
  }

  // Calls body(place, element of the image, element of the kernel) for all
  // that meet.
  template <typename Body> void forEachTap(Body body) const {
    int64_t taps = volume(d.kernel), places = volume(d.result);
    for (int64_t plane = 0; plane < planes; ++plane)
      for (int64_t place = 0; place < places; ++place)
        for (int64_t tap = 0; tap < taps; ++tap) {
          int64_t from = 0, restPlace = place, restTap = tap, step = 1;
          bool inside = true;
          for (int axis = SHX_SPATIAL_AXES - 1; axis >= 0; --axis) {
            int64_t at = restPlace % d.result[axis] * d.stride[axis] +
                         restTap % d.kernel[axis] * d.dilation[axis] -
                         d.low[axis];
            inside = inside && at >= 0 && at < d.image[axis];
            from += at * step;
            step *= d.image[axis];
            restPlace /= d.result[axis];
            restTap /= d.kernel[axis];
          }
          if (inside)
            body(plane * places + place, plane * volume(d.image) + from,
                 plane % d.channels * taps + tap);
        }
  }

  std::vector<double> forward() const {
    std::vector<double> sums(size_t(result.size()), 0);
    forEachTap([&](int64_t place, int64_t from, int64_t tap) {
      sums[size_t(place)] += image.get(from) * kernel.get(tap);
    });
    return sums;
  }
  std::vector<double> imageGrad() const {
    std::vector<double> sums(size_t(image.size()), 0);
    forEachTap([&](int64_t place, int64_t from, int64_t tap) {
      sums[size_t(from)] += result.get(place) * kernel.get(tap);
    });
    return sums;
  }
  std::vector<double> kernelGrad() const {
    std::vector<double> sums(size_t(kernel.size()), 0);
    forEachTap([&](int64_t place, int64_t from, int64_t tap) {
      sums[size_t(tap)] += result.get(place) * image.get(from);
    });
    return sums;
  }

  testing::Message trace() const {
    testing::Message text;
    text << d.batch << " samples, " << d.channels << " channels, dtype "
         << d.imageDtype << " and " << d.kernelDtype;
    for (int axis = 0; axis < SHX_SPATIAL_AXES; ++axis)
      text << "; " << d.image[axis] << " by " << d.kernel[axis] << " stride "
           << d.stride[axis] << " dilation " << d.dilation[axis] << " low "
           << d.low[axis] << " to " << d.result[axis];
    return text;
  }

  ShxDepthwiseConv d;
  int64_t planes;
  Buffer image, kernel, result; // the result is a gradient, too
};

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_DEPTHWISE_PROBLEM_H
