// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives between the processes of one machine over shared memory: what
// generated code starts and waits for. The issuing thread counts; the
// communication thread waits for the other ranks and moves the bytes.
// docs/runtime.md describes the protocol.

#ifndef SHARDONNX_RUNTIME_COMMUNICATOR_H
#define SHARDONNX_RUNTIME_COMMUNICATOR_H

#include "../comm/Control.h"
#include "../core/Trace.h"
#include "CommThread.h"
#include "State.h"
#include <memory>
#include <vector>

namespace shardonnx::rt {

class Communicator {
public:
  Communicator(State &state, Control &control, Trace *trace);

  void gatherStart(size_t unit);
  void gatherWait(size_t unit);
  void gatherFree(size_t unit);
  void gradAcquire(size_t unit);
  void reduceStart(size_t unit, bool accumulate);
  void reduceWait(size_t unit);

  // Around the optimizer's write of a unit's masters.
  void updateBegin(size_t unit);
  void updateEnd(size_t unit);

  // The sum over ranks, in their order, of what each gives. Every rank calls
  // these once per step and gets the same bits.
  double sumNorms(double mine);
  struct LossSum {
    double loss = 0, count = 0;
  };
  LossSum sumLosses(LossSum mine);

private:
  // How often this rank has started each, in program order, which is the
  // order of every rank.
  struct Counts {
    uint64_t gathers = 0, reductions = 0, updates = 0;
  };
  // Another unit whose buffer lies on the same bytes, and how many of its
  // uses came before.
  struct Use {
    size_t unit;
    uint64_t count;
  };
  template <typename Value>
  bool everyRank(bool sharded, size_t unit, Counter UnitCounters::*counter,
                 Value value) const;
  bool slicesAreMine(size_t unit) const { return !units[unit].unit->sharded; }
  std::vector<Use> usesBefore(const std::vector<size_t> &overlapping,
                              uint64_t Counts::*count) const;
  template <typename Ready>
  void wait(Activity activity, const char *name, int64_t unit, Ready ready);
  void writeSlice(size_t unit, uint64_t gather);
  void poisonSlice(size_t unit, uint64_t gather);
  void sumSlice(size_t unit, uint64_t reduction, bool accumulate);

  State &state;
  Control &control;
  Trace *trace; // null: none
  std::vector<UnitState> &units;
  std::vector<Counts> counts;
  // [unit] the units, itself among them, whose gather or gradient buffer
  // shares bytes with its own.
  std::vector<std::vector<size_t>> gatherOverlaps, gradOverlaps;
  uint64_t normTurn = 0, lossTurn = 0;
  // Last, so that it ends first.
  std::unique_ptr<CommThread> thread;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_COMMUNICATOR_H
