// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See AxisTime.h.

#include "shardonnx/Cost/AxisTime.h"

namespace shardonnx {

RankGroup axisGroup(MeshAxis axis, const Mesh &mesh) {
  return {mesh.size(axis), axis == MeshAxis::Context ? mesh.tensor() : 1};
}

// `moved`: of the tensor that a rank gives and of the one that it gets.
static double wholeOf(const std::string &call, double moved, double ranks) {
  bool oneIsPart = call == "all_gather" || call == "reduce_scatter";
  return oneIsPart ? moved * ranks / (ranks + 1) : moved / 2;
}

std::optional<AxisLaunch> axisLaunch(const Manifest::Launch &launch,
                                     const Mesh &mesh) {
  size_t space = launch.name.find(' ');
  bool started = launch.kind == "mesh start";
  if ((launch.kind != "mesh" && !started) || space == std::string::npos)
    return std::nullopt;
  AxisLaunch found;
  found.started = started;
  found.call = launch.name.substr(0, space);
  std::optional<MeshAxis> axis =
      parseSpelling<MeshAxis>(launch.name.substr(space + 1));
  bool sends = found.call == "all_gather" || found.call == "reduce_scatter" ||
               found.call == "all_reduce" || found.call == "all_to_all" ||
               found.call == "part_shift";
  if (!axis || !sends)
    return std::nullopt;
  found.axis = *axis;
  found.group = axisGroup(*axis, mesh);
  found.wholeBytes =
      wholeOf(found.call, launch.leastBytes, double(found.group.ranks));
  found.packedBytes =
      launch.readBytes + launch.writtenBytes - launch.leastBytes;
  return found;
}

double bytesSent(const AxisLaunch &launch) {
  auto ranks = double(launch.group.ranks);
  if (launch.call == "part_shift")
    return launch.wholeBytes;
  double once = launch.wholeBytes * (ranks - 1) / ranks;
  return launch.call == "all_reduce" ? 2 * once : once;
}

// Ranks of a CPU write what they give where the others read it: all of a sum
// is read by each.
static double sharedMemorySeconds(const AxisLaunch &launch,
                                  const Device &device) {
  auto ranks = double(launch.group.ranks);
  double given = launch.call == "all_gather" ? launch.wholeBytes / ranks
                                             : launch.wholeBytes;
  double taken = launch.call == "all_reduce" ? launch.wholeBytes * ranks
                                             : launch.wholeBytes;
  return device.latencySeconds(launch.group) +
         (given + taken) / device.within.bytesPerSecond;
}

double linkSeconds(const AxisLaunch &launch, const Device &device) {
  if (launch.group.ranks <= 1)
    return 0;
  if (device.sharedMemory)
    return sharedMemorySeconds(launch, device);
  if (launch.call == "all_gather")
    return device.gatherSeconds(launch.wholeBytes, launch.group);
  if (launch.call == "reduce_scatter")
    return device.reduceScatterSeconds(launch.wholeBytes, launch.group);
  if (launch.call == "all_reduce")
    return device.allReduceSeconds(launch.wholeBytes, launch.group);
  auto ranks = double(launch.group.ranks);
  // In a shift all goes to one rank.
  double all = launch.call == "part_shift"
                   ? launch.wholeBytes * ranks / (ranks - 1)
                   : launch.wholeBytes;
  return device.allToAllSeconds(all, launch.group);
}

RankGroup ownersOf(const Topology &topology) {
  return {topology.groupSize(), topology.tensor};
}

} // namespace shardonnx
