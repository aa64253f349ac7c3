// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The collectives of several ranks by NCCL: a stream for gathers, another one
// for reductions, so that a prefetched gather does not stall behind a
// reduction, and others for what replicas of the model add up, and for what
// ranks of a tensor or context axis exchange.
// docs/cuda.md tells what waits for what.

#ifndef SHARDONNX_RUNTIME_CUDA_COLLECTIVES_H
#define SHARDONNX_RUNTIME_CUDA_COLLECTIVES_H

#include "../../core/Engine.h"
#include "../launch/Context.h"
#include "../state/State.h"
#include "Communicators.h"
#include "Watchdog.h"
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace shardonnx::rt::cuda {

/// Those of one rank, or NCCL's. `context` has its device, images and stream.
std::unique_ptr<Collectives> makeCollectives(Context &context,
                                             const EngineSetup &setup);

class NcclCollectives : public Collectives {
public:
  NcclCollectives(Context &context, const Manifest &manifest,
                  const Topology &topology, Control &control,
                  Exchange &exchange, int ranksPerGpu);
  ~NcclCollectives() override;

  Allocator &symmetric() override { return memory; }
  void gatherStart(size_t unit) override;
  void gatherWait(size_t unit) override;
  void gatherFree(size_t unit) override;
  void gatherReshard(size_t unit) override;
  void gradAcquire(size_t unit) override;
  void reduceStart(size_t unit, bool accumulate) override;
  void reduceWait(size_t unit) override;
  void updated(size_t unit) override;
  void matricesStart(size_t unit, Matrices way,
                     const std::vector<Transfer> &transfers) override;
  void matricesWait(size_t unit, Matrices last) override;
  void exchangeAlong(const AxisExchange &what) override;
  void startAlong(const AxisExchange &what) override;
  void waitAlong() override;
  int axisRank(MeshAxis axis) const override {
    return communicators.axis(axis).members.index;
  }
  void announce(const char *function) override;
  void launched() override;
  void beginFunction() override;
  void endFunction() override;
  void allGather(const double *mine, double *all, size_t count) override;
  void largest(uint32_t *values, size_t count) override;
  void broadcast(void *data, size_t bytes) override;
  std::vector<std::pair<CUstream, TraceRow>> queues() const override;

private:
  /// A point of a stream. It counts in the function that recorded it alone: of
  /// earlier functions all is done when a function begins, and a capture may
  /// not wait for what it did not record.
  struct Point {
    Event event;
    uint64_t function = 0;
  };
  struct Queue {
    Queue(size_t index, TraceRow row)
        : stream(Priority::High), index(index), row(row) {}
    Stream stream;
    size_t index; // of the watchdog
    TraceRow row;
    Point end; // what the compute stream waits for at a function's end
    uint64_t function = 0; // in which it was last used
  };
  struct UnitPoints {
    Point gathered, freed, ready, reduced, added, updated;
    Point matricesReady[kMatrixWays], matricesThere[kMatrixWays];
    bool resharded = false; // the next gather is a smaller group's
  };
  /// A section of a unit in its gathered buffer, of which each rank that
  /// gathers it fills an equal part.
  struct Section {
    uint8_t *begin;
    int64_t slice;              // elements of a part
    const uint8_t *sent;        // this rank's; null: it is in its place
    std::function<void()> fill; // this rank's, into its place
    ncclDataType_t type = ncclUint8;
  };
  void record(Point &point, CUstream stream);
  void wait(const Point &point, CUstream stream);
  /// Before the first work of a function on the queue: waits for its begin.
  void joinFunction(Queue &queue);
  std::vector<Queue *> allQueues();
  /// Where all ranks meet.
  Queue &wholeQueue() { return replicas ? *replicas : reductions; }
  template <typename Work>
  void collective(Queue &queue, const NcclCommunicator &communicator,
                  Activity activity, size_t unit, int64_t bytes, Work work);
  /// Of an exchange along an axis.
  struct Exchanged {
    Point ready, there;
  };
  void sendAlong(const AxisExchange &what, Exchanged &points);
  void allToAll(const NcclCommunicator &communicator, const AxisExchange &what);
  void shift(const NcclCommunicator &communicator, const AxisExchange &what);
  void note(CollectiveKind kind, const Queue &queue, int64_t unit);
  void gather(size_t unit, const NcclCommunicator *communicator,
              Section trainable, Section frozen);
  Section encode(const NcclCommunicator &communicator, const UnitState &unit,
                 const Section &section);
  void allGather(const NcclCommunicator &communicator, const UnitState &unit,
                 const Section &section);
  void reduceScatter(size_t unit);
  void allReduce(size_t unit, Queue &queue,
                 const NcclCommunicator *communicator, void *data,
                 int64_t count, ShxDType dtype);
  void addReplicas(size_t unit);
  void abort();
  std::string asyncError();

  Context &context;
  Control &control;
  Exchange &exchange;
  Communicators communicators;
  Queue gathers, reductions;
  std::optional<Queue> replicas, axes;
  NcclAllocator memory;
  std::vector<UnitPoints> points; // [unit]
  Point begun;                    // of the function, on the compute stream
  Point numbersReady, numbersThere;
  /// What all ranks tell each other, as work of the compute stream.
  template <typename Work>
  void ofAllRanks(Activity activity, int64_t bytes, CollectiveKind kind,
                  Work work);
  std::deque<Exchanged> exchanges; // that the function has started
  Exchanged exchangedAtOnce;
  size_t started = 0, awaited = 0; // of the function
  uint64_t function = 0;           // counts them
  std::mutex asking;               // the communicators for their errors
  bool aborted = false;            // …which are no more
  /// Collectives that have run: NCCL connects the ranks in the first run, which
  /// must not be a captured one.
  std::set<std::tuple<ncclComm_t, Activity, size_t>> connected;
  Watchdog watchdog;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_COLLECTIVES_H
