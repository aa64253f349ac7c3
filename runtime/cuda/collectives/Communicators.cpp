// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Communicators.h.

#include "Communicators.h"
#include <set>

namespace shardonnx::rt::cuda {

// Of the shard group, the `count` ranks side by side that this one is of.
static Members groupOf(const Topology &topology, int rank, int count) {
  int place = topology.groupRank(rank), index = place % count;
  return {topology.rankAt(topology.replica(rank), place - index, rank),
          topology.tensor, count, index};
}

// The first one finds the machines and their links; the others are split off
// from it, which takes a fraction of the time. The two of the shard group work
// side by side, so they share nothing; those that gather a unit again take
// turns with the gathers of whole units, and use what these have.
Communicators::Communicators(const Manifest &manifest, const Topology &topology,
                             const NcclSetup &setup)
    : splitRanks(topology.tensor > 1) {
  int rank = setup.control.rank(), size = topology.groupSize();
  int tensor = topology.tensor, part = topology.tensorRank(rank);
  Members group = groupOf(topology, rank, size);
  Members same{topology.rankAt(0, topology.groupRank(rank), rank),
               size * tensor, topology.replicas, topology.replica(rank)};
  auto split = [&](const char *queue, const Members &members,
                   const NcclCommunicator &parent, bool lends = false) {
    return std::make_unique<NcclCommunicator>(setup, queue, members, parent,
                                              lends);
  };
  if (topology.replicas > 1 || tensor > 1)
    allRanks = std::make_unique<NcclCommunicator>(
        setup, topology.replicas > 1 ? "replica" : "reduce",
        Members{0, 1, topology.ranks, rank});
  if (topology.replicas > 1)
    replicaGroup = split("replica", same, *allRanks);
  if (tensor > 1) {
    if (topology.dataRanks() > 1)
      alikeRanks =
          split(allRanks->queue(),
                {part, tensor, topology.dataRanks(), topology.dataRank(rank)},
                *allRanks);
    tensorAxis = split("axis", {rank - part, 1, tensor, part}, *allRanks);
  }
  if (size == 1)
    return;
  reduceGroup =
      allRanks ? split("reduce", group, *allRanks)
               : std::make_unique<NcclCommunicator>(setup, "reduce", group);
  gatherGroup = split("gather", group, *reduceGroup, /*lends=*/true);
  if (topology.context > 1)
    contextAxis = split("axis",
                        {topology.firstTogether(rank) + part, tensor,
                         topology.context, topology.contextRank(rank)},
                        *reduceGroup);
  std::set<int> sizes;
  for (const Manifest::Unit &unit : manifest.units)
    if (int count = reshardGroup(unit, topology); count > 0)
      sizes.insert(count);
  for (int count : sizes)
    groups[count] =
        split("gather", groupOf(topology, rank, count), *gatherGroup);
}

std::vector<NcclCommunicator *> Communicators::all() const {
  std::vector<NcclCommunicator *> list;
  for (NcclCommunicator *one :
       {gatherGroup.get(), reduceGroup.get(), replicaGroup.get(),
        allRanks.get(), alikeRanks.get(), tensorAxis.get(), contextAxis.get()})
    if (one)
      list.push_back(one);
  for (auto &[ranks, one] : groups)
    list.push_back(one.get());
  return list;
}

std::vector<ncclComm_t> Communicators::touchingUnits() const {
  std::vector<ncclComm_t> list;
  for (NcclCommunicator *one : all())
    if (one != replicaGroup.get() && one != tensorAxis.get() &&
        one != contextAxis.get())
      list.push_back(*one);
  return list;
}

} // namespace shardonnx::rt::cuda
