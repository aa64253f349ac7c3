// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Cores.h.

#include "Cores.h"
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sched.h>

namespace shardonnx::rt {
namespace {

namespace fs = std::filesystem;

Cores allowedCores() {
  Cores cores;
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set))
        cores.push_back(core);
  return cores;
}

bool readNumber(const char *&at, const char *end, int &number) {
  auto [next, error] = std::from_chars(at, end, number);
  at = next;
  return error == std::errc() && number >= 0 && number < CPU_SETSIZE;
}

} // namespace

Cores parseCores(const std::string &list) {
  Cores cores;
  const char *at = list.data(), *end = at + list.size();
  while (at != end && *at != '\n') {
    int first = 0;
    if (!readNumber(at, end, first))
      return {};
    int last = first;
    if (at != end && *at == '-') {
      ++at;
      if (!readNumber(at, end, last))
        return {};
    }
    for (int core = first; core <= last; ++core)
      cores.push_back(core);
    if (at != end && *at == ',')
      ++at;
    else if (at != end && *at != '\n')
      return {};
  }
  std::sort(cores.begin(), cores.end());
  return cores;
}

std::vector<Cores> memoryNodes(const std::string &folder) {
  std::vector<Cores> nodes;
  std::error_code error;
  for (const fs::directory_entry &entry :
       fs::directory_iterator(folder, error)) {
    std::ifstream file(entry.path() / "cpulist");
    std::string list;
    if (entry.path().filename().string().rfind("node", 0) != 0 ||
        !std::getline(file, list))
      continue;
    if (Cores cores = parseCores(list); !cores.empty())
      nodes.push_back(std::move(cores));
  }
  std::sort(nodes.begin(), nodes.end()); // folders come in any order
  return nodes;
}

Cores coresOfRank(const Cores &allowed, const std::vector<Cores> &nodes,
                  int rank, int ranks, int threads) {
  std::vector<Cores> parts;
  for (const Cores &node : nodes) {
    Cores part;
    std::set_intersection(node.begin(), node.end(), allowed.begin(),
                          allowed.end(), std::back_inserter(part));
    if (!part.empty())
      parts.push_back(std::move(part));
  }
  auto count = static_cast<int64_t>(parts.size());
  if (count < 2 || ranks < 2)
    return allowed;
  auto firstNode = [&](int r) { return r * count / ranks; };
  int64_t first = firstNode(rank);
  int64_t last = std::max(first + 1, firstNode(rank + 1));
  Cores cores;
  for (int64_t node = first; node < last; ++node) {
    const Cores &part = parts[static_cast<size_t>(node)];
    cores.insert(cores.end(), part.begin(), part.end());
  }
  int64_t sharing = 0;
  for (int r = 0; r < ranks; ++r)
    sharing += firstNode(r) == first;
  if (static_cast<int64_t>(cores.size()) < sharing * threads)
    return allowed;
  std::sort(cores.begin(), cores.end());
  return cores;
}

void stayOnMemoryNode(const RankInfo &info, int threads) {
  cpu_set_t set;
  CPU_ZERO(&set);
  Cores allowed = allowedCores();
  Cores cores = coresOfRank(allowed, memoryNodes(), info.localRank,
                            info.localWorldSize, threads);
  if (cores == allowed)
    return;
  for (int core : cores)
    CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof(set), &set); // only a wish
}

} // namespace shardonnx::rt
