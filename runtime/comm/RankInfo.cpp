// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The environments of the launchers that people use.

#include "RankInfo.h"
#include "../support/Error.h"
#include "NodeList.h"
#include "shardonnx/runtime/Layout.h"
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

const char *get(const char *name) {
  const char *value = std::getenv(name);
  return value && *value ? value : nullptr;
}

std::optional<long> parseNumber(const char *text) {
  char *end = nullptr;
  errno = 0;
  long parsed = std::strtol(text, &end, 10);
  if (errno || *end || parsed < 0 || parsed > 1 << 20)
    return std::nullopt;
  return parsed;
}

int number(const char *name) {
  const char *value = get(name);
  if (!value)
    failUsage("the environment has no ", name,
              ", which the launcher should set");
  std::optional<long> parsed = parseNumber(value);
  if (!parsed)
    failUsage(name, "=", value, " in the environment is not a rank or a count");
  return static_cast<int>(*parsed);
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
  return id;
}

// The launcher on this machine is one process, whatever it calls the job.
void setMeeting(RankInfo &info, const char *nodeVariable = nullptr) {
  info.meeting =
      info.job.empty() ? "/ppid" + std::to_string(::getppid()) : info.job;
  // Two "machines" of a launcher may be one.
  if (const char *node = nodeVariable ? get(nodeVariable) : nullptr)
    info.meeting += std::string("/node") + node;
}

// Torch's variables, which people also set for other launchers.
void setMaster(RankInfo &info, const std::string &host, int port) {
  const char *name = get("MASTER_ADDR");
  info.master.host = name ? name : host;
  const char *text = get("MASTER_PORT");
  long chosen = text ? parseNumber(text).value_or(0) : port;
  if (chosen < 1 || chosen > 65535)
    failUsage("MASTER_PORT=", text ? text : "",
              " in the environment is not a port: give it a number from 1 to "
              "65535");
  info.master.port = static_cast<uint16_t>(chosen);
  // torchrun writes [address] for IPv6 in some versions.
  std::string &h = info.master.host;
  if (h.size() > 2 && h.front() == '[' && h.back() == ']')
    h = h.substr(1, h.size() - 2);
}

constexpr int kDefaultPort = 29500; // torch's own

RankInfo fromTorchrun() {
  RankInfo info;
  info.launcher = "torchrun";
  info.variables = "RANK, WORLD_SIZE";
  info.rank = number("RANK");
  info.worldSize = number("WORLD_SIZE");
  info.localRank = numberOr("LOCAL_RANK", info.rank);
  info.localWorldSize = numberOr("LOCAL_WORLD_SIZE", info.worldSize);
  info.job = identity({"TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT",
                       "TORCHELASTIC_RESTART_COUNT"});
  info.hasJobId = get("TORCHELASTIC_RUN_ID");
  setMeeting(info, "GROUP_RANK");
  setMaster(info, "", kDefaultPort);
  const char *store = get("TORCHELASTIC_USE_AGENT_STORE");
  info.agentKeepsStore = store && std::strcmp(store, "True") == 0;
  return info;
}

