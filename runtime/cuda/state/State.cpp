// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See State.h.

#include "State.h"
#include "../../core/Carver.h"
#include "../driver/Noise.h"

namespace shardonnx::rt::cuda {

State::State(const Manifest &manifest, int rank, const Topology &topology,
             int64_t accumulate, Allocator &symmetric, Offload offload)
    : manifest(manifest), rank(rank), topology(topology), offload(offload),
      plan(planDevice(manifest, topology, accumulate, offload)),
      privateSpace(manifest.privateSpace.bytes, "activations and workspaces"),
      gatherSpace(plan.gatherBytes, "gathered parameters", symmetric),
      imageSpace(plan.imageBytes, "parameters on their way", symmetric),
      gradientSpace(plan.gradientBytes, "full gradients", symmetric) {
  units.resize(manifest.units.size());
  for (size_t u = 0; u < units.size(); ++u)
    placeUnit(u);
  carveOwned(symmetric);
  for (UnitState &state : units) {
    paramPointers.push_back(state.gathered);
    gradPointers.push_back(state.gradients);
  }
}

void State::placeUnit(size_t index) {
  const Manifest::Unit &unit = manifest.units[index];
  const DevicePlan::Unit &planned = plan.units[index];
  UnitState &state = units[index];
  state.assign(manifest, index, topology, rank);
  state.slice = planned.slice;
  state.frozenSlice = planned.frozenSlice;
  state.gatherBytes = planned.gather;
  state.gradientBytes = planned.gradients;
  state.inPlace = planned.inPlace;
  state.group = planned.group;
  if (planned.group > 0) {
    int place = rank % planned.group;
    state.groupSlice = planned.groupSlice;
    state.groupFrozenSlice = planned.groupFrozenSlice;
    state.groupOwned = ownedInterval(unit.length, place, planned.group,
                                     topology.sliceAlignment);
    state.groupFrozenOwned =
        ownedInterval(unit.frozenLength, place, planned.group);
  }
  if (!planned.inPlace)
    state.gathered = gatherSpace.data() + planned.gather.begin;
  if (!plan.gradientsInPlace)
    state.gradients = gradientSpace.data() + planned.gradients.begin;
}

// The owned slices are counted first and then placed, by the same code.
void State::carveOwned(Allocator &symmetric) {
  for (bool counting : {true, false}) {
    auto carve = [&](uint8_t *begin) {
      return Carver(counting ? nullptr : begin, kDeviceAlignmentBytes);
    };
    Carvers memory{carve(ownedSlices.data()), carve(sentSlices.data()),
                   carve(hostSlices.data())};
    for (UnitState &state : units)
      carveUnit(state, memory);
    if (!counting)
      continue;
    ownedSlices =
        DeviceMemory(memory.device.used, "master weights, optimizer state and "
                                         "gradients");
    sentSlices =
        DeviceMemory(memory.sent.used, "parameters to gather", symmetric);
    hostSlices = PinnedMemory(memory.host.used, "offloaded slices");
  }
}

void State::carveWeights(UnitState &state, Carvers &memory) {
  const Manifest::Unit &unit = *state.unit;
  int64_t n = state.owned.size(), element = dtypeBytes(unit.paramType);
  int64_t master = state.masterBytes();
  if (offload == Offload::Params) {
    state.master = memory.host.take<uint8_t>(n * master);
    state.frozen =
        memory.host.take<uint8_t>(state.frozenOwned.size() * element);
    state.hostParams = unit.sendsMasters()
                           ? state.master
                           : memory.host.take<uint8_t>(n * element);
    return;
  }
  uint8_t *params;
  if (state.inPlace) {
    params = state.gathered = memory.device.take<uint8_t>(unit.gatheredBytes());
    state.frozen = params ? params + unit.frozenOffsetBytes : nullptr;
  } else {
    params = memory.sent.take<uint8_t>(state.slice * element);
    state.frozen = memory.sent.take<uint8_t>(state.frozenSlice * element);
  }
  if (unit.sendsMasters()) {
    state.master = params;
  } else {
    state.params = params;
    state.master = memory.device.take<uint8_t>(state.slice * master);
  }
}

void State::carveUnit(UnitState &state, Carvers &memory) {
  Carver &device = memory.device;
  Carver &moments = offload == Offload::None ? device : memory.host;
  int64_t n = state.owned.size();
  int64_t element = dtypeBytes(state.unit->paramType);
  carveWeights(state, memory);
  state.carveMoments(moments, manifest.optimizerStates(), n);
  state.reduced = device.take<float>(n);
  state.resharded = device.take<uint8_t>(state.groupOwned.size() * element);
  state.reshardedFrozen =
      device.take<uint8_t>(state.groupFrozenOwned.size() * element);
  if (plan.gradientsInPlace)
    state.gradients = reinterpret_cast<uint8_t *>(state.reduced);
}

void State::fillWithNoise(CUstream stream) const {
  for (const DeviceMemory *space :
       {&privateSpace, &gatherSpace, &gradientSpace})
    cuda::fillWithNoise(*space, stream);
}

bool State::onHost(StateArray array) const {
  return offload == Offload::Params ||
         ((isMoment(array) || isScale(array)) && offload == Offload::Optimizer);
}

} // namespace shardonnx::rt::cuda
