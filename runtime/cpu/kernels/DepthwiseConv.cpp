// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Depthwise convolutions: a thread lays out one channel of one sample in its
// scratch as DepthwisePlan.h says, and the inner loops are over offsets.

#include "Matrix.h"
#include "shardonnx/runtime/DepthwisePlan.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace shardonnx::rt {
namespace {

class DepthwiseConv {
public:
  explicit DepthwiseConv(const ShxDepthwiseConv &desc)
      : d(desc), plan(planDepthwise(desc)),
        imageSize(d.image[0] * d.image[1] * d.image[2]),
        resultSize(d.result[0] * d.result[1] * d.result[2]) {
    findElements();
    findTaps();
  }

  /// The same with what imageGrad needs.
  static DepthwiseConv turned(const ShxDepthwiseConv &desc) {
    DepthwiseConv conv(desc);
    conv.orderByPhase();
    return conv;
  }

  void forward(const void *image, const void *kernel, void *result) const {
    forEachChannel([&](int64_t sample, int64_t channel, const Scratch &s) {
      int64_t at = sample * d.channels + channel;
      spreadImage(floatAt(d.imageDtype, image, at * imageSize), s);
      readKernel(kernel, channel, s);
      loops().sumTaps(s.plane, offsets.data(), s.weights, plan.taps, s.places,
                      plan.length);
      forEachRow(d.result, [&](int64_t row, int64_t z, int64_t y) {
        kernels().narrow(
            d.resultDtype, s.places + z * plan.steps[0] + y * plan.steps[1],
            floatAt(d.resultDtype, result, at * resultSize + row), d.result[2]);
      });
    });
  }

  void imageGrad(const void *grad, const void *kernel, void *image) const {
    forEachChannel([&](int64_t sample, int64_t channel, const Scratch &s) {
      int64_t at = sample * d.channels + channel;
      float *places = s.places + wholeSteps(plan.reach, kDepthwiseLanes);
      spreadPlaces(floatAt(d.resultDtype, grad, at * resultSize), s, places);
      readKernel(kernel, channel, s);
      for (size_t i = 0; i < order.size(); ++i)
        s.sums[i] = s.weights[order[i]];
      // What the last vector of a phase writes too much, the next one covers.
      for (size_t p = 0; p + 1 < phaseBegins.size(); ++p) {
        size_t first = phaseBegins[p];
        loops().sumTaps(places, backOffsets.data() + first, s.sums + first,
                        int64_t(phaseBegins[p + 1] - first),
                        s.plane + int64_t(p) * plan.phaseSize, plan.phaseSize);
      }
      gatherImage(s, floatAt(d.imageDtype, image, at * imageSize));
    });
  }

  void kernelGrad(const void *image, const void *grad, void *kernel) const {
    parallelRange(d.channels, 1, [&](int64_t begin, int64_t end) {
      Scratch s = scratch();
      for (int64_t channel = begin; channel < end; ++channel)
        kernelGradOf(channel, image, grad, s, kernel);
    });
  }

private:
  struct Scratch {
    float *plane, *places, *line, *weights, *sums;
  };

  static const DepthwiseKernels &loops() { return *kernels().depthwise; }

  Scratch scratch() const {
    auto *plane = static_cast<float *>(threadScratch(plan.scratchBytes()));
    float *places = plane + plan.plane, *line = places + plan.places;
    float *weights = line + plan.line;
    return {plane, places, line, weights, weights + plan.weights};
  }

  // Where each element of the image lies in the plane, along each axis; -1
  // where nothing reads it.
  void findElements() {
    for (int axis = 0; axis < kSpatialAxes; ++axis)
      for (int64_t x = 0; x < d.image[axis]; ++x) {
        int64_t padded = x + d.low[axis];
        bool isRead = padded >= 0 && padded < depthwiseExtent(d, axis);
        elements[axis].push_back(isRead ? plan.at(axis, padded) : -1);
      }
  }

  // The offset of each element of the kernel.
  void findTaps() {
    for (int64_t z = 0; z < d.kernel[0]; ++z)
      for (int64_t y = 0; y < d.kernel[1]; ++y)
        for (int64_t x = 0; x < d.kernel[2]; ++x)
          offsets.push_back(plan.at(0, z * d.dilation[0]) +
                            plan.at(1, y * d.dilation[1]) +
                            plan.at(2, x * d.dilation[2]));
  }

