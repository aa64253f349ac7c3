// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives along a tensor or context axis of the mesh: what they send, and
// how long that takes. They are launches of the kind "mesh", named after the
// call and the axis, and run where the work does. No MLIR here.

#ifndef SHARDONNX_COST_AXISTIME_H
#define SHARDONNX_COST_AXISTIME_H

#include "shardonnx/Cost/Device.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"

#include <optional>
#include <string>

namespace shardonnx {

struct AxisLaunch {
  std::string call; // as nn's op
  MeshAxis axis = MeshAxis::Tensor;
  RankGroup group{1};
  double wholeBytes = 0;  // of what is gathered, summed or exchanged
  double packedBytes = 0; // that copies read and write before and behind it
  bool started = false;   // by the common call behind it
};

/// Ranks of the tensor axis are neighbours, those of the context axis are as
/// far apart as that has ranks.
RankGroup axisGroup(MeshAxis axis, const Mesh &mesh);

/// Nothing where the launch is of another kind, or sends nothing.
std::optional<AxisLaunch> axisLaunch(const Manifest::Launch &launch,
                                     const Mesh &mesh);

/// What each rank sends, in the algorithm of least traffic.
double bytesSent(const AxisLaunch &launch);

/// Until the last rank has what it gets, without copies.
double linkSeconds(const AxisLaunch &launch, const Device &device);

/// Of ranks that own a unit between them.
RankGroup ownersOf(const Topology &topology);

} // namespace shardonnx

#endif // SHARDONNX_COST_AXISTIME_H
