// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Carving a rank's memory. Three kinds: what the ranks share (control,
// gathered units, gradients that the others read), the private space of the
// program, and the owned slices.

#include "State.h"
#include "../comm/Control.h"
#include "../core/Carver.h"
#include "../core/Error.h"
#include "shardonnx/runtime/MemoryPlan.h"

namespace shardonnx::rt {
namespace {

// A unit's bytes in the gathered buffer.
int64_t gatheredBytes(const Manifest &m, const Manifest::Unit &unit) {
  int64_t element = dtypeBytes(m.paramType);
  if (unit.frozenLength > 0)
    return unit.frozenOffsetBytes + unit.frozenLength * element;
  return unit.length * element;
}

bool anyUnit(const Manifest &m, bool sharded) {
  for (const Manifest::Unit &unit : m.units)
    if (unit.sharded == sharded)
      return true;
  return false;
}

} // namespace

bool gathersInPlace(const Manifest &manifest, const MemoryOptions &options) {
  // Poisoning needs buffers that are not the masters themselves.
  return manifest.gatherInPlace &&
         !(options.debug && manifest.gatherSpace.bytes > 0);
}

SharedPlan planShared(const Manifest &m, int ranks,
                      const MemoryOptions &options) {
  SharedPlan plan;
  plan.inPlace = gathersInPlace(m, options);
  auto page = static_cast<int64_t>(pageBytes());
  int64_t end = alignTo(
      static_cast<int64_t>(Control::bytes(ranks, m.units.size())), page);
  auto take = [&](int64_t bytes) {
    int64_t begin = end;
    end += alignTo(bytes, page);
    return begin;
  };
  if (plan.inPlace) {
    for (const Manifest::Unit &unit : m.units) {
      plan.unitOffsets.push_back(plan.gatherBytes);
      if (unit.sharded)
        plan.gatherBytes +=
            alignTo(gatheredBytes(m, unit), kBufferAlignmentBytes);
    }
  } else if (anyUnit(m, /*sharded=*/true)) {
    plan.gatherBytes = m.gatherSpace.bytes;
  }
  for (const Manifest::Unit &unit : m.units)
    if (!unit.sharded && ranks > 1)
      plan.reducedBytes += unit.length * 4;
  plan.gradientsInPlace =
      !options.debug && gradientsAreTheirSum(m, ranks, options.accumulate);
  plan.gradientBytes = plan.gradientsInPlace ? 0 : m.gradientSpace.bytes;
  plan.gather = take(plan.gatherBytes);
  plan.reduced = take(plan.reducedBytes);
  plan.gradients = end;
  plan.total = end + ranks * alignTo(plan.gradientBytes, page);
  return plan;
}

State::State(const Manifest &manifest, int rank, int ranks, int memory,
             const MemoryOptions &options)
    : manifest(manifest), plan(planShared(manifest, ranks, options)),
      debug(options.debug) {
  auto map = [&](int64_t offset, int64_t bytes, const char *what) {
    auto size = static_cast<size_t>(bytes);
    return memory < 0 ? Mapping::anonymous(size, what)
                      : Mapping::shared(memory, offset, size, what);
  };
  gatherMemory = map(plan.gather, plan.gatherBytes, "gathered parameters");
  reducedMemory = map(plan.reduced, plan.reducedBytes, "reduced gradients");
  int64_t stride =
      alignTo(plan.gradientBytes, static_cast<int64_t>(pageBytes()));
  for (int r = 0; r < ranks; ++r)
    gradientMemory.push_back(
        map(plan.gradients + r * stride, plan.gradientBytes, "gradients"));
  privateMemory =
      Mapping::anonymous(static_cast<size_t>(manifest.privateSpace.bytes),
                         "activations", options.debug);
  if (!plan.inPlace && anyUnit(manifest, /*sharded=*/false))
    privateGather =
        Mapping::anonymous(static_cast<size_t>(manifest.gatherSpace.bytes),
                           "parameters", options.debug);
  units.resize(manifest.units.size());
  for (size_t u = 0; u < units.size(); ++u)
    placeUnit(u, rank, ranks);
  carveOwned(ranks);
  for (UnitState &state : units) {
    state.pieces = piecesOf(*state.unit, state.owned,
                            [](const std::string &) { return false; });
    paramPointers.push_back(state.gathered);
    gradPointers.push_back(state.gradients[static_cast<size_t>(rank)]);
  }
}

void State::placeUnit(size_t index, int rank, int ranks) {
  const Manifest::Unit &unit = manifest.units[index];
  UnitState &state = units[index];
  state.unit = &unit;
  state.reducePart = ownedInterval(unit.length, rank, ranks);
  if (unit.sharded) {
    state.owned = state.reducePart;
    state.frozenOwned = ownedInterval(unit.frozenLength, rank, ranks);
  } else {
    state.owned = {0, unit.length};
    state.frozenOwned = {0, unit.frozenLength};
  }
  if (plan.inPlace && unit.sharded) {
    state.gathered = gatherMemory.data() + plan.unitOffsets[index];
    state.master =
        reinterpret_cast<float *>(state.gathered) + state.owned.begin;
  } else if (!plan.inPlace) {
    Mapping &space = unit.sharded ? gatherMemory : privateGather;
    state.gathered = space.data() + unit.paramOffsetBytes;
  }
  if (plan.gradientsInPlace)
    return; // carveOwned knows where they are
  for (Mapping &gradients : gradientMemory)
    state.gradients.push_back(gradients.data() + unit.gradOffsetBytes);
}

// The owned slices are counted first and then placed, by the same code.
void State::carveOwned(int ranks) {
  int64_t element = dtypeBytes(manifest.paramType);
  for (bool counting : {true, false}) {
    Carver owned(counting ? nullptr : ownedMemory.data(),
                 kBufferAlignmentBytes);
    Carver reduced(reducedMemory.data(), kBufferAlignmentBytes);
    for (UnitState &state : units) {
      int64_t n = state.owned.size();
      bool sharded = state.unit->sharded;
      if (plan.inPlace && !sharded) {
        state.gathered =
            owned.take<uint8_t>(gatheredBytes(manifest, *state.unit));
        state.master = reinterpret_cast<float *>(state.gathered);
      } else if (!plan.inPlace) {
        state.master = owned.take<float>(n);
        state.frozen = owned.take<uint8_t>(state.frozenOwned.size() * element);
      }
      for (int i = 0; i < manifest.optimizerStates(); ++i)
        state.moments[i] = owned.take<float>(n);
      // Replicated: every rank sums a part of one array that all read.
      state.reduced =
          !sharded && ranks > 1 ? reduced.take<float>(n) : owned.take<float>(n);
      if (plan.gradientsInPlace)
        state.gradients = {reinterpret_cast<uint8_t *>(state.reduced)};
    }
    if (counting)
      ownedMemory = Mapping::anonymous(static_cast<size_t>(owned.used),
                                       "optimizer state", debug);
  }
}

} // namespace shardonnx::rt
