// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the ranks of a run are grouped: what --replicas, the strategy and the
// number of machines come to. Layout.h tells what a group owns.

#ifndef SHARDONNX_RUNTIME_TOPOLOGY_H
#define SHARDONNX_RUNTIME_TOPOLOGY_H

#include "Options.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Manifest.h"
#include <vector>

namespace shardonnx::rt {

/// Throws Error(kExitUsage). Without --replicas, a hybrid strategy has one
/// replica a machine, and any other one a single one.
Topology topologyOf(const Manifest &manifest, const Options &options,
                    int worldSize, int localWorldSize);

/// What no rank knows before the machines have met: `machineOf`, by rank.
void checkMachines(const Manifest &manifest, const Options &options,
                   const std::vector<uint16_t> &machineOf);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_TOPOLOGY_H
