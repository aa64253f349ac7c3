// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Route.h. All ranks compute the same from the table of machines.

#include "Route.h"
#include <algorithm>
#include <map>

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

} // namespace shardonnx::rt
