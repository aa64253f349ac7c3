// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Topology.h.

#include "Topology.h"
#include "../support/Error.h"
#include <algorithm>
#include <map>

namespace shardonnx::rt {
namespace {

// How many ranks of the mesh that was compiled see the same samples. It needs
// so many ranks, or a multiple where an axis is left to the start.
int checkMesh(const Manifest &manifest, const Options &options, int worldSize,
              int localWorldSize) {
  const Mesh &mesh = manifest.mesh;
  if (!mesh.given())
    return 1;
  auto together = static_cast<int>(mesh.together());
  if (localWorldSize % together != 0 && worldSize > localWorldSize)
    failUsage("--mesh=", mesh.text(), ": the ", together,
              " ranks that compute the same samples are on one machine, and ",
              localWorldSize, " ranks of this one are no multiple: start ",
              std::max(localWorldSize / together, 1) * together,
              " on each machine");
  auto replicate = static_cast<int>(mesh.size(MeshAxis::Replicate));
  if (replicate > 0 && options.replicas > 0 && replicate != options.replicas)
    failUsage("--replicas=", options.replicas,
              ": the program was compiled "
              "with --mesh=",
              mesh.text(), "; leave --replicas out");
  int each = together * std::max(replicate, 1);
  auto shard = static_cast<int>(mesh.size(MeshAxis::Shard));
  int wanted = each * std::max(shard, 1);
  if (shard > 0 ? worldSize == wanted : worldSize % wanted == 0)
    return together;
  int nearest = shard > 0 ? wanted : std::max(worldSize / wanted, 1) * wanted;
  failUsage("--mesh=", mesh.text(), " of the program does not divide ",
            worldSize, worldSize == 1 ? " rank" : " ranks", ": start ", nearest,
            shard > 0 ? "" : concat(" or another multiple of ", wanted));
}

} // namespace

Topology topologyOf(const Manifest &manifest, const Options &options,
                    int worldSize, int localWorldSize) {
  int replicas = options.replicas;
  int together = checkMesh(manifest, options, worldSize, localWorldSize);
  if (replicas == 0)
    replicas = static_cast<int>(manifest.mesh.size(MeshAxis::Replicate));
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
  if (worldSize / together % replicas != 0)
    failUsage("--replicas=", replicas, " does not divide the ",
              worldSize / together, together > 1 ? " groups of" : "", " ranks",
              together > 1
                  ? concat(" that --mesh=", manifest.mesh.text(), " makes")
                  : "",
              ": each replica needs as many ranks as the others");
  return {worldSize,
          replicas,
          localWorldSize,
          manifest.sliceAlignment(),
          static_cast<int>(manifest.mesh.tensor()),
          static_cast<int>(manifest.mesh.context())};
}

// Ranks that see the same samples share memory, or links that are as fast.
static void checkNeighbours(const Mesh &mesh,
                            const std::vector<uint16_t> &machineOf) {
  auto together = static_cast<size_t>(mesh.together());
  for (size_t rank = 0; rank < machineOf.size(); ++rank)
    if (size_t first = rank - rank % together;
        machineOf[rank] != machineOf[first])
      failUsage("--mesh=", mesh.text(), ": ranks ", first, " and ", rank,
                " compute the same samples, and are on two machines: give the "
                "ranks of a machine numbers side by side, and each machine a "
                "multiple of ",
                together);
}

// One replica a machine is what each rank took from its own machine's size.
void checkMachines(const Manifest &manifest, const Options &options,
                   const std::vector<uint16_t> &machineOf) {
  checkNeighbours(manifest.mesh, machineOf);
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
