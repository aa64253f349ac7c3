// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See AddressSpace.h.

#include "AddressSpace.h"
#include "../support/Error.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

// BUFFER_SIZE of OpenBLAS on x86-64.
constexpr size_t kBufferBytes = size_t(128) << 20;

int threadsAtStart() {
  cpu_set_t cores;
  int count = ::sched_getaffinity(0, sizeof(cores), &cores) == 0
                  ? CPU_COUNT(&cores)
                  : 1;
  const char *wanted = std::getenv("OMP_NUM_THREADS");
  long threads = wanted ? std::strtol(wanted, nullptr, 10) : 0;
  return threads > 0 && threads < count ? static_cast<int>(threads) : count;
}

// OpenBLAS's own constructor has no priority, so this one is earlier.
__attribute__((constructor(101))) void checkAtStart() {
  setProgramName(program_invocation_name);
  checkAddressSpace(threadsAtStart());
}

} // namespace

void checkAddressSpace(int threads) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return;
  size_t bytes = kBufferBytes * static_cast<size_t>(std::max(threads, 1));
  void *room = ::mmap(nullptr, bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room != MAP_FAILED) {
    ::munmap(room, bytes);
    return;
  }
  printError("the address space is limited to " +
             std::to_string(limit.rlim_cur >> 20) +
             " MiB (ulimit -v), and the matrix products of " +
             std::to_string(threads) + " threads need " +
             std::to_string(bytes >> 20) +
             " MiB of what is left: raise the limit, or set OMP_NUM_THREADS to "
             "fewer");
  ::_exit(kExitFailure);
}

} // namespace shardonnx::rt
