// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a CPU lays out one channel of a depthwise convolution in a thread's
// scratch, so that each element of the kernel is an offset: place p of the
// result is the sum over the kernel of weight · plane[p + offset], whatever the
// number of axes, strides and dilations. The compiler counts the scratch.
//
// The plane is the padded image, parted into phases: with stride s, elements
// that are s apart lie side by side. Places are numbered as a phase's elements
// are; the numbers between the end of a row of places and the next row are
// computed, too, and left out.

#ifndef SHARDONNX_RUNTIME_DEPTHWISEPLAN_H
#define SHARDONNX_RUNTIME_DEPTHWISEPLAN_H

#include "shardonnx/runtime/ConvolutionABI.h"
#include "shardonnx/runtime/ProductPlan.h"

namespace shardonnx::rt {

constexpr int kSpatialAxes = SHX_SPATIAL_AXES;
/// Elements of the widest vector: rows are read and written up to a multiple.
constexpr int64_t kDepthwiseLanes = 16;

struct DepthwisePlan {
  int64_t stride[kSpatialAxes]; // 1 where there is one place
  int64_t phases[kSpatialAxes]; // the distance of phases in the plane
  int64_t steps[kSpatialAxes];  // that of elements of a phase
  int64_t phaseSize, planeSize; // elements
  int64_t length;               // from the first place to the last
  int64_t taps;                 // elements of the kernel
  int64_t reach;                // the largest offset in a phase
  /// In floats; each begins at a whole vector.
  int64_t plane, places, line, weights, sums;

  /// Where element x of the padded image lies along an axis.
  constexpr int64_t at(int axis, int64_t x) const {
    return x % stride[axis] * phases[axis] + x / stride[axis] * steps[axis];
  }
  constexpr int64_t scratchBytes() const {
    return (plane + places + line + weights + sums) * 4;
  }
};

/// From the first to the last element of the padded image that is read.
constexpr int64_t depthwiseExtent(const ShxDepthwiseConv &d, int axis) {
  return (d.result[axis] - 1) * d.stride[axis] +
         (d.kernel[axis] - 1) * d.dilation[axis] + 1;
}

constexpr DepthwisePlan planDepthwise(const ShxDepthwiseConv &d) {
  DepthwisePlan p{};
  p.phaseSize = p.taps = 1;
  int64_t phaseCount = 1;
  for (int axis = kSpatialAxes - 1; axis >= 0; --axis) {
    p.stride[axis] = d.result[axis] > 1 ? d.stride[axis] : 1;
    p.steps[axis] = p.phaseSize;
    p.length += (d.result[axis] - 1) * p.steps[axis];
    p.reach += (d.kernel[axis] - 1) * d.dilation[axis] / p.stride[axis] *
               p.steps[axis];
    int64_t extent = depthwiseExtent(d, axis);
    p.phaseSize *= (extent + p.stride[axis] - 1) / p.stride[axis];
    p.taps *= d.kernel[axis];
  }
  for (int axis = kSpatialAxes - 1; axis >= 0; --axis) {
    p.phases[axis] = phaseCount * p.phaseSize;
    phaseCount *= p.stride[axis];
  }
  ++p.length;
  p.planeSize = phaseCount * p.phaseSize;
  p.plane = wholeSteps(p.planeSize + kDepthwiseLanes, kDepthwiseLanes);
  // Zeros in front of the places and behind, where a kernel reaches out.
  p.places = wholeSteps(p.reach, kDepthwiseLanes) +
             wholeSteps(p.phaseSize + kDepthwiseLanes, kDepthwiseLanes);
  p.line = wholeSteps(d.image[kSpatialAxes - 1], kDepthwiseLanes);
  p.weights = wholeSteps(p.taps, kDepthwiseLanes);
  p.sums = p.taps * kDepthwiseLanes;
  return p;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_DEPTHWISEPLAN_H
