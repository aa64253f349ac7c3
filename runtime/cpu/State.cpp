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
                keepsInFile(unit.sendsMasters(), options.offload);
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
    if (!unit.sharded && topology.dataRanks() > 1)
      plan.reducedBytes += unit.length * 4;
    if (unit.sharded && topology.replicas > 1)
      plan.replicaSumBytes += replicaSumBytes(unit, topology);
  }
  plan.gradientsInPlace =
      !options.debug &&
      gradientsAreTheirSum(m, topology.dataRanks(), options.accumulate);
  plan.gradientsAmongActivations =
      plan.gradientsInPlace &&
      gradientsLieAmongActivations(m, topology.dataRanks(), options.accumulate);
  plan.gradientBytes = plan.gradientsInPlace ? 0 : m.gradientSpace.bytes;
  plan.muonBytes = planMuon(m, topology.groupHere()).windowBytes;
  auto end =
      static_cast<int64_t>(Control::bytes(topology.ranks, m.units.size()));
  auto take = [&](int64_t &bytes, int64_t times) {
    int64_t begin = alignTo(end, page);
    bytes = alignTo(bytes, page);
    end = begin + bytes * times;
    return begin;
  };
  plan.gather = take(plan.gatherBytes, topology.groups());
  plan.muon = take(plan.muonBytes, topology.groups());
  plan.reduced = take(plan.reducedBytes, topology.tensor);
  plan.replicaSums = take(plan.replicaSumBytes, topology.ranks);
  plan.gradients = take(plan.gradientBytes, topology.ranks);
  plan.meshBytes = m.meshBytes;
  plan.mesh = take(plan.meshBytes, topology.ranks);
  plan.total = end;
  return plan;
}

State::State(const Manifest &manifest, const Topology &topology, int rank,
             int memory, const MemoryOptions &options)
    : manifest(manifest), topology(topology), rank(rank),
      plan(planShared(manifest, topology, options)),
      muon(planMuon(manifest, topology.groupHere())), debug(options.debug),
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
  gatherMemory = map(plan.gather + topology.group(rank) * plan.gatherBytes,
                     plan.gatherBytes, "gathered parameters");
  int firstGroup = topology.replica(rank) * topology.tensor;
  for (int group = firstGroup; group < firstGroup + topology.tensor; ++group)
    muonMemory.push_back(map(plan.muon + group * plan.muonBytes, plan.muonBytes,
                             "Muon's directions"));
  muonPrivate = Mapping::anonymous(static_cast<size_t>(muon.workspaceBytes),
                                   "Muon's workspace");
  reducedMemory =
      map(plan.reduced + topology.tensorRank(rank) * plan.reducedBytes,
          plan.reducedBytes, "reduced gradients");
  for (int r = 0; r < topology.ranks; ++r)
    gradientMemory.push_back(map(plan.gradients + r * plan.gradientBytes,
                                 plan.gradientBytes, "gradients"));
  for (int replica = 0; replica < topology.replicas; ++replica) {
    int other = topology.rankAt(replica, topology.groupRank(rank), rank);
    replicaSumMemory.push_back(
        map(plan.replicaSums + other * plan.replicaSumBytes,
            plan.replicaSumBytes, "reduced gradients of the replicas"));
  }
  int64_t privateSize =
      plan.gradientsAmongActivations
          ? privateBytes(manifest, topology.dataRanks(), options.accumulate)
          : manifest.privateSpace.bytes;
  privateMemory = Mapping::anonymous(static_cast<size_t>(privateSize),
                                     "activations", options.debug);
  for (int i = 0; plan.meshBytes > 0 && i < topology.together(); ++i) {
    int other = topology.firstTogether(rank) + i;
    meshMemory.push_back(map(plan.mesh + other * plan.meshBytes, plan.meshBytes,
                             "collectives of the mesh's axes"));
  }
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
  if (unit.matrixLength > 0) {
    for (const Mapping &memory : muonMemory)
      state.partDirections.push_back(reinterpret_cast<uint16_t *>(
          memory.data() + muon.units[index].offset));
    state.directions =
        state.partDirections[static_cast<size_t>(topology.tensorRank(rank))];
  }
  if (unit.sharded)
    state.gathered = gatherMemory.data() + plan.unitOffsets[index];
  else if (!state.inPlace)
    state.gathered = privateGather.data() + unit.paramOffsetBytes;
  if (plan.gradientsInPlace)
    return; // carveOwned knows where they are
  int replica = unit.sharded ? topology.replica(rank) : 0;
  int count = unit.sharded ? topology.groupSize() : topology.dataRanks();
  int first = topology.rankAt(replica, 0, rank);
  for (int r = first; r < first + count * topology.tensor; r += topology.tensor)
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
  if (state.unit->sendsMasters()) {
    state.master = params;
  } else {
    state.params = params;
    state.master =
        masters.take<uint8_t>(n * state.elementBytes(StateArray::Master));
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
  if (!sharded && topology.dataRanks() > 1)
    state.reduced = reduced.take<float>(n);
  else if (sliceLiesAmongActivations(manifest, *state.unit, topology,
                                     options.accumulate))
    state.reduced = reinterpret_cast<float *>(privateMemory.data() +
                                              state.unit->slicePlaceBytes);
  else if (topology.replicas == 1)
    state.reduced = owned.take<float>(n);
  if (plan.gradientsInPlace)
    state.gradients = {reinterpret_cast<uint8_t *>(state.reduced)};
}

// Calls `visit` with each offloaded tensor's part of these elements.
template <typename Visit>
static void visitPart(const UnitState &u, const OffloadFile &file,
                      int64_t begin, Visit visit) {
  int64_t count = std::min(kFilePartElements, u.owned.size() - begin);
  if (count <= 0)
    return;
  auto part = [&](const auto *tensor, int64_t from, int64_t bytes) {
    if (file.holds(tensor))
      visit(tensor + from, bytes);
  };
  constexpr int64_t kFloat = sizeof(float);
  int64_t master = u.elementBytes(StateArray::Master);
  part(u.master, begin * master, count * master);
  int64_t moment = dtypeBytes(u.momentType);
  part(u.moments[0], begin * moment, count * moment);
  int64_t first = std::max(begin, u.matrixElements);
  part(u.moments[1], (first - u.matrixElements) * moment,
       std::max<int64_t>(begin + count - first, 0) * moment);
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
  for (int64_t begin = 0; begin < count; begin += kFilePartElements)
    evict(unit, begin);
  const UnitState &u = units[unit];
  offloadFile.evict(u.frozen,
                    u.frozenOwned.size() * u.elementBytes(StateArray::Frozen));
}

int64_t State::bytesMoved() const {
  int64_t bytes = 0;
  for (const UnitState &u : units)
    for (int64_t begin = 0; begin < u.owned.size(); begin += kFilePartElements)
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
