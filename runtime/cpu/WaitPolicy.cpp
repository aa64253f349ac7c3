// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See WaitPolicy.h.

#include "WaitPolicy.h"
#include "../support/Mapping.h"
#include <algorithm>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string>
#include <unistd.h>

// How often libgomp looks before a thread sleeps: GOMP_SPINCOUNT, which it
// reads only when it is loaded. Executables have libgomp inside, where this can
// be set at any time; where it is a shared library there is no such symbol.
extern "C" {
extern unsigned long long gomp_spin_count_var
    __attribute__((weak, visibility("hidden")));
}

namespace shardonnx::rt {
namespace {

constexpr double kWindow = 0.2; // seconds over which a decision looks back
// Of the time of all threads, what they may be without a core.
constexpr double kCrowded = 0.2;
constexpr double kFirstPatience = 2, kLongestPatience = 30; // seconds
constexpr double kFewestWindows = 10;
constexpr int kMostThreads = 64; // that are looked at
// About what it takes to wake a thread (20 to 100 µs): sleeping at once would
// cost that at every parallel loop.
constexpr unsigned long long kFewSpins = 2000;

// `ran waited slices` in nanoseconds.
bool addTimes(int folder, const char *thread, ThreadTimes &times) {
  std::string name = std::string(thread) + "/schedstat";
  FileDescriptor file(::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC));
  char text[96] = {};
  if (!file || ::read(file.get(), text, sizeof(text) - 1) <= 0)
    return false;
  char *end = text, *behind = nullptr;
  double ran = std::strtod(text, &end);
  double waited = std::strtod(end, &behind);
  if (end == text || behind == end)
    return false;
  times.ran += ran * 1e-9;
  times.waited += waited * 1e-9;
  return true;
}

struct CloseFolder {
  void operator()(DIR *folder) const { ::closedir(folder); }
};

} // namespace

std::optional<ThreadTimes> threadTimes() {
  std::unique_ptr<DIR, CloseFolder> folder(::opendir("/proc/self/task"));
  if (!folder)
    return std::nullopt;
  ThreadTimes times;
  int known = 0;
  while (const dirent *entry = ::readdir(folder.get()))
    if (entry->d_name[0] != '.' && known < kMostThreads)
      known += addTimes(::dirfd(folder.get()), entry->d_name, times);
  if (known == 0)
    return std::nullopt;
  return times;
}

bool WaitPolicy::decide(double now, const ThreadTimes &times) {
  double ran = times.ran - last.ran, waited = times.waited - last.waited;
  bool first = due == 0, known = ran > 0 && waited >= 0; // else a thread ended
  double window = now + kWindow - due;
  due = now + kWindow;
  last = times;
  if (first || !known)
    return spins;
  if (!spins) {
    if (now - since >= patience) {
      spins = tries = true;
      since = now;
    }
    return spins;
  }
  if (waited > kCrowded * (ran + waited)) {
    patience =
        tries ? std::min(2 * patience, kLongestPatience) : kFirstPatience;
    // Of a run with long steps, the tries take no greater share.
    patience = std::max(patience, kFewestWindows * window);
    spins = false;
    since = now;
  }
  tries = false;
  return spins;
}

void setPoolSpins(bool spins) {
  if (!&gomp_spin_count_var)
    return;
  static const unsigned long long asked = gomp_spin_count_var;
  __atomic_store_n(&gomp_spin_count_var,
                   spins ? asked : std::min(asked, kFewSpins),
                   __ATOMIC_RELAXED);
}

} // namespace shardonnx::rt
