// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long threads that wait for each other spin before they sleep. On cores of
// their own spinning saves system calls. Where other processes want the cores
// too, who spins for longer than a wake-up takes keeps the thread that it waits
// for from running.

#ifndef SHARDONNX_RUNTIME_CPU_WAITPOLICY_H
#define SHARDONNX_RUNTIME_CPU_WAITPOLICY_H

#include <optional>

namespace shardonnx::rt {

/// Seconds of this process's threads: on a core, and ready but without one.
struct ThreadTimes {
  double ran = 0, waited = 0;
};
/// Nothing where the system does not tell.
std::optional<ThreadTimes> threadTimes();

class WaitPolicy {
public:
  /// Whether it is time for the next decide().
  bool isDue(double now) const { return now >= due; }
  /// Returns whether threads may spin for long from now on. That ends when the
  /// threads wait for cores for a good part of the time; whether it may begin
  /// again shows only when it is tried, at growing intervals.
  bool decide(double now, const ThreadTimes &times);

private:
  ThreadTimes last;
  bool spins = true;
  bool tries = false;  // since the last decision
  double due = 0;      // seconds, as `now`
  double since = 0;    // the last change
  double patience = 0; // until spinning is tried again
};

/// Tells the OpenMP pool, whose waits libgomp keeps to itself.
void setPoolSpins(bool spins);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_WAITPOLICY_H
