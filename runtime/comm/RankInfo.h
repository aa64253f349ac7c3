// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rank this process is, of how many, and by which name the ranks of the
// run find each other: told by our own launcher, torchrun, mpirun or srun.

#ifndef SHARDONNX_RUNTIME_RANKINFO_H
#define SHARDONNX_RUNTIME_RANKINFO_H

#include <string>

namespace shardonnx::rt {

struct RankInfo {
  int rank = 0, worldSize = 1;
  int localRank = 0, localWorldSize = 1;
  std::string launcher; // "" when there is none
  std::string meeting;  // the name of the rendezvous, the same on every rank
  // Our own launcher watches its children and tells which one died of what.
  bool launchedByUs() const { return launcher == "shardonnx"; }
};

// Reads the environment; a variable that is no number, or a rank outside the
// world, is an error that names it.
RankInfo rankFromEnvironment();

// What our launcher sets for its children.
constexpr const char *kRankVariable = "SHARDONNX_RANK";
constexpr const char *kWorldSizeVariable = "SHARDONNX_WORLD_SIZE";
constexpr const char *kMeetingVariable = "SHARDONNX_MEETING";

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_RANKINFO_H