RankInfo fromOpenMPI() {
  RankInfo info;
  info.launcher = "mpirun";
  info.variables = "OMPI_COMM_WORLD_SIZE";
  info.rank = number("OMPI_COMM_WORLD_RANK");
  info.worldSize = number("OMPI_COMM_WORLD_SIZE");
  info.localRank = numberOr("OMPI_COMM_WORLD_LOCAL_RANK", info.rank);
  info.localWorldSize = numberOr("OMPI_COMM_WORLD_LOCAL_SIZE", info.worldSize);
  info.job = identity({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"});
  info.hasJobId = !info.job.empty();
  setMeeting(info);
  setMaster(info, "", kDefaultPort);
  return info;
}

RankInfo fromPMI() {
  RankInfo info;
  info.launcher = "mpirun";
  info.variables = "PMI_SIZE";
  info.rank = number("PMI_RANK");
  info.worldSize = number("PMI_SIZE");
  info.localRank = numberOr("MPI_LOCALRANKID", info.rank);
  info.localWorldSize = numberOr("MPI_LOCALNRANKS", info.worldSize);
  info.job = identity({"PMI_ID", "PMI_JOBID"});
  setMeeting(info);
  info.job.clear(); // nothing says that it is the same on every machine
  setMaster(info, "", kDefaultPort);
  return info;
}

// How many tasks SLURM started on this machine.
int slurmLocalTasks(int worldSize) {
  if (numberOr("SLURM_STEP_NUM_NODES", numberOr("SLURM_NNODES", 1)) <= 1)
    return worldSize;
  for (const char *name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
    if (const char *list = get(name)) {
      std::optional<int> count = countOfNode(list, number("SLURM_NODEID"));
      if (!count)
        failUsage(name, "=", list,
                  " in the environment does not tell how many "
                  "tasks node ",
                  number("SLURM_NODEID"), " has");
      return *count;
    }
  failUsage("the environment has no SLURM_STEP_TASKS_PER_NODE, which srun "
            "should set for several machines");
}

RankInfo fromSlurm() {
  constexpr int kFirstPort = 20000, kPorts = 12000; // below those of clients
  RankInfo info;
  info.launcher = "srun";
  info.variables = "SLURM_NTASKS";
  info.rank = number("SLURM_PROCID");
  info.worldSize = number("SLURM_NTASKS");
  info.localRank = numberOr("SLURM_LOCALID", info.rank);
  info.localWorldSize = slurmLocalTasks(info.worldSize);
  info.job = identity({"SLURM_JOB_ID", "SLURM_STEP_ID"});
  info.hasJobId = get("SLURM_JOB_ID");
  setMeeting(info, "SLURM_NODEID");
  std::string host;
  for (const char *name : {"SLURM_STEP_NODELIST", "SLURM_NODELIST"})
    if (const char *list = get(name); list && host.empty())
      host = firstHost(list).value_or("");
  unsigned long port = 0; // another one for each job and step
  for (char c : info.job)
    port = (port * 31 + static_cast<unsigned char>(c)) % kPorts;
  setMaster(info, host, kFirstPort + static_cast<int>(port));
  return info;
}

RankInfo fromOurLauncher() {
  RankInfo info;
  info.launcher = "shardonnx";
  info.rank = info.localRank = number(kRankVariable);
  info.worldSize = info.localWorldSize = number(kWorldSizeVariable);
  info.job = identity({kMeetingVariable});
  info.launcherNote = get(kNoteVariable) ? number(kNoteVariable) : -1;
  setMeeting(info);
  return info;
}

RankInfo detect() {
  if (get(kRankVariable))
    return fromOurLauncher();
  if (get("RANK") && get("WORLD_SIZE"))
    return fromTorchrun();
  if (get("OMPI_COMM_WORLD_RANK") || get("OMPI_COMM_WORLD_SIZE"))
    return fromOpenMPI();
  // An interactive allocation sets SLURM_JOB_ID and more, but only a task that
  // srun started has a process id in its step.
  bool slurm =
      get("SLURM_PROCID") && get("SLURM_STEP_ID") && get("SLURM_NTASKS");
  // Where srun speaks PMI, too, its own variables know the machines.
  bool same = slurm && numberOr("PMI_RANK", -1) == number("SLURM_PROCID") &&
              numberOr("PMI_SIZE", -1) == number("SLURM_NTASKS");
  if (get("PMI_RANK") && !same)
    return fromPMI();
  if (slurm)
    return fromSlurm();
  // Half of torchrun's: one rank alone would be another run than was meant.
  if (get("WORLD_SIZE") && number("WORLD_SIZE") > 1)
    failUsage("the environment has WORLD_SIZE=", get("WORLD_SIZE"),
              " but no RANK: set both, as torchrun does, or neither");
  if (get("RANK") && number("RANK") > 0)
    failUsage("the environment has RANK=", get("RANK"),
              " but no WORLD_SIZE: set both, as torchrun does, or neither");
  return {};
}

} // namespace

RankInfo rankFromEnvironment() {
  RankInfo info = detect();
  if (const char *secret = get("SHARDONNX_SECRET"))
    info.secret = secret;
  if (info.worldSize < 1 || info.worldSize > kMaxRanks)
    failUsage("the world size ", info.worldSize, " given by ", info.launcher,
              " is not within 1…", kMaxRanks);
  if (info.rank >= info.worldSize)
    failUsage("rank ", info.rank, " given by ", info.launcher,
              " is outside the world of ", info.worldSize);
  if (info.localWorldSize < 1 || info.localWorldSize > info.worldSize ||
      info.localRank >= info.localWorldSize)
    failUsage("local rank ", info.localRank, " of ", info.localWorldSize,
              " given by ", info.launcher, " does not fit a world of ",
              info.worldSize);
  return info;
}

} // namespace shardonnx::rt
