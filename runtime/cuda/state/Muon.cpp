// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Muon.h.

#include "Muon.h"
#include "../../support/Error.h"
#include "../calls/AxisParts.h"
#include "../calls/NewtonSchulz.h"
#include "../driver/Noise.h"
#include "../launch/Launch.h"
#include "State.h"
#include <utility>

namespace shardonnx::rt::cuda {

Muon::Muon(Context &context, AdjustLR adjust)
    : context(context), owners(planMuon(context.state->manifest,
                                        context.state->topology.groupSize())),
      window(context.state->plan.muon.windowBytes, "Muon's directions"),
      workspace(context.state->plan.muon.workspaceBytes, "Muon's workspace") {
  const DeviceMuonPlan &memory = context.state->plan.muon;
  std::vector<float> factors;
  for (size_t u = 0; u < owners.units.size(); ++u) {
    plan(u, memory);
    for (const MuonPlan::Matrix &matrix : owners.units[u].matrices)
      factors.push_back(matrix.factor(adjust));
  }
  writeNow(workspace.address() + static_cast<CUdeviceptr>(memory.factors),
           factors.data(), static_cast<int64_t>(factors.size() * sizeof(float)),
           "copying factors of the learning rate to the GPU");
}

// A rank of the group that has a part of a matrix sends it to the owner, and
// gets it back; of a unit that every rank has whole, the owner sends it to all.
void Muon::plan(size_t index, const DeviceMuonPlan &memory) {
  Unit &unit = units.emplace_back();
  const State &state = *context.state;
  const UnitState &u = state.units[index];
  const Topology &topology = state.topology;
  int here = topology.groupRank(context.rank);
  unit.slice = window.data() + memory.units[index].slice;
  uint8_t *room = window.data() + memory.units[index].matrices;
  for (const MuonPlan::Matrix &matrix : owners.units[index].matrices) {
    unit.isSplit |= matrix.joinedAt.has_value();
    Interval mine = matrix.within(u.owned);
    uint8_t *part =
        mine.size() > 0
            ? unit.slice + (mine.begin - u.owned.begin) * kDirectionBytes
            : nullptr;
    if (matrix.owner != here) {
      if (!part)
        continue;
      int64_t bytes = mine.size() * kDirectionBytes;
      if (u.unit->sharded)
        unit.toOwners.push_back({matrix.owner, part, bytes, /*sends=*/true});
      unit.fromOwners.push_back({matrix.owner, part, bytes, /*sends=*/false});
      continue;
    }
    addOwned(unit, u, matrix, room);
    uint8_t *whole = unit.owned.back().at;
    if (matrix.joinedAt)
      planJoin(unit, unit.owned.back(), room);
    for (int peer = 0; peer < topology.groupSize(); ++peer) {
      Interval theirs = matrix.within(
          topology.ownedAt(u.unit->sharded, u.unit->length, peer));
      if (peer == here || theirs.size() == 0)
        continue;
      uint8_t *at =
          whole + (theirs.begin - matrix.param->offset) * kDirectionBytes;
      int64_t bytes = theirs.size() * kDirectionBytes;
      if (u.unit->sharded)
        unit.toOwners.push_back({peer, at, bytes, /*sends=*/false});
      unit.fromOwners.push_back({peer, at, bytes, /*sends=*/true});
    }
  }
}

void Muon::addOwned(Unit &unit, const UnitState &u,
                    const MuonPlan::Matrix &matrix, uint8_t *&room) {
  Interval cut = matrix.within(u.owned);
  uint8_t *part = unit.slice + (cut.begin - u.owned.begin) * kDirectionBytes;
  if (matrix.staysIn(u.owned)) {
    unit.owned.push_back({&matrix, part, part, nullptr, 0});
    return;
  }
  uint8_t *at = std::exchange(
      room, room + alignTo(matrix.partBytes(), kDeviceAlignmentBytes));
  uint8_t *mine = at + (cut.begin - matrix.param->offset) * kDirectionBytes;
  unit.owned.push_back({&matrix, at, mine, part, cut.size() * kDirectionBytes});
}

// This rank has its part of a split matrix, which goes where all of them do.
void Muon::planJoin(Unit &unit, Owned &owned, uint8_t *&room) {
  const Topology &topology = context.state->topology;
  int here = topology.tensorRank(context.rank), at = *owned.matrix->joinedAt;
  int64_t bytes = owned.matrix->partBytes();
  if (at != here) {
    unit.join.push_back({at, owned.at, bytes, /*sends=*/true});
    unit.part.push_back({at, owned.at, bytes, /*sends=*/false});
    return;
  }
  int64_t step = alignTo(bytes, kDeviceAlignmentBytes);
  owned.parts = std::exchange(room, room + step * topology.tensor);
  for (int peer = 0; peer < topology.tensor; ++peer) {
    if (peer == here)
      continue;
    unit.join.push_back({peer, owned.parts + peer * step, bytes, false});
    unit.part.push_back({peer, owned.parts + peer * step, bytes, true});
  }
}

uint8_t *Muon::joinedAt() const {
  return workspace.data() + context.state->plan.muon.joined;
}

uint8_t *Muon::directionsAt(size_t unit, const Interval &cut) const {
  return units[unit].slice + cut.begin * kDirectionBytes;
}

void Muon::fillWithNoise(CUstream stream) const {
  cuda::fillWithNoise(window, stream);
}

void Muon::start(size_t unit, const ShxDeviceKernel &kernel) {
  const UnitState &u = context.state->units[unit];
  for (const MuonPlan::Matrix &matrix : owners.units[unit].matrices) {
    Interval cut = matrix.within(u.owned);
    if (cut.size() == 0)
      continue;
    cut = {cut.begin - u.owned.begin, cut.end - u.owned.begin};
    OptimizerBuffers buffers = u.optimizerBuffers(cut);
    buffers.params = directionsAt(unit, cut);
    launchOptimizer(context, kernel, /*decay=*/true, buffers);
  }
  for (const Owned &owned : units[unit].owned)
    if (owned.inSlice)
      copyBytes(context, context.compute, owned.mine, owned.inSlice,
                owned.bytes);
  context.collectives->matricesStart(unit, Matrices::ToOwners,
                                     units[unit].toOwners);
  if (units[unit].isSplit)
    context.collectives->matricesStart(unit, Matrices::Join, units[unit].join);
  // What is on its way has the time of those that have come.
  orthogonalizeStarted();
  started.push_back(unit);
}

void Muon::orthogonalizeStarted() {
  while (!started.empty()) {
    size_t unit = started.front();
    started.pop_front();
    context.collectives->matricesWait(unit, Matrices::Join);
    // Every rank prepares for all of them, so that all choose the same.
    if (context.preparing())
      for (const MuonPlan::Matrix &matrix : owners.units[unit].matrices)
        orthogonalize(context, matrix.joinedAt ? joinedAt() : units[unit].slice,
                      matrix.rows(), matrix.columns(), workspace.data());
    for (const Owned &owned : units[unit].owned) {
      if (owned.matrix->joinedAt) {
        orthogonalizeJoined(owned);
        continue;
      }
      orthogonalize(context, owned.at, owned.matrix->rows(),
                    owned.matrix->columns(), workspace.data());
      if (owned.inSlice)
        copyBytes(context, context.compute, owned.inSlice, owned.mine,
                  owned.bytes);
    }
    if (units[unit].isSplit)
      context.collectives->matricesStart(unit, Matrices::Part,
                                         units[unit].part);
    context.collectives->matricesStart(unit, Matrices::FromOwners,
                                       units[unit].fromOwners);
  }
}

void Muon::orthogonalizeJoined(const Owned &owned) {
  if (!owned.parts)
    return; // another rank of the axis does
  const Topology &topology = context.state->topology;
  const MuonPlan::Matrix &matrix = *owned.matrix;
  const Split &split = *matrix.param->split;
  AxisLayout layout{
      split.dim == 0 ? 1 : matrix.rows(), split.dim == 0 ? matrix.columns() : 1,
      split.sections.data(), static_cast<int64_t>(split.sections.size())};
  AxisParts parts(context, layout, topology.tensor, SHX_BF16);
  int64_t step = alignTo(matrix.partBytes(), kDeviceAlignmentBytes);
  auto partAt = [&](int part) {
    return part == topology.tensorRank(context.rank)
               ? owned.at
               : owned.parts + part * step;
  };
  for (int part = 0; part < topology.tensor; ++part)
    parts.put(part, partAt(part), joinedAt());
  orthogonalize(context, joinedAt(), matrix.rows(), matrix.columns(),
                workspace.data());
  for (int part = 0; part < topology.tensor; ++part)
    parts.take(part, joinedAt(), partAt(part));
}

void Muon::finish(size_t unit, const ShxDeviceKernel &kernel) {
  orthogonalizeStarted();
  context.collectives->matricesWait(unit, Matrices::FromOwners);
  for (const Owned &owned : units[unit].owned)
    if (owned.matrix->joinedAt && owned.inSlice)
      copyBytes(context, context.compute, owned.inSlice, owned.mine,
                owned.bytes);
  const UnitState &u = context.state->units[unit];
  auto *factor = reinterpret_cast<float *>(workspace.data() +
                                           context.state->plan.muon.factors);
  for (size_t before = 0; before < unit; ++before)
    factor += owners.units[before].matrices.size();
  for (const MuonPlan::Matrix &matrix : owners.units[unit].matrices) {
    Interval cut = matrix.within(u.owned);
    u.forPieces({cut.begin - u.owned.begin, cut.end - u.owned.begin},
                [&](const Interval &at, const Piece &piece) {
                  OptimizerBuffers buffers = u.optimizerBuffers(at);
                  buffers.gradient =
                      reinterpret_cast<float *>(directionsAt(unit, at));
                  buffers.scales[0] = factor;
                  launchOptimizer(context, kernel, piece.decay, buffers);
                });
    ++factor;
  }
}

} // namespace shardonnx::rt::cuda
