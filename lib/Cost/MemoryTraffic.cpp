// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See MemoryTraffic.h.

#include "shardonnx/Cost/MemoryTraffic.h"

#include "shardonnx/Cost/Exposure.h"
#include "shardonnx/runtime/GatherCodes.h"
#include "shardonnx/runtime/MasterHalves.h"
#include "shardonnx/runtime/MemoryPlan.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace shardonnx {

Moved &Moved::operator+=(const Moved &other) {
  kernels += other.kernels;
  calls += other.calls;
  read += other.read;
  written += other.written;
  least += other.least;
  elements += other.elements;
  seconds += other.seconds;
  return *this;
}

Moved UnitTraffic::total() const {
  Moved sum;
  for (const LaunchTraffic &launch : launches)
    sum += launch.moved;
  return sum;
}

bool UnitTraffic::alike(const UnitTraffic &other) const {
  return std::equal(launches.begin(), launches.end(), other.launches.begin(),
                    other.launches.end(),
                    [](const LaunchTraffic &a, const LaunchTraffic &b) {
                      return a.kind == b.kind && a.name == b.name &&
                             a.phase == b.phase && a.update == b.update &&
                             a.count == b.count &&
                             a.moved.bytes() == b.moved.bytes();
                    });
}

Moved MemoryTraffic::total() const {
  Moved sum;
  for (const UnitTraffic &unit : units)
    sum += unit.total();
  return sum;
}

Moved MemoryTraffic::ofKind(const std::string &kind) const {
  Moved sum;
  for (const UnitTraffic &unit : units)
    for (const LaunchTraffic &launch : unit.launches)
      if (launch.kind == kind)
        sum += launch.moved;
  return sum;
}

std::pair<size_t, int64_t> MemoryTraffic::layer() const {
  std::pair<size_t, int64_t> best{0, 0};
  std::vector<bool> counted(units.size());
  for (size_t first = 0; first < units.size(); ++first) {
    if (counted[first] || units[first].name.empty())
      continue;
    int64_t count = 0;
    for (size_t other = first; other < units.size(); ++other)
      if (!units[other].name.empty() && units[first].alike(units[other])) {
        counted[other] = true;
        ++count;
      }
    if (count > best.second)
      best = {first, count};
  }
  return best;
}

namespace {

/// What the runtime itself launches.
class Slices {
public:
  Slices(const Manifest &manifest, const Device &device,
         const Topology &topology, int64_t microbatches)
      : m(manifest), device(device), topology(topology),
        microbatches(microbatches) {}

  void add(size_t unit, UnitTraffic &to) const;
  int64_t ownedOf(const Manifest::Unit &unit) const {
    return topology.owned(unit.sharded, unit.length, 0).size();
  }

private:
  int64_t gathersOf(size_t unit, const std::string &function) const;
  void pass(UnitTraffic &to, const char *name, bool update, int64_t count,
            double read, double written, double least) const;
  void addGathers(size_t unit, int64_t count, bool update,
                  UnitTraffic &to) const;
  void addReductions(const Manifest::Unit &unit, UnitTraffic &to) const;
  void addSteps(const Manifest::Unit &unit, UnitTraffic &to) const;

  const Manifest &m;
  const Device &device;
  const Topology &topology;
  int64_t microbatches;
};

} // namespace

int64_t Slices::gathersOf(size_t unit, const std::string &function) const {
  int64_t count = 0;
  for (const Manifest::Function &one : m.functions)
    if (one.name == function)
      for (const Manifest::Collective &call : one.collectives)
        count += call.op == "gather_start" && call.unit == int64_t(unit);
  return count;
}

void Slices::pass(UnitTraffic &to, const char *name, bool update, int64_t count,
                  double read, double written, double least) const {
  if (count == 0 || read + written == 0)
    return;
  auto times = static_cast<double>(count);
  LaunchTraffic launch{name, name, Manifest::Phase::Forward, update, count, {}};
  launch.moved.kernels = count;
  launch.moved.read = times * read;
  launch.moved.written = times * written;
  launch.moved.least = times * least;
  launch.moved.seconds =
      times * device.workSeconds(0, read + written, /*half=*/false);
  to.launches.push_back(std::move(launch));
}

/// What the update has written is moved to its place: on CPUs of several
/// machines. NCCL sends it from where it is; a single owner reads it there.
void Slices::addGathers(size_t unit, int64_t count, bool update,
                        UnitTraffic &to) const {
  const Manifest::Unit &u = m.units[unit];
  double bytes = double(dtypeBytes(u.paramType)) * double(ownedOf(u));
  if (!m.cuda() && !gathersInPlace(u, topology))
    pass(to, "cast", update, count, bytes, bytes, 0);
  if (!m.cuda() || !u.sendsImages() || !u.sharded || topology.groupSize() == 1)
    return;
  auto image = double(gatherImageBytes(u.gatherType, u.length));
  double whole = double(dtypeBytes(u.paramType)) * double(u.length);
  pass(to, "encode", update, count, bytes, image / topology.groupSize(), 0);
  pass(to, "decode", update, count, image, whole, 0);
}

