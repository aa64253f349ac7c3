// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who carries which slice between machines. A group of ranks that share a unit
// is on one machine or several; each machine has one copy of what is gathered,
// so each slice travels to every other machine once, and each machine adds up
// its own ranks' gradients before they travel back to the slice's owner.

#ifndef SHARDONNX_RUNTIME_ROUTE_H
#define SHARDONNX_RUNTIME_ROUTE_H

#include "shardonnx/runtime/Layout.h"
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardonnx::rt {

struct Route {
  std::vector<int> members; // the group, in order; a slice is a member's
  std::vector<int> local;   // the members on this machine
  /// Members of other machines whose slices this rank carries here.
  std::vector<size_t> carried;
  /// Ranks of other machines, one on each, that carry this rank's slice there.
  std::vector<int> carriers;

  bool leavesMachine() const { return local.size() < members.size(); }
  size_t place(int rank) const; // among the members
};

/// `machineOf` is by rank; `rank` is a member. Slices of one machine are dealt
/// out to the members of another in turn, so that machines may differ in size.
Route routeOf(const std::vector<int> &members,
              const std::vector<uint16_t> &machineOf, int rank);

/// All routes of a rank.
struct Routes {
  Routes(const Topology &topology, const std::vector<uint16_t> &machineOf,
         int rank);
  Route group; // of sharded units
  Route all;   // of replicated ones
  /// The ranks at this rank's place in each replica.
  std::vector<int> column;
  bool columnLeavesMachine = false;
  std::vector<bool> isLocal; // [rank]

  /// Whom the rank exchanges bytes with.
  std::vector<int> peers(int rank) const;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_ROUTE_H
