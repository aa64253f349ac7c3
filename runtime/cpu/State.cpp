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

// Units of the layout that are gathered into planned buffers.
bool anyCopied(const Manifest &m, bool sharded, const MemoryOptions &options) {
  for (const Manifest::Unit &unit : m.units)
    if (unit.sharded == sharded && !gathersInPlace(m, unit, options))
      return true;
  return false;
}

} // namespace

bool gathersInPlace(const Manifest &manifest, const Manifest::Unit &unit,
                    const MemoryOptions &options) {
  // Poisoning needs buffers that are not the masters themselves.
  return unit.gatherInPlace &&
         !(options.debug && manifest.gatherSpace.bytes > 0);
}

SharedPlan planShared(const Manifest &m, int ranks,
                      const MemoryOptions &options) {
  SharedPlan plan;
  auto page = static_cast<int64_t>(pageBytes());
  int64_t end = alignTo(
      static_cast<int64_t>(Control::bytes(ranks, m.units.size())), page);
  auto take = [&](int64_t bytes) {
    int64_t begin = end;
    end += alignTo(bytes, page);
    return begin;
  };
  if (anyCopied(m, /*sharded=*/true, options))
    plan.gatherBytes = alignTo(m.gatherSpace.bytes, page);
  for (const Manifest::Unit &unit : m.units) {
    bool inPlace = gathersInPlace(m, unit, options);
    plan.unitOffsets.push_back(inPlace ? plan.gatherBytes
                                       : unit.paramOffsetBytes);
    if (inPlace && unit.sharded)
      plan.gatherBytes += alignTo(unit.gatheredBytes(), kBufferAlignmentBytes);
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
  if (anyCopied(manifest, /*sharded=*/false, options))
    privateGather =
        Mapping::anonymous(static_cast<size_t>(manifest.gatherSpace.bytes),
                           "parameters", options.debug);
  units.resize(manifest.units.size());
  for (size_t u = 0; u < units.size(); ++u)
    placeUnit(u, rank, ranks, options);
  carveOwned(ranks);
  for (UnitState &state : units) {
    state.pieces = piecesOf(*state.unit, state.owned,
                            [](const std::string &) { return false; });
    paramPointers.push_back(state.gathered);
    gradPointers.push_back(state.gradients[static_cast<size_t>(rank)]);
  }
}

void State::placeUnit(size_t index, int rank, int ranks,
                      const MemoryOptions &options) {
  const Manifest::Unit &unit = manifest.units[index];
  UnitState &state = units[index];
  state.unit = &unit;
  state.inPlace = gathersInPlace(manifest, unit, options);
  state.reducePart = ownedInterval(unit.length, rank, ranks);
  if (unit.sharded) {
    state.owned = state.reducePart;
    state.frozenOwned = ownedInterval(unit.frozenLength, rank, ranks);
  } else {
    state.owned = {0, unit.length};
    state.frozenOwned = {0, unit.frozenLength};
  }
  if (unit.sharded)
    state.gathered = gatherMemory.data() + plan.unitOffsets[index];
  else if (!state.inPlace)
    state.gathered = privateGather.data() + unit.paramOffsetBytes;
  if (state.inPlace && unit.sharded)
    state.master =
        reinterpret_cast<float *>(state.gathered) + state.owned.begin;
  if (plan.gradientsInPlace)
    return; // carveOwned knows where they are
  for (Mapping &gradients : gradientMemory)
    state.gradients.push_back(gradients.data() + unit.gradOffsetBytes);
}

// The owned slices are counted first and then placed, by the same code.
void State::carveOwned(int ranks) {
  for (bool counting : {true, false}) {
    Carver owned(counting ? nullptr : ownedMemory.data(),
                 kBufferAlignmentBytes);
    Carver reduced(reducedMemory.data(), kBufferAlignmentBytes);
    for (UnitState &state : units) {
      int64_t n = state.owned.size();
      bool sharded = state.unit->sharded;
      if (state.inPlace && !sharded) {
        state.gathered = owned.take<uint8_t>(state.unit->gatheredBytes());
        state.master = reinterpret_cast<float *>(state.gathered);
      } else if (!state.inPlace) {
        state.master = owned.take<float>(n);
        state.frozen = owned.take<uint8_t>(state.frozenOwned.size() *
                                           dtypeBytes(state.unit->paramType));
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
