// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Communicators.h.

#include "Communicators.h"
#include <set>

namespace shardonnx::rt::cuda {

Communicators::Communicators(const Manifest &manifest, const Topology &topology,
                             Control &control, Exchange &exchange,
                             const Device &device, int ranksPerGpu) {
  int rank = control.rank(), size = topology.groupSize();
  auto make = [&](const char *queue, Members members) {
    return members.count == 1
               ? nullptr
               : std::make_unique<NcclCommunicator>(
                     control, exchange, device, queue, ranksPerGpu, members);
  };
  Members group{topology.replica(rank) * size, 1, size,
                topology.groupRank(rank)};
  gatherGroup = make("gather", group);
  reduceGroup = make("reduce", group);
  if (topology.replicas > 1) {
    replicaGroup = make("replica", {topology.groupRank(rank), size,
                                    topology.replicas, topology.replica(rank)});
    allRanks = make("replica", {0, 1, topology.ranks, rank});
  }
  std::set<int> sizes;
  for (const Manifest::Unit &unit : manifest.units)
    if (int count = reshardGroup(unit, topology); count > 0)
      sizes.insert(count);
  for (int count : sizes)
    groups[count] =
        make("gather", {rank - rank % count, 1, count, rank % count});
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
