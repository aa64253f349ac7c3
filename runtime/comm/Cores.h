// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which cores a rank runs on where the machine's memory has several nodes: a
// page lies on the node whose core touches it first, and a thread that the
// system moves to another node reads all of it from afar. Ranks of a node share
// its cores, so that the system can still move their threads where others work.

#ifndef SHARDONNX_RUNTIME_CORES_H
#define SHARDONNX_RUNTIME_CORES_H

#include "RankInfo.h"
#include <string>
#include <vector>

namespace shardonnx::rt {

using Cores = std::vector<int>; // ascending

/// Of a list as the system writes it, "0-3,8": empty where it is none.
Cores parseCores(const std::string &list);

/// The cores of each memory node, from the folder where the system has a folder
/// for each.
std::vector<Cores>
memoryNodes(const std::string &folder = "/sys/devices/system/node");

/// Those of `allowed` that one of `ranks` ranks stays on: of its share of the
/// nodes, the ranks being dealt out to them in order. All of `allowed` where
/// there is one node or one rank, or where the nodes have too few cores for the
/// threads of the ranks on them.
Cores coresOfRank(const Cores &allowed, const std::vector<Cores> &nodes,
                  int rank, int ranks, int threads);

/// Keeps this process, and threads that it will start, on its rank's cores.
void stayOnMemoryNode(const RankInfo &info, int threads);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CORES_H
