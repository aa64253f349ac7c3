// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Cost/Exposure.h"

#include <algorithm>

namespace shardonnx {
namespace {

class Walk {
public:
  Walk(const Manifest &manifest, const Device &device, const Topology &topology)
      : m(manifest), device(device), group(topology.groupSize()),
        replicas(topology.replicas), gathered(manifest.units.size()),
        reduced(manifest.units.size()), resharded(manifest.units.size()) {}

  void run(const std::string &function);
  StepExposure step; // since it was last cleared

private:
  void work(double flops, double bytes);
  void call(const Manifest::Collective &call);
  double gatherSeconds(const Manifest::Unit &unit, bool nearby) const;
  double reduceSeconds(const Manifest::Unit &unit) const;
  double optimizerBytes(const Manifest::Unit &unit) const;
  void wait(UnitExposure &unit, double until);

  const Manifest &m;
  const Device &device;
  int64_t group, replicas; // ranks that share a unit, and copies of it
  double now = 0, gatherQueue = 0, reduceQueue = 0; // when each is free
  std::vector<double> gathered, reduced;            // when the last one ends
  std::vector<bool> resharded; // lies within its reshard_group
};

double Walk::gatherSeconds(const Manifest::Unit &unit, bool nearby) const {
  if (!unit.sharded)
    return 0;
  // In place nothing is copied: ranks meet.
  double bytes = unit.gatherInPlace ? 0 : double(unit.gatheredBytes());
  return device.gatherSeconds(bytes, nearby ? std::min(unit.reshardGroup, group)
                                            : group);
}

double Walk::reduceSeconds(const Manifest::Unit &unit) const {
  double bytes = double(unit.gradientBytes());
  if (!unit.sharded)
    return device.allReduceSeconds(bytes, group * replicas);
  double owned = double(unit.length) * sizeof(float) / double(group);
  return device.reduceScatterSeconds(bytes, group) +
         device.allReduceSeconds(owned, replicas);
}

// Reads and writes the master and the moments, reads the gradient.
double Walk::optimizerBytes(const Manifest::Unit &unit) const {
  double owned = double(unit.length) / double(unit.sharded ? group : 1);
  return owned * sizeof(float) * (2.0 * (1 + m.optimizerStates()) + 1);
}

void Walk::work(double flops, double bytes) {
  double seconds = device.workSeconds(flops, bytes, m.paramType != SHX_F32);
  step.work += seconds;
  now += seconds;
}

void Walk::wait(UnitExposure &unit, double until) {
  double waited = std::max(0.0, until - now);
  unit.exposed += waited;
  step.exposed += waited;
  now += waited;
}

void Walk::call(const Manifest::Collective &call) {
  work(call.flops, call.bytes);
  if (call.unit < 0)
    return;
  auto index = static_cast<size_t>(call.unit);
  const Manifest::Unit &unit = m.units[index];
  UnitExposure &exposure = step.units[index];
  if (call.op == "gather_start") {
    double seconds = gatherSeconds(unit, resharded[index]);
    exposure.gather += seconds;
    gatherQueue = std::max(gatherQueue, now) + seconds;
    gathered[index] = gatherQueue;
  } else if (call.op == "gather_wait") {
    wait(exposure, gathered[index]);
    resharded[index] = false;
  } else if (call.op == "gather_reshard") {
    resharded[index] = !device.sharedMemory;
  } else if (call.op == "reduce_start") {
    double seconds = reduceSeconds(unit);
    exposure.reduce += seconds;
    reduceQueue = std::max(reduceQueue, now) + seconds;
    reduced[index] = reduceQueue;
  } else if (call.op == "reduce_wait") {
    wait(exposure, reduced[index]);
  } else if (call.op == "optimizer") {
    work(0, optimizerBytes(unit));
  }
}

void Walk::run(const std::string &name) {
  step.units.resize(m.units.size());
  for (const Manifest::Function &function : m.functions)
    if (function.name == name) {
      for (const Manifest::Collective &collective : function.collectives)
        call(collective);
      work(function.flops, function.bytes);
    }
}

} // namespace

StepExposure predictExposure(const Manifest &manifest, const Device &device,
                             const Topology &topology) {
  Walk walk(manifest, device, topology);
  for (int count = 0; count < 2; ++count) {
    walk.step = {};
    walk.run("first_microbatch");
    walk.run("update");
  }
  return walk.step;
}

} // namespace shardonnx
