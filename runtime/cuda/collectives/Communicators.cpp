// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Communicators.h.

#include "Communicators.h"
#include <set>

namespace shardonnx::rt::cuda {

// The first one finds the machines and their links; the others are split off
// from it, which takes a fraction of the time. The two of the shard group work
// side by side, so they share nothing; those that gather a unit again take
// turns with the gathers of whole units, and use what these have.
Communicators::Communicators(const Manifest &manifest, const Topology &topology,
                             const NcclSetup &setup) {
  int rank = setup.control.rank(), size = topology.groupSize();
  Members group{topology.replica(rank) * size, 1, size,
                topology.groupRank(rank)};
  Members same{topology.groupRank(rank), size, topology.replicas,
               topology.replica(rank)};
  auto split = [&](const char *queue, const Members &members,
                   const NcclCommunicator &parent, bool lends = false) {
    return std::make_unique<NcclCommunicator>(setup, queue, members, parent,
                                              lends);
  };
  if (topology.replicas > 1) {
    allRanks = std::make_unique<NcclCommunicator>(
        setup, "replica", Members{0, 1, topology.ranks, rank});
    replicaGroup = split("replica", same, *allRanks);
  }
  if (size == 1)
    return;
  reduceGroup =
      allRanks ? split("reduce", group, *allRanks)
               : std::make_unique<NcclCommunicator>(setup, "reduce", group);
  gatherGroup = split("gather", group, *reduceGroup, /*lends=*/true);
  std::set<int> sizes;
  for (const Manifest::Unit &unit : manifest.units)
    if (int count = reshardGroup(unit, topology); count > 0)
      sizes.insert(count);
  for (int count : sizes)
    groups[count] = split(
        "gather", {rank - rank % count, 1, count, rank % count}, *gatherGroup);
}

std::vector<NcclCommunicator *> Communicators::all() const {
  std::vector<NcclCommunicator *> list;
  for (NcclCommunicator *one : {gatherGroup.get(), reduceGroup.get(),
                                replicaGroup.get(), allRanks.get()})
    if (one)
      list.push_back(one);
  for (auto &[ranks, one] : groups)
    list.push_back(one.get());
  return list;
}

std::vector<ncclComm_t> Communicators::touchingUnits() const {
  std::vector<ncclComm_t> list;
  for (NcclCommunicator *one : all())
    if (one != replicaGroup.get())
      list.push_back(*one);
  return list;
}

} // namespace shardonnx::rt::cuda