  // Phase by phase those that meet in it, from the image's side.
  void orderByPhase() {
    auto phaseOf = [&](size_t tap) { return offsets[tap] / plan.phaseSize; };
    for (size_t tap = 0; tap < offsets.size(); ++tap)
      order.push_back(tap);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return phaseOf(a) < phaseOf(b);
    });
    for (size_t tap : order)
      backOffsets.push_back(-(offsets[tap] % plan.phaseSize));
    int64_t phaseCount = plan.planeSize / plan.phaseSize;
    size_t begin = 0;
    for (int64_t phase = 0; phase <= phaseCount; ++phase) {
      while (begin < order.size() && phaseOf(order[begin]) < phase)
        ++begin;
      phaseBegins.push_back(begin);
    }
  }

  template <typename Body> void forEachChannel(const Body &body) const {
    parallelRange(d.batch * d.channels, 1, [&](int64_t begin, int64_t end) {
      Scratch s = scratch();
      for (int64_t at = begin; at < end; ++at)
        body(at / d.channels, at % d.channels, s);
    });
  }

  // Calls body(the row's first element, z, y) for each row of the last axis.
  template <typename Body>
  static void forEachRow(const int64_t (&sizes)[kSpatialAxes],
                         const Body &body) {
    for (int64_t z = 0; z < sizes[0]; ++z)
      for (int64_t y = 0; y < sizes[1]; ++y)
        body((z * sizes[1] + y) * sizes[2], z, y);
  }

  void readKernel(const void *kernel, int64_t channel, const Scratch &s) const {
    kernels().widen(d.kernelDtype,
                    floatAt(d.kernelDtype, kernel, channel * plan.taps),
                    s.weights, plan.taps);
  }

  void spreadImage(const void *image, const Scratch &s) const {
    std::fill_n(s.plane, plan.plane, 0.0f);
    const std::vector<int64_t> &along = elements[2];
    auto [first, last] = runOf(along);
    forEachRow(d.image, [&, first = first, last = last](int64_t row, int64_t z,
                                                        int64_t y) {
      if (elements[0][size_t(z)] < 0 || elements[1][size_t(y)] < 0 ||
          first == last)
        return;
      float *to = s.plane + elements[0][size_t(z)] + elements[1][size_t(y)];
      const void *from = floatAt(d.imageDtype, image, row + first);
      if (plan.stride[2] == 1)
        return kernels().widen(d.imageDtype, from, to + along[size_t(first)],
                               last - first);
      kernels().widen(d.imageDtype, from, s.line, last - first);
      for (int64_t x = first; x < last; ++x)
        to[along[size_t(x)]] = s.line[x - first];
    });
  }

  // Zeros where nothing has read the image.
  void gatherImage(const Scratch &s, void *image) const {
    const std::vector<int64_t> &along = elements[2];
    auto [first, last] = runOf(along);
    bool whole = plan.stride[2] == 1 && last - first == d.image[2];
    forEachRow(d.image, [&, first = first, last = last](int64_t row, int64_t z,
                                                        int64_t y) {
      int64_t atZ = elements[0][size_t(z)], atY = elements[1][size_t(y)];
      bool isRead = atZ >= 0 && atY >= 0;
      const float *from = s.plane + (isRead ? atZ + atY : 0);
      if (isRead && whole) {
        from += along[0];
      } else {
        std::fill_n(s.line, d.image[2], 0.0f);
        for (int64_t x = first; isRead && x < last; ++x)
          s.line[x] = from[along[size_t(x)]];
        from = s.line;
      }
      kernels().narrow(d.imageDtype, from, floatAt(d.imageDtype, image, row),
                       d.image[2]);
    });
  }

  // Zeros but for the places.
  void spreadPlaces(const void *grad, const Scratch &s, float *to) const {
    std::fill_n(s.places, plan.places, 0.0f);
    forEachRow(d.result, [&](int64_t row, int64_t z, int64_t y) {
      kernels().widen(d.resultDtype, floatAt(d.resultDtype, grad, row),
                      to + z * plan.steps[0] + y * plan.steps[1], d.result[2]);
    });
  }

  void kernelGradOf(int64_t channel, const void *image, const void *grad,
                    const Scratch &s, void *kernel) const {
    std::fill_n(s.sums, plan.sums, 0.0f);
    for (int64_t sample = 0; sample < d.batch; ++sample) {
      int64_t at = sample * d.channels + channel;
      spreadImage(floatAt(d.imageDtype, image, at * imageSize), s);
      spreadPlaces(floatAt(d.resultDtype, grad, at * resultSize), s, s.places);
      loops().sumPlaces(s.places, s.plane, offsets.data(), plan.taps,
                        plan.length, s.sums);
    }
    for (int64_t t = 0; t < plan.taps; ++t) {
      const float *lanes = s.sums + t * kDepthwiseLanes;
      double sum = 0;
      for (int64_t lane = 0; lane < kDepthwiseLanes; ++lane)
        sum += double(lanes[lane]);
      s.weights[t] = float(sum);
    }
    kernels().narrow(d.kernelDtype, s.weights,
                     floatAt(d.kernelDtype, kernel, channel * plan.taps),
                     plan.taps);
  }

  // The elements of a row that are read: one run.
  static std::pair<int64_t, int64_t> runOf(const std::vector<int64_t> &along) {
    auto isRead = [](int64_t at) { return at >= 0; };
    auto first = std::find_if(along.begin(), along.end(), isRead);
    auto last = std::find_if_not(first, along.end(), isRead);
    return {first - along.begin(), last - along.begin()};
  }

  const ShxDepthwiseConv &d;
  const DepthwisePlan plan;
  const int64_t imageSize, resultSize;
  std::vector<int64_t> elements[kSpatialAxes];
  std::vector<int64_t> offsets, backOffsets;
  std::vector<size_t> order, phaseBegins;
};

} // namespace
} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_depthwise_conv(ShxContext *ctx, const ShxDepthwiseConv *desc,
                        const void *image, const void *kernel, void *result) {
  TraceScope scope(ctx, "depthwise_conv");
  DepthwiseConv(*desc).forward(image, kernel, result);
}

void shx_depthwise_conv_image_grad(ShxContext *ctx,
                                   const ShxDepthwiseConv *desc,
                                   const void *grad, const void *kernel,
                                   void *image) {
  TraceScope scope(ctx, "depthwise_conv_image_grad");
  DepthwiseConv::turned(*desc).imageGrad(grad, kernel, image);
}

void shx_depthwise_conv_kernel_grad(ShxContext *ctx,
                                    const ShxDepthwiseConv *desc,
                                    const void *image, const void *grad,
                                    void *kernel) {
  TraceScope scope(ctx, "depthwise_conv_kernel_grad");
  DepthwiseConv(*desc).kernelGrad(image, grad, kernel);
}
