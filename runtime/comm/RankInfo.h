// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rank this process is, of how many, on which of how many machines, and
// by which name and address the ranks of the run find each other: told by our
// own launcher, torchrun, mpirun or srun.

#ifndef SHARDONNX_RUNTIME_RANKINFO_H
#define SHARDONNX_RUNTIME_RANKINFO_H

#include "Socket.h"
#include <string>

namespace shardonnx::rt {

struct RankInfo {
  int rank = 0, worldSize = 1;
  int localRank = 0, localWorldSize = 1;
  std::string launcher;  // "" when there is none
  std::string variables; // of the environment that told so, for messages
  /// The name of the rendezvous of this machine's ranks, the same on each.
  std::string meeting;
  /// Of several machines: what tells this run from others, the same on all.
  std::string job;
  bool hasJobId = false; // in it, one that the launcher gave this run alone
  /// What the user lets all ranks know, and nobody else; "": nothing.
  std::string secret;
  /// …where rank 0 listens, or torchrun's agent with a store that knows where.
  Endpoint master;
  bool agentKeepsStore = false;
  int launcherNote = -1; // the file of kNoteVariable
  bool severalMachines() const { return localWorldSize != worldSize; }
  /// Our own launcher watches its children and tells which one died of what.
  bool launchedByUs() const { return launcher == "shardonnx"; }
};

/// Reads the environment; a variable that is no number, or a rank outside the
/// world, is an error that names it.
RankInfo rankFromEnvironment();

/// What our launcher sets for its children.
constexpr const char *kRankVariable = "SHARDONNX_RANK";
constexpr const char *kWorldSizeVariable = "SHARDONNX_WORLD_SIZE";
constexpr const char *kMeetingVariable = "SHARDONNX_MEETING";
/// A file that they inherit: there a rank says what another did when it died.
constexpr const char *kNoteVariable = "SHARDONNX_NOTE";

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_RANKINFO_H
