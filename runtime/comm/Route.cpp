// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Route.h. All ranks compute the same from the table of machines.

#include "Route.h"
#include <algorithm>
#include <map>
#include <set>

namespace shardonnx::rt {

Route routeOf(const std::vector<int> &members,
              const std::vector<uint16_t> &machineOf, int rank) {
  auto machine = [&](int r) { return machineOf[static_cast<size_t>(r)]; };
  std::map<uint16_t, std::vector<int>> byMachine;
  for (int member : members)
    byMachine[machine(member)].push_back(member);
  // Who carries `owner`'s slice to a machine that is not its own.
  auto carrier = [&](int owner, const std::vector<int> &there) {
    const std::vector<int> &home = byMachine[machine(owner)];
    auto place = std::find(home.begin(), home.end(), owner) - home.begin();
    return there[static_cast<size_t>(place) % there.size()];
  };
  Route route;
  route.members = members;
  route.local = byMachine[machine(rank)];
  for (size_t m = 0; m < members.size(); ++m)
    if (machine(members[m]) != machine(rank) &&
        carrier(members[m], route.local) == rank)
      route.carried.push_back(m);
  for (auto &[other, there] : byMachine)
    if (other != machine(rank))
      route.carriers.push_back(carrier(rank, there));
  return route;
}

size_t Route::place(int rank) const {
  return static_cast<size_t>(std::find(members.begin(), members.end(), rank) -
                             members.begin());
}

Routes::Routes(const Topology &topology, const std::vector<uint16_t> &machineOf,
               int rank) {
  auto machine = [&](int r) { return machineOf[static_cast<size_t>(r)]; };
  std::vector<int> alike, mates;
  for (int r = 0; r < topology.ranks; ++r) {
    isLocal.push_back(machine(r) == machine(rank));
    if (topology.tensorRank(r) != topology.tensorRank(rank))
      continue; // another part of the parameters
    alike.push_back(r);
    if (topology.replica(r) == topology.replica(rank))
      mates.push_back(r);
    if (topology.groupRank(r) != topology.groupRank(rank))
      continue;
    column.push_back(r);
    columnLeavesMachine |= machine(r) != machine(rank);
  }
  group = routeOf(mates, machineOf, rank);
  all = routeOf(alike, machineOf, rank);
}

std::vector<int> Routes::peers(int rank) const {
  std::set<int> peers;
  for (const Route *route : {&group, &all}) {
    for (size_t member : route->carried)
      peers.insert(route->members[member]);
    peers.insert(route->carriers.begin(), route->carriers.end());
  }
  if (columnLeavesMachine)
    peers.insert(column.begin(), column.end());
  peers.erase(rank);
  return std::vector<int>(peers.begin(), peers.end());
}

} // namespace shardonnx::rt
