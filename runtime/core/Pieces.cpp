// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Neighbours that are decayed alike are one piece.

#include "Pieces.h"

namespace shardonnx::rt {

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
    bool decay = !noDecay(param.name);
    Piece *last = pieces.empty() ? nullptr : &pieces.back();
    if (last && last->begin + last->length == begin && last->decay == decay)
      last->length += end - begin;
    else
      pieces.push_back({begin, end - begin, decay});
  }
  return pieces;
}

} // namespace shardonnx::rt
