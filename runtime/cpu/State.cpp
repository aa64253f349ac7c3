// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Carving a rank's memory. Three kinds: what the ranks share (control,
// gathered units, gradients that the others read), the private space of the
// program, and the owned slices.

#include "State.h"
#include "../comm/Control.h"
#include "../support/Error.h"
#include "shardonnx/runtime/MemoryPlan.h"
#include <algorithm>

namespace shardonnx::rt {
namespace {

// Units of the layout that are gathered into planned buffers.
bool anyCopied(const Manifest &m, bool sharded, const MemoryOptions &options) {
  for (const Manifest::Unit &unit : m.units)
    if (unit.sharded == sharded && !gathersInPlace(m, unit, options))
      return true;
  return false;
}

// Of a rank's slice, the same for every rank.
int64_t replicaSumBytes(const Manifest::Unit &unit, const Topology &topology) {
  return alignTo(
      sliceLength(unit.length, topology.groupSize(), topology.sliceAlignment) *
          4,
      kBufferAlignmentBytes);
}

} // namespace

bool gathersInPlace(const Manifest &manifest, const Manifest::Unit &unit,
                    const MemoryOptions &options) {
  // Poisoning needs buffers that are not what the update has written, and so do
  // slices that come from other machines. In a file, no unit is whole.
  bool copies = options.debug || (options.groupsLeaveMachine && unit.sharded) ||
                keepsInFile(unit.paramType, options.offload);
  return unit.gatherInPlace && !(copies && manifest.gatherSpace.bytes > 0);
}

SharedPlan planShared(const Manifest &m, const Topology &topology,
                      const MemoryOptions &options) {
  SharedPlan plan;
  auto page = static_cast<int64_t>(pageBytes());
  if (anyCopied(m, /*sharded=*/true, options))
    plan.gatherBytes = alignTo(m.gatherSpace.bytes, page);
  for (const Manifest::Unit &unit : m.units) {
    bool inPlace = gathersInPlace(m, unit, options);
    plan.unitOffsets.push_back(inPlace ? plan.gatherBytes
                                       : unit.paramOffsetBytes);
    if (inPlace && unit.sharded)
      plan.gatherBytes += alignTo(unit.gatheredBytes(), kBufferAlignmentBytes);
    if (!unit.sharded && topology.ranks > 1)
      plan.reducedBytes += unit.length * 4;
    if (unit.sharded && topology.replicas > 1)
      plan.replicaSumBytes += replicaSumBytes(unit, topology);
  }
  plan.gradientsInPlace =
      !options.debug &&
      gradientsAreTheirSum(m, topology.ranks, options.accumulate);
  plan.gradientsAmongActivations =
      plan.gradientsInPlace &&
      gradientsLieAmongActivations(m, topology.ranks, options.accumulate);
  plan.gradientBytes = plan.gradientsInPlace ? 0 : m.gradientSpace.bytes;
  auto end =
      static_cast<int64_t>(Control::bytes(topology.ranks, m.units.size()));
  auto take = [&](int64_t &bytes, int64_t times) {
    int64_t begin = alignTo(end, page);
    bytes = alignTo(bytes, page);
    end = begin + bytes * times;
    return begin;
  };
  plan.gather = take(plan.gatherBytes, topology.replicas);
  plan.reduced = take(plan.reducedBytes, 1);
  plan.replicaSums = take(plan.replicaSumBytes, topology.ranks);
  plan.gradients = take(plan.gradientBytes, topology.ranks);
  plan.total = end;
  return plan;
}

State::State(const Manifest &manifest, const Topology &topology, int rank,
             int memory, const MemoryOptions &options)
    : manifest(manifest), topology(topology), rank(rank),
      plan(planShared(manifest, topology, options)), debug(options.debug),
      offloads(options.offload != Offload::None) {
  mapMemory(memory, options);
  units.resize(manifest.units.size());
  for (size_t u = 0; u < units.size(); ++u)
    placeUnit(u, options);
  carveOwned(options);
  placeReplicaSums();
  auto self = static_cast<size_t>(rank);
  for (size_t u = 0; u < units.size(); ++u) {
    UnitState &state = units[u];
    if (state.inPlace)
      state.frozen =
          state.gathered + state.unit->frozenOffsetBytes +
          state.frozenOwned.begin * state.elementBytes(StateArray::Frozen);
    paramPointers.push_back(state.gathered);
    gradPointers.push_back(plan.gradientsInPlace
                               ? state.gradients.front()
                               : gradientMemory[self].data() +
                                     state.unit->gradOffsetBytes);
  }
}

void State::mapMemory(int memory, const MemoryOptions &options) {
  auto map = [&](int64_t offset, int64_t bytes, const char *what) {
    auto size = static_cast<size_t>(bytes);
    return memory < 0 ? Mapping::anonymous(size, what)
                      : Mapping::shared(memory, offset, size, what);
  };
  gatherMemory = map(plan.gather + topology.replica(rank) * plan.gatherBytes,
                     plan.gatherBytes, "gathered parameters");
  reducedMemory = map(plan.reduced, plan.reducedBytes, "reduced gradients");
  for (int r = 0; r < topology.ranks; ++r)
    gradientMemory.push_back(map(plan.gradients + r * plan.gradientBytes,
                                 plan.gradientBytes, "gradients"));
  for (int replica = 0; replica < topology.replicas; ++replica) {
    int other = replica * topology.groupSize() + topology.groupRank(rank);
    replicaSumMemory.push_back(
        map(plan.replicaSums + other * plan.replicaSumBytes,
            plan.replicaSumBytes, "reduced gradients of the replicas"));
  }
  int64_t privateSize =
      plan.gradientsAmongActivations
          ? privateBytes(manifest, topology.ranks, options.accumulate)
          : manifest.privateSpace.bytes;
  privateMemory = Mapping::anonymous(static_cast<size_t>(privateSize),
                                     "activations", options.debug);
  if (anyCopied(manifest, /*sharded=*/false, options))
    privateGather =
        Mapping::anonymous(static_cast<size_t>(manifest.gatherSpace.bytes),
                           "parameters", options.debug);
}

void State::placeUnit(size_t index, const MemoryOptions &options) {
  const Manifest::Unit &unit = manifest.units[index];
  UnitState &state = units[index];
  state.assign(manifest, index, topology, rank);
  state.inPlace = gathersInPlace(manifest, unit, options);
  state.reducePart = unit.sharded ? state.owned : state.counted;
  if (unit.sharded)
    state.gathered = gatherMemory.data() + plan.unitOffsets[index];
  else if (!state.inPlace)
    state.gathered = privateGather.data() + unit.paramOffsetBytes;
  if (plan.gradientsInPlace)
    return; // carveOwned knows where they are
  int first = unit.sharded ? topology.replica(rank) * topology.groupSize() : 0;
  int count = unit.sharded ? topology.groupSize() : topology.ranks;
  for (int r = first; r < first + count; ++r)
    state.gradients.push_back(gradientMemory[static_cast<size_t>(r)].data() +
                              unit.gradOffsetBytes);
}

Interval State::replicaPart(const UnitState &unit, int replica) const {
  return ownedInterval(unit.owned.size(), replica, topology.replicas);
}

// The owned slices are counted first and then placed, by the same code.
void State::carveOwned(const MemoryOptions &options) {
  for (bool counting : {true, false}) {
    Carver owned(counting ? nullptr : ownedMemory.data(),
                 kBufferAlignmentBytes);
    Carver reduced(reducedMemory.data(), kBufferAlignmentBytes);
    Carver file(counting ? nullptr : offloadFile.data(),
                static_cast<int64_t>(pageBytes()));
    for (UnitState &state : units)
      carveUnit(state, options, owned, reduced, file);
    if (!counting)
      continue;
    ownedMemory = Mapping::anonymous(static_cast<size_t>(owned.used),
                                     "optimizer state", debug);
    offloadBytes = file.used;
    offloadFile = OffloadFile(options.offloadDir, offloadBytes);
  }
}

void State::carveUnit(UnitState &state, const MemoryOptions &options,
                      Carver &owned, Carver &reduced, Carver &file) {
  Carver &masters = options.offload == Offload::Params ? file : owned;
  Carver &moments = options.offload == Offload::None ? owned : file;
  int64_t n = state.owned.size();
  bool sharded = state.unit->sharded;
  int64_t element = dtypeBytes(state.unit->paramType);
  if (state.inPlace && !sharded)
    state.gathered = owned.take<uint8_t>(state.unit->gatheredBytes());
  if (!state.inPlace)
    state.frozen = masters.take<uint8_t>(state.frozenOwned.size() * element);
  uint8_t *params = state.inPlace ? state.gathered + state.owned.begin * element
                                  : masters.take<uint8_t>(n * element);
  if (state.isF32()) {
    state.master = reinterpret_cast<float *>(params);
  } else {
    state.params = params;
    state.master = masters.take<float>(n);
  }
  state.carveMoments(moments, manifest.optimizerStates(), n);
  if (plan.gradientsAmongActivations) {
    if (n > 0)
      state.reduced = reinterpret_cast<float *>(privateMemory.data() +
                                                state.unit->gradPlaceBytes);
    state.gradients = {reinterpret_cast<uint8_t *>(state.reduced)};
    return;
  }
  // Replicated: every rank sums a part of one array that all read.
  if (!sharded && topology.ranks > 1)
    state.reduced = reduced.take<float>(n);
  else if (topology.replicas == 1)
    state.reduced = owned.take<float>(n);
  if (plan.gradientsInPlace)
    state.gradients = {reinterpret_cast<uint8_t *>(state.reduced)};
}

// Calls `visit` with each offloaded tensor's part of these elements.
template <typename Visit>
static void visitPart(const UnitState &u, const OffloadFile &file,
                      int64_t begin, Visit visit) {
  int64_t count = std::min(kOffloadElements, u.owned.size() - begin);
  if (count <= 0)
    return;
  auto part = [&](const auto *tensor, int64_t from, int64_t bytes) {
    if (file.holds(tensor))
      visit(tensor + from, bytes);
  };
  constexpr int64_t kFloat = sizeof(float);
  part(u.master, begin, count * kFloat);
  int64_t moment = dtypeBytes(u.momentType);
  for (const uint8_t *tensor : u.moments)
    part(tensor, begin * moment, count * moment);
  for (const float *tensor : u.scales)
    part(tensor, begin / kStateBlock, stateBlocks(count) * kFloat);
  int64_t element = dtypeBytes(u.unit->paramType);
  part(u.params, begin * element, count * element);
}

void State::prefetch(size_t unit, int64_t begin) const {
  if (unit < units.size())
    visitPart(units[unit], offloadFile, begin,
              [&](const void *at, int64_t bytes) {
                offloadFile.prefetch(at, bytes);
              });
}

void State::evict(size_t unit, int64_t begin) const {
  visitPart(
      units[unit], offloadFile, begin,
      [&](const void *at, int64_t bytes) { offloadFile.evict(at, bytes); });
}

void State::evictUnit(size_t unit) const {
  int64_t count = units[unit].owned.size();
  for (int64_t begin = 0; begin < count; begin += kOffloadElements)
    evict(unit, begin);
  const UnitState &u = units[unit];
  offloadFile.evict(u.frozen,
                    u.frozenOwned.size() * u.elementBytes(StateArray::Frozen));
}

int64_t State::bytesMoved() const {
  int64_t bytes = 0;
  for (const UnitState &u : units)
    for (int64_t begin = 0; begin < u.owned.size(); begin += kOffloadElements)
      visitPart(u, offloadFile, begin,
                [&](const void *, int64_t part) { bytes += 2 * part; });
  return bytes;
}

// Where the replicas add up their slices, these are shared.
void State::placeReplicaSums() {
  if (topology.replicas == 1)
    return;
  int64_t offset = 0;
  for (UnitState &state : units) {
    if (!state.unit->sharded)
      continue;
    for (Mapping &memory : replicaSumMemory)
      state.replicaSums.push_back(
          reinterpret_cast<float *>(memory.data() + offset));
    state.reduced =
        state.replicaSums[static_cast<size_t>(topology.replica(rank))];
    offset += replicaSumBytes(*state.unit, topology);
  }
}

} // namespace shardonnx::rt
