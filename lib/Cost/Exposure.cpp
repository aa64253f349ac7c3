// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Cost/Exposure.h"

#include "shardonnx/runtime/MemoryPlan.h"
#include <algorithm>

namespace shardonnx {
namespace {

class Walk {
public:
  Walk(const Manifest &manifest, const Device &device, const Topology &topology,
       double straggler)
      : m(manifest), device(device), group(topology.groupSize()),
        replicas(topology.replicas), slower(1 + straggler),
        gathered(manifest.units.size()), reduced(manifest.units.size()),
        resharded(manifest.units.size()) {}

  void run(const std::string &function);
  double time() const { return now; }
  StepExposure step;                       // since it was last cleared
  std::vector<FunctionSchedule> functions; // the same

private:
  void work(double seconds);
  double slowed(double seconds, double clock) const;
  void call(const Manifest::Collective &call);
  double start(double &queue, double seconds);
  double gatherSeconds(const Manifest::Unit &unit, bool nearby) const;
  double reduceSeconds(const Manifest::Unit &unit) const;
  double optimizerBytes(const Manifest::Unit &unit) const;
  std::vector<double> workOf(const Manifest::Function &function) const;
  bool half() const { return m.paramType != SHX_F32; }
  void wait(size_t unit, double until);
  void record(Span::Queue queue, int64_t unit, double begin, double end) {
    functions.back().others.push_back({queue, unit, begin, end});
  }
  void workBetween(double seconds) {
    double begin = now;
    work(seconds);
    functions.back().work.push_back({Span::Work, -1, begin, now});
  }

