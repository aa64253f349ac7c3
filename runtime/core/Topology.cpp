// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Topology.h.

#include "Topology.h"
#include "../support/Error.h"
#include <map>

namespace shardonnx::rt {

Topology topologyOf(const Manifest &manifest, const Options &options,
                    int worldSize, int localWorldSize) {
  int replicas = options.replicas;
  if (replicas > 1 && !manifest.hybrid())
    failUsage("--replicas=", replicas,
              ": the program was compiled with "
              "--strategy=",
              spell(manifest.strategy),
              ", which has one replica; compile it with "
              "--strategy=hybrid_shard or hybrid_shard_zero2");
  if (replicas == 0) {
    bool even = worldSize % localWorldSize == 0;
    replicas = manifest.hybrid() && even ? worldSize / localWorldSize : 1;
  }
  if (worldSize % replicas != 0)
    failUsage("--replicas=", replicas, " does not divide the ", worldSize,
              " ranks: each replica needs as many ranks as the others");
  return {worldSize, replicas, localWorldSize, manifest.sliceAlignment()};
}

// One replica a machine is what each rank took from its own machine's size.
void checkMachines(const Manifest &manifest, const Options &options,
                   const std::vector<uint16_t> &machineOf) {
  std::map<uint16_t, int> sizes;
  for (uint16_t machine : machineOf)
    ++sizes[machine];
  if (!manifest.hybrid() || options.replicas > 0)
    return;
  for (auto &[machine, size] : sizes)
    if (size != sizes.begin()->second)
      failUsage("the machines have different numbers of ranks (",
                sizes.begin()->second, " and ", size,
                "), so that --strategy=", spell(manifest.strategy),
                " cannot keep one replica on each: give --replicas N");
}

} // namespace shardonnx::rt
