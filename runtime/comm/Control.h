// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The control block that the ranks of a machine share: epoch counters for each
// rank and unit, the exchange of a few numbers per step, and the word by which
// one failing rank ends all. Every wait of the runtime is Control::wait.
// docs/runtime.md tells what each counter counts.

#ifndef SHARDONNX_RUNTIME_CONTROL_H
#define SHARDONNX_RUNTIME_CONTROL_H

#include "FlightRecorder.h"
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace shardonnx::rt {

using Counter = std::atomic<uint64_t>;

/// One rank's counters of one unit, on a cache line of their own.
struct alignas(64) UnitCounters {
  Counter published;  // gathers (in place: updates) whose slice is written
  Counter released;   // gathers that this rank reads no more
  Counter freed;      // …and whose slice it has poisoned, when debugging
  Counter gradsReady; // reductions whose gradients this rank has written
  Counter gradsDone;  // reductions whose slice this rank has summed
  Counter updated;    // optimizer runs
  Counter directions; // of Muon's matrices, whose slice this rank has written
  Counter orthogonal; // …and of which it has done all that it owns
  /// Steps whose part of the slice this rank has summed over the replicas, and
  /// whose slice has all of the other replicas' parts.
  Counter replicaSummed, replicaDone;
};

/// What a rank is waiting for, for the sentence that a hang ends with.
enum class Activity : uint32_t {
  Running, // also the communication thread: its waits are never a hang by
           // themselves, since the issuing thread comes to wait for them
  Gather,
  GradientBuffer,
  Reduce,
  Replicas,
  Optimizer,
  Directions, // of Muon's matrices, at their owners
  Matrices,   // …orthogonal, back from them
  Norm,
  Loss,
  Steps, // of weights in 8 bits
  Mesh,
  Exchange,
  Connect,
  Start,
  End,
};

/// What a rank is doing, for the sentence that a run ends with.
struct RankStatus {
  int64_t step = 0; // from 1; 0: before the first
  uint32_t activity = 0, activityUnit = 0;
  uint32_t last = 0, lastUnit = 0; // what it waited for last
};

/// Numbers that every rank gives once a step; [2]: a rank may be one ahead.
struct alignas(64) RankBlock {
  std::atomic<int32_t> pid;
  std::atomic<uint32_t> finished; // this process may end, all is well
  std::atomic<int64_t> step;
  std::atomic<uint32_t> activity, activityUnit, last, lastUnit;
  std::atomic<uint32_t> asleep; // the issuing thread, in a wait
  std::atomic<uint32_t> jobs;   // that the communication threads are at
  Counter beats;                // go up while the process runs
  Counter barrier, normReady, lossReady;
  Counter meshReady, meshDone; // collectives of the axes: given, taken
  double norm[2], loss[2], lossCount[2];
  std::atomic<int64_t> pssBytes, peakBytes;
};

struct alignas(64) ControlHeader {
  std::atomic<uint32_t> sequence; // futex: goes up with every change below
  std::atomic<uint32_t> sleepers;
  std::atomic<int32_t> failedRank; // 1 + rank of the first failure, 0: none
  std::atomic<uint32_t> stopped;
};

class Control {
public:
  /// `unitNames` outlive the control block.
  Control(uint8_t *memory, int rank, int ranks,
          const std::vector<std::string> &unitNames);
  static size_t bytes(int ranks, size_t units);

  int rank() const { return self; }
  int ranks() const { return count; }
  RankBlock &block(int rank) { return blocks[rank]; }
  UnitCounters &unit(int rank, size_t unit) {
    return counters[static_cast<size_t>(rank) * units + unit];
  }
  UnitCounters &mine(size_t unit) { return this->unit(self, unit); }
  const std::vector<std::string> &unitNames() const { return names; }

  /// This rank's collectives, for the file that is written when a rank of this
  /// machine fails; "": none is. Of another one's: what it has recorded.
  uint64_t issue(Activity activity, size_t unit, int64_t bytes) {
    return recorder.issue(static_cast<uint32_t>(activity), unit,
                          block(self).step.load(), bytes);
  }
  FlightRecorder recorder;
  const FlightRing &flights(int rank) const { return rings[rank]; }
  void setFlightRecord(std::string path) { flightRecord = std::move(path); }

  /// Sets a counter of this rank and wakes whoever waits.
  void publish(Counter &counter, uint64_t value);
  /// Wakes all waiters of all ranks, so that they look again.
  void notify();

  /// Waits until ready() holds. Spins for a moment when `spin` (the issuing
  /// thread has a core to itself unless setSpins() says otherwise, the
  /// communication thread has not), then sleeps. Ends the process when another
  /// rank failed.
  template <typename Ready>
  void wait(Activity activity, size_t unit, bool spin, Ready ready) {
    noteLast(activity, unit);
    for (int i = 0, n = spin ? spins.load(std::memory_order_relaxed) : 1; i < n;
         ++i) {
      if (ready())
        return;
      __builtin_ia32_pause();
    }
    Sleep sleep(*this, activity, unit);
    while (true) {
      uint32_t seen = sleep.prepare();
      if (ready())
        return;
      sleep.block(seen);
    }
  }
  void setSpins(bool may) { spins.store(may ? kSpins : kFewSpins); }
  void barrier(Activity activity);

  /// Where there are several machines, the blocks of other machines' ranks stay
  /// empty here, a barrier is somebody else's, and failures are told on.
  struct Machines {
    std::vector<int> localRanks;
    std::function<void(Activity)> barrier;
    std::function<void(int rank)> announceFailure;
  };
  void setMachines(Machines others) { machines = std::move(others); }
  bool isLocal(int rank) const;

  /// For the sentence that a run ends with.
  void setStep(int64_t step) { block(self).step.store(step); }
  RankStatus status(int rank);
  void setStatus(int rank, const RankStatus &status); // of another machine's
  /// "computing behind the all-gather of unit 'h.1', in step 7".
  std::string activityOf(int rank);
  /// Signs of life, and of all ranks of the machine waiting for each other.
  void beat() { block(self).beats.fetch_add(1); }
  bool everybodySleeps();
  uint32_t changes() const { return header->sequence.load(); }

  bool failed() const { return header->failedRank.load() != 0; }
  /// Reports, if this is the first failure, and ends this process with `code`.
  /// Where our launcher knows the cause better it speaks instead, and
  /// `toLauncher`, not 0, is what it is told.
  [[noreturn]] void failNow(int rank, const std::string &message, int code,
                            int toLauncher = 0);
  [[noreturn]] void follow(); // another rank failed and has said so
  /// The same, of a rank of another machine.
  [[noreturn]] void followRemote(int rank);
  /// The rank that failed first.
  int failedRank() const { return header->failedRank.load() - 1; }
  /// `note`: a file in which our launcher finds what the failed rank did.
  void setLaunchedByUs(bool launched, int note = -1) {
    launchedByUs = launched;
    launcherNote = note;
  }

  /// From now on a signal ends the run after a step; the engine tells the other
  /// ranks with the step's loss.
  void setStopsAfterStep() { stopsAfterStep.store(true); }
  /// Returns whether it does.
  bool askToStop(int signal) {
    int none = 0;
    if (stopsAfterStep.load())
      stopSignal.compare_exchange_strong(none, signal);
    return stopsAfterStep.load();
  }
  bool askedToStop() const { return stopSignal.load() != 0; }
  /// What asked this rank; where another rank was asked, 0.
  int stoppedBy() const { return stopSignal.load(); }

  /// After so many seconds a wait is a hang.
  void setTimeout(double seconds) { timeoutSeconds = seconds; }
  double timeout() const { return timeoutSeconds; }
  /// Ends the run with the sentence of a hang: what this rank and the others of
  /// its machine are doing. `where` says more of what this one does.
  [[noreturn]] void reportHang(Activity activity, size_t unit,
                               const std::string &where = "");
  /// What a rank is doing, where a wait() does not say it.
  void setActivity(Activity activity, size_t unit);

  /// A process that does not end by itself.
  void killAtExit(int pid) { toKill.store(pid); }
  /// Called last before this process ends by a failure, what was added last
  /// first. An empty `call` takes back what `owner` has added.
  void setBeforeExit(const void *owner, std::function<void()> call);

private:
  static constexpr int kSpins = 2000, kFewSpins = 100;

  class Sleep {
  public:
    Sleep(Control &control, Activity activity, size_t unit);
    ~Sleep();
    uint32_t prepare();
    void block(uint32_t seen);

  private:
    Control &control;
    Activity activity;
    size_t unit;
    double lookedAt, waited = 0; // seconds
    bool counted = false;
  };
  friend class Sleep;
  /// Where everybody waits for one rank, rank 0's machine speaks.
  double reportDelay() const {
    constexpr double kSeconds = 3;
    return isLocal(0) ? 0 : kSeconds;
  }
  void noteLast(Activity activity, size_t unit) {
    if (activity == Activity::Running)
      return;
    constexpr auto relaxed = std::memory_order_relaxed;
    block(self).lastUnit.store(static_cast<uint32_t>(unit), relaxed);
    block(self).last.store(static_cast<uint32_t>(activity), relaxed);
  }
  /// Makes this the failure that ends the run if it is the first one, and tells
  /// whether it was.
  bool claimFailure(int rank);
  std::string keepFlights(int rank, const std::string &cause);
  [[noreturn]] void exitProcess(int code);

  ControlHeader *header;
  RankBlock *blocks;
  UnitCounters *counters;
  FlightRing *rings;
  int self, count;
  size_t units;
  const std::vector<std::string> &names;
  uint64_t barriers = 0;
  std::atomic<int> spins{kSpins};
  std::atomic<int> toKill{0};
  std::atomic<int> reporters{0}; // threads of this process that report
  std::atomic<bool> stopsAfterStep{false};
  std::atomic<int> stopSignal{0};
  double timeoutSeconds = 600;
  bool launchedByUs = false;
  int launcherNote = -1;
  std::string flightRecord;
  Machines machines;
  std::mutex leaving;
  std::vector<std::pair<const void *, std::function<void()>>> beforeExit;
};

double monotonicSeconds();

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CONTROL_H
