// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See OwnedUnit.h.

#include "OwnedUnit.h"
#include <algorithm>

namespace shardonnx::rt {
namespace {

// Neighbours that are decayed alike are one piece.
std::vector<Piece>
piecesOf(const Manifest::Unit &unit, const Interval &owned,
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
    Piece *last = pieces.empty() ? nullptr : &pieces.back();
    if (last && last->begin + last->length == begin && last->decay == decay)
      last->length += end - begin;
    else
      pieces.push_back({begin, end - begin, decay});
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
  owned = topology.owned(unit->sharded, unit->length, rank);
  frozenOwned = topology.owned(unit->sharded, unit->frozenLength, rank);
  Interval part = unit->sharded
                      ? ownedInterval(owned.size(), topology.replica(rank),
                                      topology.replicas)
                      : ownedInterval(owned.size(), rank, topology.ranks);
  counted = {owned.begin + part.begin, owned.begin + part.end};
  setDecay([](const std::string &) { return false; });
}

void OwnedUnit::setDecay(
    const std::function<bool(const std::string &)> &noDecay) {
  pieces = piecesOf(*unit, owned, noDecay);
}

uint8_t *OwnedUnit::address(StateArray array, int64_t begin) const {
  if (array == StateArray::Frozen)
    return frozen + (begin - frozenOwned.begin) * elementBytes(array);
  bool second = array == StateArray::Moment2 || array == StateArray::Scale2;
  if (isScale(array))
    return reinterpret_cast<uint8_t *>(scales[second] + begin -
                                       owned.begin / kStateBlock);
  begin -= owned.begin;
  if (array == StateArray::Master)
    return reinterpret_cast<uint8_t *>(master + begin);
  return moments[second] + begin * elementBytes(array);
}

OptimizerBuffers OwnedUnit::optimizerBuffers(const Interval &part) const {
  int64_t at = part.begin;
  if (blockwise())
    at -= at % kStateBlock;
  auto from = [](auto *tensor, int64_t offset) {
    return tensor ? tensor + offset : nullptr;
  };
  int64_t moment = at * dtypeBytes(momentType), block = at / kStateBlock;
  return {from(master, at),
          from(reduced, at),
          {from(moments[0], moment), from(moments[1], moment)},
          from(params, at * dtypeBytes(unit->paramType)),
          {from(scales[0], block), from(scales[1], block)},
          {number << SHX_UNIT_SHIFT | (owned.begin + at), part.begin - at,
           part.end - at}};
}

} // namespace shardonnx::rt
