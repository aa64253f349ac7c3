// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See OwnedUnit.h.

#include "OwnedUnit.h"
#include "shardonnx/runtime/MasterHalves.h"
#include <algorithm>

namespace shardonnx::rt {
namespace {

// Neighbours that are decayed and counted alike are one piece.
std::vector<Piece>
piecesOf(const Manifest::Unit &unit, const Interval &owned, int tensorRank,
         const std::function<bool(const std::string &)> &noDecay) {
  std::vector<Piece> pieces;
  for (const Manifest::Param &param : unit.params) {
    if (!param.trainable)
      continue;
    int64_t begin = std::max(param.offset, owned.begin) - owned.begin;
    int64_t end =
        std::min(param.offset + param.elements(), owned.end) - owned.begin;
    if (begin >= end)
      continue;
    std::vector<std::string> names = param.names();
    bool decay = std::none_of(names.begin(), names.end(), noDecay);
    bool repeated = tensorRank > 0 && !param.split;
    Piece *last = pieces.empty() ? nullptr : &pieces.back();
    if (last && last->begin + last->length == begin && last->decay == decay &&
        last->repeated == repeated)
      last->length += end - begin;
    else
      pieces.push_back({begin, end - begin, decay, repeated});
  }
  return pieces;
}

} // namespace

// Of what several ranks hold, replicas or all of them, each counts a part.
void OwnedUnit::assign(const Manifest &manifest, size_t index,
                       const Topology &topology, int rank) {
  unit = &manifest.units[index];
  number = static_cast<int64_t>(index);
  momentType = manifest.optimizerType;
  halves = keepsMasterHalves(manifest, *unit);
  owned = topology.owned(unit->sharded, unit->length, rank);
  frozenOwned = topology.owned(unit->sharded, unit->frozenLength, rank);
  Interval part = unit->sharded
                      ? ownedInterval(owned.size(), topology.replica(rank),
                                      topology.replicas)
                      : ownedInterval(owned.size(), topology.dataRank(rank),
                                      topology.dataRanks());
  tensorRank = topology.tensorRank(rank);
  counted = {owned.begin + part.begin, owned.begin + part.end};
  matrixElements = owned.size() - behind(unit->matrixLength, owned).size();
  setDecay([](const std::string &) { return false; });
}

void OwnedUnit::setDecay(
    const std::function<bool(const std::string &)> &noDecay) {
  pieces = piecesOf(*unit, owned, tensorRank, noDecay);
}

uint8_t *OwnedUnit::address(StateArray array, int64_t begin) const {
  if (array == StateArray::Frozen)
    return frozen + (begin - frozenOwned.begin) * elementBytes(array);
  bool second = isSecond(array);
  if (isScale(array))
    return reinterpret_cast<uint8_t *>(scales[second] + begin -
                                       owned.begin / kStateBlock);
  begin -= owned.begin + (second ? matrixElements : 0);
  if (array == StateArray::Master)
    return master + begin * masterBytes();
  return moments[second] + begin * elementBytes(array);
}

OptimizerBuffers OwnedUnit::optimizerBuffers(const Interval &part) const {
  int64_t at = part.begin;
  if (blockwise())
    at -= at % kStateBlock;
  auto from = [](auto *tensor, int64_t offset) {
    return tensor ? tensor + offset : nullptr;
  };
  int64_t element = dtypeBytes(momentType), block = at / kStateBlock;
  uint8_t *second = nullptr;
  if (at >= matrixElements)
    second = from(moments[1], (at - matrixElements) * element);
  return {from(master, at * masterBytes()),
          from(reduced, at),
          {from(moments[0], at * element), second},
          from(params, at * dtypeBytes(unit->paramType)),
          {from(scales[0], block), from(scales[1], block)},
          {number << SHX_UNIT_SHIFT | (owned.begin + at), part.begin - at,
           part.end - at}};
}

} // namespace shardonnx::rt
