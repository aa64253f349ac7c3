// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What --trace records of one rank: spans of time by row, during a window of
// steps, and per unit how long its communication took and how much of that
// computing had to wait for. docs/runtime.md tells what the rows are.

#ifndef SHARDONNX_RUNTIME_TRACE_H
#define SHARDONNX_RUNTIME_TRACE_H

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace shardonnx::rt {

int64_t monotonicNanoseconds(); // CLOCK_MONOTONIC: one clock on a machine

/// In the order in which they are shown.
enum class TraceRow : uint8_t {
  Steps,
  Waiting,
  Compute,
  Update, // of a GPU: what the optimizers do beside the next step
  Gather,
  Reduce,
  Replicas,
  Copy,
  Threads // of the pool: a row each, by TraceEvent::unit
};
constexpr size_t kTraceRows = 9;

/// In the row of steps: between two of them.
constexpr const char *kEvaluationSpan = "evaluation";

struct TraceEvent {
  const char *name;   // outlives the trace
  int64_t begin, end; // monotonicNanoseconds
  int32_t unit = -1;  // -1: of none; in the rows of threads which it is
  TraceRow row = TraceRow::Steps;
};

/// Nanoseconds of the whole window.
struct TraceTimes {
  int64_t gather = 0, reduce = 0;
  int64_t exposed = 0; // …of it, while nothing was computed
};

/// All spans of one name in a row.
struct TraceTally {
  int64_t calls = 0, nanoseconds = 0;
};

class Trace {
public:
  /// Steps first()…last() of a run are recorded.
  Trace(int rank, int64_t firstStep, int64_t lastStep, size_t units);

  const int rank;
  int64_t first() const { return firstStep; }
  int64_t last() const { return lastStep; }
  /// 0 where there are none.
  int64_t steps() const {
    return std::max<int64_t>(lastStep - firstStep + 1, 0);
  }
  /// So many steps later, of a run that goes on behind those.
  void shift(int64_t by) {
    firstStep += by;
    lastStep += by;
  }
  /// Leaves out steps that the run does not have.
  void limit(int64_t first, int64_t last) {
    firstStep = std::max(firstStep, first);
    lastStep = std::min(lastStep, last);
  }

  void setActive(bool on) { recording.store(on, std::memory_order_release); }
  bool active() const { return recording.load(std::memory_order_acquire); }

  /// Any thread. Beyond so many events they are counted, and not kept.
  static constexpr size_t kMaxEvents = size_t(1) << 18;
  void add(const TraceEvent &event);
  /// The same, and adds its length to the times of its unit by its row.
  void measure(const TraceEvent &event);
  /// A copy of the name that lives as long as the trace.
  const char *intern(const std::string &name);

  /// Once the window is over.
  const std::vector<TraceEvent> &events() const { return list; }
  size_t dropped() const { return left; }
  /// By name; of all events, those too that were not kept.
  std::map<std::string, TraceTally> tallies(TraceRow row) const;
  /// The rows of threads that there are.
  int threads() const { return threadRows; }
  /// [unit], and behind them what is of no unit: the norm and the loss.
  std::vector<TraceTimes> times;
  TraceTimes &timesOf(int32_t unit) {
    return times[unit < 0 ? times.size() - 1 : static_cast<size_t>(unit)];
  }
  int64_t exposed = 0; // of all units together
  /// What kept something from being recorded; "": nothing.
  std::string missing;
  bool hasTimes = true; // else they are not known

private:
  void keep(const TraceEvent &event);

  int64_t firstStep, lastStep;
  std::atomic<bool> recording{false};
  std::mutex mutex;
  std::vector<TraceEvent> list;
  size_t left = 0;
  int threadRows = 0;
  std::map<std::pair<TraceRow, const char *>, TraceTally> sums;
  std::unordered_map<std::string, const char *> interned;
  std::deque<std::string> names;
};

/// Measures from its making to its end. Costs a comparison when there is no
/// trace, and two when it is not the time for one.
class TraceSpan {
public:
  TraceSpan(Trace *trace, TraceRow row, const char *name, int64_t unit = -1)
      : trace(trace && trace->active() ? trace : nullptr), name(name),
        unit(static_cast<int32_t>(unit)), row(row) {
    if (this->trace)
      begin = monotonicNanoseconds();
  }
  ~TraceSpan() {
    if (trace)
      trace->measure({name, begin, monotonicNanoseconds(), unit, row});
  }
  TraceSpan(const TraceSpan &) = delete;
  TraceSpan &operator=(const TraceSpan &) = delete;

private:
  Trace *trace;
  const char *name;
  int64_t begin = 0;
  int32_t unit;
  TraceRow row;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_TRACE_H