  const Manifest &m;
  const Device &device;
  int64_t group, replicas;  // ranks that share a unit, and copies of it
  double slower;            // the straggler's work, to that of the others
  double now = 0, late = 0; // clocks of the others and of the straggler
  double gatherQueue = 0, reduceQueue = 0; // when each is free
  double wire = 0;                         // when nothing is being sent
  std::vector<double> gathered, reduced;   // when the last one ends
  std::vector<bool> resharded;             // lies within its reshard_group
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
  // Every rank of a machine sums with its like on the other machines, over its
  // own network card.
  int64_t abreast = std::max<int64_t>(
      1, device.perMachine == 0 ? 1 : std::min(device.perMachine, group));
  return device.reduceScatterSeconds(bytes, group) +
         (replicas == 1 ? 0
                        : device.allReduceSeconds(owned * double(abreast),
                                                  replicas * abreast));
}

// Reads and writes the master and the moments, reads the gradient.
double Walk::optimizerBytes(const Manifest::Unit &unit) const {
  double owned = double(unit.length) / double(unit.sharded ? group : 1);
  return owned * sizeof(float) * (2.0 * (1 + m.optimizerStates()) + 1);
}

// While something is being sent, work has fewer multiprocessors.
double Walk::slowed(double seconds, double clock) const {
  double share = 1 - device.collectiveMultiprocessors / device.multiprocessors;
  double busy = std::max(gatherQueue, reduceQueue) - clock;
  if (busy <= 0 || share >= 1)
    return seconds;
  return seconds <= busy * share ? seconds / share
                                 : seconds + busy * (1 - share);
}

void Walk::work(double seconds) {
  double taken = slowed(seconds, now);
  step.work += taken;
  now += taken;
  late += slowed(seconds * slower, late);
}

void Walk::wait(size_t unit, double until) {
  double waited = std::max(0.0, until - now);
  if (waited > 0)
    record(Span::Wait, static_cast<int64_t>(unit), now, until);
  step.units[unit].exposed += waited;
  step.exposed += waited;
  now += waited;
  late = std::max(late, until);
}

// A collective starts when its queue is free and the last rank has come; what
// is sent shares the links with the other queue.
double Walk::start(double &queue, double seconds) {
  double begin = std::max({queue, now, late});
  if (!device.sharedMemory && seconds > 0) {
    double latency = std::min(seconds, device.latencySeconds(group * replicas));
    double sending = std::max(begin + latency, wire);
    wire = sending + seconds - latency;
    return queue = wire;
  }
  return queue = begin + seconds;
}

void Walk::call(const Manifest::Collective &call) {
  if (call.unit < 0)
    return;
  auto index = static_cast<size_t>(call.unit);
  const Manifest::Unit &unit = m.units[index];
  UnitExposure &exposure = step.units[index];
  if (call.op == "gather_start") {
    double seconds = gatherSeconds(unit, resharded[index]);
    exposure.gather += seconds;
    double end = gathered[index] = start(gatherQueue, seconds);
    record(Span::Gather, call.unit, end - seconds, end);
  } else if (call.op == "gather_wait") {
    wait(index, gathered[index]);
    resharded[index] = false;
  } else if (call.op == "gather_reshard") {
    resharded[index] = !device.sharedMemory;
  } else if (call.op == "reduce_start") {
    double seconds = reduceSeconds(unit);
    exposure.reduce += seconds;
    double end = reduced[index] = start(reduceQueue, seconds);
    record(Span::Reduce, call.unit, end - seconds, end);
  } else if (call.op == "reduce_wait") {
    wait(index, reduced[index]);
  } else if (call.op == "optimizer") {
    double begin = now;
    work(device.workSeconds(0, optimizerBytes(unit), half()));
    record(Span::Work, call.unit, begin, now);
  }
}

// Seconds before each call, and behind the last one.
std::vector<double> Walk::workOf(const Manifest::Function &function) const {
  std::vector<double> seconds;
  if (function.launches.empty()) {
    for (const Manifest::Collective &call : function.collectives)
      seconds.push_back(device.workSeconds(call.flops, call.bytes, half()));
    seconds.push_back(
        device.workSeconds(function.flops, function.bytes, half()));
    return seconds;
  }
  seconds.resize(function.collectives.size() + 1);
  for (const Manifest::LaunchRun &run : function.launches)
    seconds[run.behind] +=
        double(run.count) *
        launchSeconds(m.launches[run.launch], run.phase, device, half());
  return seconds;
}

void Walk::run(const std::string &name) {
  step.units.resize(m.units.size());
  for (const Manifest::Function &function : m.functions)
    if (function.name == name) {
      functions.push_back({&function, now, now, {}, {}});
      std::vector<double> seconds = workOf(function);
      for (size_t i = 0; i < function.collectives.size(); ++i) {
        workBetween(seconds[i]);
        call(function.collectives[i]);
      }
      workBetween(seconds.back());
      functions.back().end = now;
    }
}

} // namespace

StepExposure predictExposure(const Manifest &manifest, const Device &device,
                             const Topology &topology, StepPlay play) {
  // Microbatches repeat themselves: beyond a few, the last stands for the rest.
  constexpr int64_t kPlayed = 4;
  Walk walk(manifest, device, topology, play.straggler);
  StepExposure repeated;
  for (int count = 0; count < 2; ++count) {
    walk.step = {};
    walk.run("first_microbatch");
    int64_t next = play.microbatches - 1;
    for (int64_t i = 0; i < std::min(next, kPlayed); ++i) {
      StepExposure before = walk.step;
      walk.run("next_microbatch");
      repeated = walk.step;
      repeated.work -= before.work;
      repeated.exposed -= before.exposed;
      for (size_t unit = 0; unit < before.units.size(); ++unit) {
        repeated.units[unit].gather -= before.units[unit].gather;
        repeated.units[unit].reduce -= before.units[unit].reduce;
        repeated.units[unit].exposed -= before.units[unit].exposed;
      }
    }
    walk.run("update");
    auto more = double(std::max<int64_t>(0, next - kPlayed));
    if (more == 0)
      continue;
    walk.step.work += more * repeated.work;
    walk.step.exposed += more * repeated.exposed;
    for (size_t unit = 0; unit < repeated.units.size(); ++unit) {
      walk.step.units[unit].gather += more * repeated.units[unit].gather;
      walk.step.units[unit].reduce += more * repeated.units[unit].reduce;
      walk.step.units[unit].exposed += more * repeated.units[unit].exposed;
    }
  }
  return walk.step;
}

std::vector<FunctionSchedule> predictSchedule(const Manifest &manifest,
                                              const Device &device,
                                              const Topology &topology) {
  Walk walk(manifest, device, topology, /*straggler=*/0);
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
  return double(offloadedBytes(manifest, ranks, offload)) /
         device.hostBytesPerSecond;
}

} // namespace shardonnx
