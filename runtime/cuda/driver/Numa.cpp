// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Numa.h. By the system's calls alone: libnuma is not everywhere.

#include "Numa.h"
#include "../../support/Error.h"
#include "Switch.h"
#include "shardonnx/runtime/WholeNumber.h"
#include <cstdlib>
#include <fstream>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sstream>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace shardonnx::rt::cuda {
namespace {

constexpr int kMostNodes = 1024;

std::string firstLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "0-27,56-83", of which the processors that this thread may use remain.
cpu_set_t processorsOf(const std::string &list, const cpu_set_t &allowed) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::istringstream ranges(list);
  for (std::string range; std::getline(ranges, range, ',');) {
    size_t dash = range.find('-');
    std::string end =
        dash == std::string::npos ? range : range.substr(dash + 1);
    std::optional<int64_t> first =
        parseDigits(range.substr(0, dash), 0, CPU_SETSIZE - 1);
    std::optional<int64_t> last = parseDigits(end, 0, CPU_SETSIZE - 1);
    for (int64_t cpu = first.value_or(0); first && last && cpu <= *last; ++cpu)
      if (CPU_ISSET(static_cast<size_t>(cpu), &allowed))
        CPU_SET(static_cast<size_t>(cpu), &set);
  }
  return set;
}

} // namespace

std::optional<int> numaNodeOf(const std::string &bus,
                              const std::string &devices) {
  std::optional<int64_t> node = parseDigits(
      firstLine(concat(devices, "/", bus, "/numa_node")), 0, kMostNodes - 1);
  if (!node) // -1: the machine does not tell
    return std::nullopt;
  return static_cast<int>(*node);
}

std::optional<int> bindToGpu(const std::string &bus) {
  std::optional<int> node =
      isOff("SHARDONNX_NUMA") ? std::nullopt : numaNodeOf(bus);
  cpu_set_t allowed;
  if (!node || ::sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return std::nullopt;
  std::string folder = concat("/sys/devices/system/node/node", *node);
  cpu_set_t wanted = processorsOf(firstLine(folder + "/cpulist"), allowed);
  if (CPU_COUNT(&wanted) == 0 || CPU_EQUAL(&wanted, &allowed) ||
      ::sched_setaffinity(0, sizeof(wanted), &wanted) != 0)
    return std::nullopt;
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> mask(kMostNodes / kBits);
  mask[static_cast<size_t>(*node) / kBits] |=
      1ul << (static_cast<size_t>(*node) % kBits);
  // A sandbox may refuse it: then memory is where its first writer stands.
  ::syscall(SYS_set_mempolicy, MPOL_PREFERRED, mask.data(), kMostNodes);
  return node;
}

} // namespace shardonnx::rt::cuda
