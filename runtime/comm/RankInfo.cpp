// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The environments of the launchers that people use.

#include "RankInfo.h"
#include "../core/Error.h"
#include "shardonnx/runtime/Layout.h"
#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

const char *get(const char *name) {
  const char *value = std::getenv(name);
  return value && *value ? value : nullptr;
}

int number(const char *name) {
  const char *value = get(name);
  if (!value)
    failUsage("the environment has no ", name,
              ", which the launcher should set");
  char *end = nullptr;
  errno = 0;
  long parsed = std::strtol(value, &end, 10);
  if (errno || *end || parsed < 0 || parsed > 1 << 20)
    failUsage(name, "=", value, " in the environment is not a rank or a count");
  return static_cast<int>(parsed);
}

int numberOr(const char *name, int fallback) {
  return get(name) ? number(name) : fallback;
}

// Joins those variables that are set: what tells one run from another.
std::string identity(std::initializer_list<const char *> names) {
  std::string id;
  for (const char *name : names)
    if (const char *value = get(name))
      id += std::string("/") + value;
  return id.empty() ? "/ppid" + std::to_string(::getppid()) : id;
}

RankInfo fromTorchrun() {
  RankInfo info;
  info.launcher = "torchrun";
  info.rank = number("RANK");
  info.worldSize = number("WORLD_SIZE");
  info.localRank = numberOr("LOCAL_RANK", info.rank);
  info.localWorldSize = numberOr("LOCAL_WORLD_SIZE", info.worldSize);
  info.meeting = identity({"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT",
                           "TORCHELASTIC_RESTART_COUNT"});
  return info;
}

RankInfo fromOpenMPI() {
  RankInfo info;
  info.launcher = "mpirun";
  info.rank = number("OMPI_COMM_WORLD_RANK");
  info.worldSize = number("OMPI_COMM_WORLD_SIZE");
  info.localRank = numberOr("OMPI_COMM_WORLD_LOCAL_RANK", info.rank);
  info.localWorldSize = numberOr("OMPI_COMM_WORLD_LOCAL_SIZE", info.worldSize);
  info.meeting = identity({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  return info;
}

RankInfo fromPMI() {
  RankInfo info;
  info.launcher = "mpirun";
  info.rank = number("PMI_RANK");
  info.worldSize = number("PMI_SIZE");
  info.localRank = numberOr("MPI_LOCALRANKID", info.rank);
  info.localWorldSize = numberOr("MPI_LOCALNRANKS", info.worldSize);
  info.meeting = identity({"PMI_ID", "PMI_JOBID"});
  return info;
}

RankInfo fromSlurm() {
  RankInfo info;
  info.launcher = "srun";
  info.rank = number("SLURM_PROCID");
  info.worldSize = number("SLURM_NTASKS");
  info.localRank = numberOr("SLURM_LOCALID", info.rank);
  info.localWorldSize = info.worldSize;
  if (numberOr("SLURM_NNODES", 1) > 1)
    info.localWorldSize = 0; // several machines: refused below
  info.meeting = identity({"SLURM_JOB_ID", "SLURM_STEP_ID"});
  return info;
}

RankInfo fromOurLauncher() {
  RankInfo info;
  info.launcher = "shardonnx";
  info.rank = info.localRank = number(kRankVariable);
  info.worldSize = info.localWorldSize = number(kWorldSizeVariable);
  info.meeting = identity({kMeetingVariable});
  return info;
}

RankInfo detect() {
  if (get(kRankVariable))
    return fromOurLauncher();
  if (get("RANK") && get("WORLD_SIZE"))
    return fromTorchrun();
  if (get("OMPI_COMM_WORLD_RANK"))
    return fromOpenMPI();
  if (get("PMI_RANK"))
    return fromPMI();
  // An interactive allocation sets SLURM_JOB_ID and more, but only a task that
  // srun started has a process id in its step.
  if (get("SLURM_PROCID") && get("SLURM_STEP_ID") && get("SLURM_NTASKS"))
    return fromSlurm();
  return {};
}

} // namespace

RankInfo rankFromEnvironment() {
  RankInfo info = detect();
  if (info.worldSize < 1 || info.worldSize > kMaxRanks)
    failUsage("the world size ", info.worldSize, " given by ", info.launcher,
              " is not within 1…", kMaxRanks);
  if (info.rank >= info.worldSize)
    failUsage("rank ", info.rank, " given by ", info.launcher,
              " is outside the world of ", info.worldSize);
  if (info.localWorldSize != info.worldSize)
    fail("the ", info.worldSize, " ranks given by ", info.launcher,
         " are on several machines, and this runtime connects the ranks of "
         "one: start them all on one machine");
  return info;
}

} // namespace shardonnx::rt
