// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Trace.h. Events are few thousand a second, so that one lock for all
// threads costs nothing that shows.

#include "Trace.h"
#include <algorithm>
#include <ctime>

namespace shardonnx::rt {

// A wait for what was there already is none.
constexpr int64_t kShortestWaitNs = 1000;

int64_t monotonicNanoseconds() {
  timespec now;
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
}

Trace::Trace(int rank, int64_t firstStep, int64_t lastStep, size_t units)
    : rank(rank), times(units + 1), firstStep(firstStep), lastStep(lastStep) {}

void Trace::keep(const TraceEvent &event) {
  TraceTally &sum = sums[{event.row, event.name}];
  ++sum.calls;
  sum.nanoseconds += event.end - event.begin;
  if (event.row == TraceRow::Threads)
    threadRows = std::max(threadRows, event.unit + 1);
  if (list.size() < kMaxEvents)
    list.push_back(event);
  else
    ++left;
}

void Trace::add(const TraceEvent &event) {
  std::lock_guard<std::mutex> lock(mutex);
  keep(event);
}

void Trace::measure(const TraceEvent &event) {
  int64_t length = event.end - event.begin;
  if (event.row == TraceRow::Waiting && length < kShortestWaitNs)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  keep(event);
  TraceTimes &unit = timesOf(event.unit);
  if (event.row == TraceRow::Gather)
    unit.gather += length;
  if (event.row == TraceRow::Reduce || event.row == TraceRow::Replicas)
    unit.reduce += length;
  if (event.row == TraceRow::Waiting) {
    unit.exposed += length;
    exposed += length;
  }
}

std::map<std::string, TraceTally> Trace::tallies(TraceRow row) const {
  std::map<std::string, TraceTally> byName;
  for (const auto &[key, sum] : sums)
    if (key.first == row) {
      TraceTally &all = byName[key.second];
      all.calls += sum.calls;
      all.nanoseconds += sum.nanoseconds;
    }
  return byName;
}

const char *Trace::intern(const std::string &name) {
  std::lock_guard<std::mutex> lock(mutex);
  const char *&known = interned[name];
  if (!known)
    known = names.emplace_back(name).c_str();
  return known;
}

} // namespace shardonnx::rt
