// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Cost/Exposure.h"

#include "StepWalk.h"
#include "shardonnx/Cost/MemoryTraffic.h"
#include "shardonnx/runtime/MasterHalves.h"
#include "shardonnx/runtime/MemoryPlan.h"

#include <algorithm>

namespace shardonnx {

double ownedElements(const Manifest::Unit &unit, const Topology &topology) {
  return double(unit.length) / double(unit.sharded ? topology.groupSize() : 1);
}

double optimizerBytes(const Manifest &m, const Manifest::Unit &unit,
                      const Topology &topology) {
  double states = double(m.momentBytes(unit, {0, unit.length})) /
                  double(std::max<int64_t>(unit.length, 1));
  // What gathers round is read again.
  double masters = unit.gatherType == GatherDtype::Param ? 2 : 3;
  return ownedElements(unit, topology) *
         (4.0 + masters * double(masterBytes(m, unit)) + 2 * states +
          double(upperHalfBytes(m, unit) + lowPrecisionBytes(unit)) +
          weightSteps(unit).bytes / double(std::max<int64_t>(unit.length, 1)));
}

WeightSteps weightSteps(const Manifest::Unit &unit) {
  ShxDType type = unit.inCodes() ? unit.masterType : unit.paramType;
  WeightSteps steps;
  for (const Manifest::Param &param : unit.params) {
    if (!param.trainable)
      continue;
    auto count = static_cast<int64_t>(param.f8Steps.size());
    steps.count += count;
    steps.bytes += double(count * param.elements()) * double(dtypeBytes(type));
  }
  return steps;
}

// Adds `times` of another's figures.
static void add(StepExposure &sum, const StepExposure &other, double times) {
  for (double StepExposure::*part :
       {&StepExposure::work, &StepExposure::exposed, &StepExposure::products,
        &StepExposure::attention, &StepExposure::memory, &StepExposure::host,
        &StepExposure::copies})
    sum.*part += times * (other.*part);
  for (size_t axis = 0; axis < sum.exposedByAxis.size(); ++axis)
    sum.exposedByAxis[axis] += times * other.exposedByAxis[axis];
  for (size_t unit = 0; unit < other.units.size(); ++unit) {
    sum.units[unit].gather += times * other.units[unit].gather;
    sum.units[unit].reduce += times * other.units[unit].reduce;
    sum.units[unit].exposed += times * other.units[unit].exposed;
  }
}

double tokensPerSecond(const Manifest &manifest, int64_t microbatches,
                       double seconds) {
  return double(manifest.tokensPerMicrobatch() * microbatches) /
         (std::max(seconds, 1e-12) * double(manifest.mesh.together()));
}

StepExposure predictExposure(const Manifest &manifest, const Device &device,
                             const Topology &topology, const StepPlay &play) {
  // Microbatches repeat themselves: beyond a few, the last stands for the rest.
  constexpr int64_t kPlayed = 4;
  StepWalk walk(manifest, device, topology, play);
  StepExposure repeated;
  for (int count = 0; count < 2; ++count) {
    walk.step = {};
    walk.run("first_microbatch");
    int64_t next = play.microbatches - 1;
    for (int64_t i = 0; i < std::min(next, kPlayed); ++i) {
      StepExposure before = walk.step;
      walk.run("next_microbatch");
      repeated = walk.step;
      add(repeated, before, -1);
    }
    walk.run("update");
    walk.endStep();
    if (next > kPlayed)
      add(walk.step, repeated, double(next - kPlayed));
  }
  return walk.step;
}

std::vector<FunctionSchedule> predictSchedule(const Manifest &manifest,
                                              const Device &device,
                                              const Topology &topology,
                                              Offload offload) {
  StepPlay play;
  play.offload = offload;
  StepWalk walk(manifest, device, topology, play);
  double start = 0;
  for (int count = 0; count < 2; ++count) {
    start = walk.time();
    walk.functions.clear();
    walk.run("first_microbatch");
    walk.run("update");
  }
  for (FunctionSchedule &function : walk.functions) {
    function.begin -= start;
    function.end -= start;
    for (std::vector<Span> *spans : {&function.work, &function.others})
      for (Span &span : *spans) {
        span.begin -= start;
        span.end -= start;
      }
  }
  return std::move(walk.functions);
}

double offloadSeconds(const Manifest &manifest, const Topology &ranks,
                      Offload offload, const Device &device) {
  return double(offloadedBytes(manifest, ranks, offload) -
                manifest.hostSpace.bytes) /
         device.hostBytesPerSecond;
}

} // namespace shardonnx
