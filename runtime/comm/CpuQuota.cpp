// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See CpuQuota.h.

#include "CpuQuota.h"
#include <algorithm>
#include <fstream>
#include <sstream>

namespace shardonnx::rt {
namespace {

constexpr const char *kRoot = "/sys/fs/cgroup";

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The group of version 2: the line `0::/its/path`.
std::string ownGroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("0::", 0) == 0)
      return line.substr(3);
  return "";
}

} // namespace

std::optional<double> coresOfQuota(const std::string &text) {
  std::istringstream words(text);
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0)
    return std::nullopt;
  return quota / period;
}

std::optional<double> cpuQuota() {
  std::optional<double> least;
  auto take = [&](const std::string &text) {
    if (std::optional<double> cores = coresOfQuota(text))
      least = std::min(*cores, least.value_or(*cores));
  };
  std::string group = ownGroup();
  while (true) { // a limit of an outer group holds for the inner ones
    take(firstLine(kRoot + group + "/cpu.max"));
    size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos)
      break;
    group.resize(slash);
  }
  std::string one = std::string(kRoot) + "/cpu/cpu.cfs_";
  take(firstLine(one + "quota_us") + " " + firstLine(one + "period_us"));
  return least;
}

} // namespace shardonnx::rt
