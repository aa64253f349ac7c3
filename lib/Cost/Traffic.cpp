// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bytes that a step's collectives send.

#include "shardonnx/Cost/Traffic.h"

#include "llvm/Support/ErrorHandling.h"

namespace shardonnx {

llvm::StringRef stringify(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllGather:
    return "all_gather";
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter";
  case CollectiveKind::AllReduce:
    return "all_reduce";
  }
  llvm_unreachable("unknown collective");
}

// (ranks - 1) / ranks of the bytes, without overflow.
static int64_t allButOne(int64_t bytes, int64_t ranks) {
  return bytes / ranks * (ranks - 1) + bytes % ranks * (ranks - 1) / ranks;
}

int64_t Collective::bytesSent(Topology ranks) const {
  int64_t owners = ranks.groupSize();
  switch (kind) {
  case CollectiveKind::AllGather:
    return allButOne(bytes, group > 0 && owners % group == 0 ? group : owners);
  case CollectiveKind::ReduceScatter:
    return allButOne(bytes, owners);
  case CollectiveKind::AllReduce:
    return 2 * allButOne(bytes, ranks.dataRanks());
  }
  llvm_unreachable("unknown collective");
}

int64_t Collective::bytesToReplicas(Topology ranks) const {
  return 2 * allButOne(sumBytes / ranks.groupSize(), ranks.replicas);
}

StepTraffic trafficOf(llvm::ArrayRef<Collective> first,
                      llvm::ArrayRef<Collective> next,
                      llvm::ArrayRef<Collective> update, bool unsharded,
                      Topology ranks, int64_t microbatches) {
  StepTraffic traffic;
  auto add = [&](const Collective &collective, int64_t gathers,
                 int64_t reductions) {
    int64_t sent = collective.bytesSent(ranks);
    if (collective.kind == CollectiveKind::AllGather)
      traffic.allGather += gathers * sent;
    else if (collective.kind == CollectiveKind::AllReduce)
      traffic.allReduce += reductions * sent;
    else
      traffic.reduceScatter += reductions * sent;
  };
  for (const Collective &collective : first) {
    add(collective, 1, 1);
    traffic.allReduce += collective.bytesToReplicas(ranks);
  }
  for (const Collective &collective : next)
    add(collective, microbatches - 1, unsharded ? 0 : microbatches - 1);
  for (const Collective &collective : update)
    add(collective, 1, 1);
  return traffic;
}

} // namespace shardonnx
