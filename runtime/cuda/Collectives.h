// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The collectives of several ranks by NCCL: a stream and a communicator for
// gathers, and another one for reductions, so that a prefetched gather does
// not stall behind a reduction. docs/cuda.md tells what waits for what.

#ifndef SHARDONNX_RUNTIME_CUDA_COLLECTIVES_H
#define SHARDONNX_RUNTIME_CUDA_COLLECTIVES_H

#include "Context.h"
#include "Nccl.h"
#include "State.h"
#include "Watchdog.h"
#include <set>
#include <vector>

namespace shardonnx::rt::cuda {

class NcclCollectives : public Collectives {
public:
  NcclCollectives(Context &context, const Manifest &manifest, Control &control,
                  Exchange &exchange, int ranksPerGpu);
  ~NcclCollectives() override;

  Allocator &symmetric() override { return memory; }
  void gatherStart(size_t unit) override;
  void gatherWait(size_t unit) override;
  void gatherFree(size_t unit) override;
  void gradAcquire(size_t unit) override;
  void reduceStart(size_t unit, bool accumulate) override;
  void reduceWait(size_t unit) override;
  void updated(size_t unit) override;
  void announce(const char *function) override;
  void launched() override;
  void beginFunction() override;
  void endFunction() override;
  void allGather(const double *mine, double *all, size_t count) override;
  void broadcast(void *data, size_t bytes) override;
  std::vector<std::pair<CUstream, TraceRow>> queues() const override {
    return {{gathers.stream, TraceRow::Gather},
            {reductions.stream, TraceRow::Reduce}};
  }

private:
  // A point of a stream. It counts in the function that recorded it alone: of
  // earlier functions all is done when a function begins, and a capture may
  // not wait for what it did not record.
  struct Point {
    Event event;
    uint64_t function = 0;
  };
  struct Queue {
    Queue(Control &control, Exchange &exchange, const Device &device,
          const char *name, size_t index, int ranksPerGpu)
        : stream(Priority::High),
          communicator(control, exchange, device, name, ranksPerGpu),
          index(index) {}
    Stream stream;
    NcclCommunicator communicator;
    size_t index; // of the watchdog
    Point end;    // what the compute stream waits for at a function's end
    uint64_t function = 0; // in which it was last used
  };
  struct UnitPoints {
    Point gathered, freed, ready, reduced, updated;
  };
  void record(Point &point, CUstream stream);
  void wait(const Point &point, CUstream stream);
  void enter(Queue &queue);
  template <typename Work>
  void collective(Queue &queue, Activity activity, size_t unit, Work work);
  void note(CollectiveKind kind, const Queue &queue, int64_t unit);
  void gatherSections(size_t unit);
  void reduceUnit(size_t unit);
  void abort();
  std::string asyncError();

  Context &context;
  Control &control;
  Exchange &exchange;
  Queue gathers, reductions;
  NcclAllocator memory;
  std::vector<UnitPoints> points; // [unit]
  Point begun;                    // of the function, on the compute stream
  Point numbersReady, numbersThere;
  uint64_t function = 0; // counts them
  // Collectives that have run: NCCL connects the ranks in the first run, which
  // must not be a captured one.
  std::set<std::pair<Activity, size_t>> connected;
  Watchdog watchdog;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_COLLECTIVES_H
