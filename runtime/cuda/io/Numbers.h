// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The few numbers that go between host and device each step: scalars to it,
// loss and gradient norm from it. The host reads a step's numbers while the
// device works on the next one.

#ifndef SHARDONNX_RUNTIME_CUDA_NUMBERS_H
#define SHARDONNX_RUNTIME_CUDA_NUMBERS_H

#include "../../core/Engine.h"
#include "../driver/Memory.h"
#include "../launch/Context.h"
#include <vector>

namespace shardonnx::rt::cuda {

/// Where the cells lie in one block: what goes to the host is in one piece.
class Numbers {
public:
  /// `partials`: how many sums of squares there may be; `steps`: of weights,
  /// behind the scalars.
  Numbers(const Topology &topology, int64_t partials, int64_t steps = 0);
  static int64_t bytes(int ranks, int64_t partials, int64_t steps);

  /// `keepsScalars`: the optimizers have a copy of the scalars.
  Cells cells(bool keepsScalars = false) const;

  /// Steps whose results may be outstanding when a new one begins.
  static constexpr int kAhead = 1;

  /// Sends the scalars and clears the loss; the step begins.
  void beginStep(CUstream compute, const Scalars &scalars);
  /// The update begins: its time is told with the step's result.
  void beginUpdate(CUstream compute);
  /// The step's numbers are in their cells.
  void endStep(CUstream compute);
  /// Something else than steps took the device's time.
  void interrupt() { continuous = false; }
  bool outstanding() const { return taken < ended; }
  /// Of the oldest outstanding step; nothing when !wait and it is not done. An
  /// error where an index of the step was outside of its axis.
  std::optional<StepResult> take(bool wait, const std::string &waiting);

  /// For evaluations: waits, and returns the sums over ranks.
  void clearLoss(CUstream compute);
  void setCount(CUstream compute, double count);
  Engine::Evaluation readLosses(CUstream compute, const std::string &waiting);

private:
  struct Slot {
    Event begin{Event::Timing}, update{Event::Timing}, end{Event::Timing};
    bool timesUpdate = false;
    bool continuous = false; // its time counts from the last step's end
  };
  Slot &slot(int64_t step) {
    return slots[static_cast<size_t>(step) % slots.size()];
  }
  double *report(size_t index) const; // in pinned memory
  float *scalars(size_t index) const;
  /// Of every `stride`-th rank: those between see the same samples.
  double sumOfLosses(const double *report, int which, int stride) const;
  void requireInside(const double *report) const;

  const Topology topology;
  const int ranks;
  const int64_t stepDoubles;
  DeviceMemory device;
  PinnedMemory pinned;
  std::vector<Slot> slots;
  int64_t begun = 0, ended = 0, taken = 0; // steps
  bool continuous = false;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_NUMBERS_H