/// Sums of gradients, as every rank takes them of its part: where ranks share
/// memory from the gradients of all, else of what the collective has summed.
void Slices::addReductions(const Manifest::Unit &u, UnitTraffic &to) const {
  if (gradientsAreTheirSum(m, topology.ranks, microbatches))
    return;
  auto part = double(topology.owned(true, u.length, 0).size());
  if (m.cuda())
    part = double(ownedOf(u));
  int64_t sources = m.cuda() ? 1 : topology.groupSize();
  double read = double(sources) * double(dtypeBytes(u.reduceType)) * part;
  int64_t count = m.unshardedAccumulation ? 1 : microbatches;
  pass(to, "sum of gradients", /*update=*/false, 1, read, 4 * part,
       read + 4 * part);
  pass(to, "sum of gradients, added", /*update=*/false, count - 1,
       read + 4 * part, 4 * part, read + 8 * part);
}

/// The largest values of weights that products read in 8 bits.
void Slices::addSteps(const Manifest::Unit &u, UnitTraffic &to) const {
  WeightSteps steps = weightSteps(u);
  double owners = u.sharded ? topology.groupSize() : 1;
  pass(to, "largest weight", /*update=*/true, steps.count,
       steps.bytes / owners / double(std::max<int64_t>(steps.count, 1)), 0, 0);
}

bool squaresWithSum(const Manifest &m, const Manifest::Unit &u,
                    const Topology &topology, int64_t microbatches) {
  if (gradientsAreTheirSum(m, topology.ranks, microbatches))
    return false;
  if (u.sharded && topology.replicas > 1)
    return false;
  return m.cuda() ? u.sharded || topology.ranks == 1
                  : !topology.groupsLeaveMachine();
}

void Slices::add(size_t unit, UnitTraffic &to) const {
  const Manifest::Unit &u = m.units[unit];
  addGathers(unit,
             gathersOf(unit, "first_microbatch") +
                 (microbatches - 1) * gathersOf(unit, "next_microbatch"),
             /*update=*/false, to);
  addReductions(u, to);
  auto owned = double(ownedOf(u));
  if (!squaresWithSum(m, u, topology, microbatches))
    pass(to, "norm", /*update=*/true, 1, 4 * owned, 0, 0);
  auto states = double(m.momentBytes(u, {0, ownedOf(u)}));
  auto master = double(masterBytes(m, u));
  double read = owned * (4 + master + double(upperHalfBytes(m, u))) + states;
  double params = owned * double(lowPrecisionBytes(u));
  bool rounds = u.gatherType != GatherDtype::Param;
  double written = owned * master + states + (rounds ? 0 : params);
  pass(to, "optimizer", /*update=*/true, 1, read, written, read + written);
  pass(to, "round", /*update=*/true, rounds, owned * master, params, params);
  addSteps(u, to);
  addGathers(unit, gathersOf(unit, "update"), /*update=*/true, to);
}

/// Runs of the same launch, wherever in the step they are.
static std::vector<Manifest::LaunchRun>
together(const std::vector<Manifest::LaunchRun> &runs) {
  std::map<std::tuple<size_t, int64_t, Manifest::Phase>, size_t> places;
  std::vector<Manifest::LaunchRun> list;
  for (const Manifest::LaunchRun &run : runs) {
    auto [found, isNew] =
        places.try_emplace({run.launch, run.unit, run.phase}, list.size());
    if (isNew)
      list.push_back(run);
    else
      list[found->second].count += run.count;
  }
  return list;
}

MemoryTraffic memoryTraffic(const Manifest &m, const Device &device,
                            const Topology &topology, int64_t microbatches) {
  MemoryTraffic traffic;
  traffic.tokens = m.tokensPerMicrobatch() * microbatches;
  for (const Manifest::Unit &unit : m.units)
    traffic.units.push_back({unit.name, {}});
  traffic.units.emplace_back();
  auto add = [&](const Manifest::Function &function, int64_t times) {
    for (const Manifest::LaunchRun &run : together(function.launches)) {
      const Manifest::Launch &launch = m.launches[run.launch];
      int64_t count = run.count * times;
      auto scale = static_cast<double>(count);
      Moved moved{launch.kernels * count,
                  launch.calls * count,
                  launch.readBytes * scale,
                  launch.writtenBytes * scale,
                  launch.leastBytes * scale,
                  launch.elements * scale,
                  scale * launchSeconds(m, launch, run.phase, device)};
      size_t unit =
          run.unit < 0 ? m.units.size() : static_cast<size_t>(run.unit);
      traffic.units[unit].launches.push_back(
          {launch.kind, launch.name, run.phase, function.name == "update",
           count, moved});
    }
  };
  for (const Manifest::Function &function : m.functions) {
    if (function.name == "first_microbatch" || function.name == "update")
      add(function, 1);
    else if (function.name == "next_microbatch" && microbatches > 1)
      add(function, microbatches - 1);
  }
  Slices slices(m, device, topology, microbatches);
  for (size_t unit = 0; unit < m.units.size(); ++unit) {
    slices.add(unit, traffic.units[unit]);
    traffic.parameters += slices.ownedOf(m.units[unit]);
  }
  return traffic;
}

} // namespace shardonnx
