// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives, between the processes of one machine over shared memory: what
// generated code starts and waits for. The issuing thread counts; the
// communication thread waits for the other ranks and moves the bytes.
// docs/runtime.md describes the protocol.

#ifndef SHARDONNX_RUNTIME_COMMUNICATOR_H
#define SHARDONNX_RUNTIME_COMMUNICATOR_H

#include "../comm/Control.h"
#include "../core/Trace.h"
#include "CommThread.h"
#include "Network.h"
#include "State.h"
#include <memory>
#include <vector>

namespace shardonnx::rt {

class Communicator {
public:
  /// What reaches the other machines; `network` is null where there are none.
  struct Machines {
    Exchange &exchange;
    const Routes &routes;
    Network *network;
  };
  Communicator(State &state, Control &control, Trace *trace,
               const Machines &machines);

  void gatherStart(size_t unit);
  void gatherWait(size_t unit);
  void gatherFree(size_t unit);
  void gradAcquire(size_t unit);
  void reduceStart(size_t unit, bool accumulate);
  void reduceWait(size_t unit);

  /// Units that stay gathered between the updates: the first gather, once all
  /// masters are in place.
  void gatherKept();
  /// The microbatch that begins is the step's first or last one.
  void beginMicrobatch(bool first, bool last);

  /// Around the optimizer's write of a unit's masters.
  void updateBegin(size_t unit);
  void updateEnd(size_t unit);

  /// Of a unit's matrices (--optimizer=muon). Waits until nobody reads what
  /// was in the place of its directions; this rank's slice of them is written;
  /// all that it owns of them is orthogonal.
  void awaitDirections(size_t unit);
  void publishDirections(size_t unit);
  void publishOrthogonal(size_t unit);
  /// Whether all ranks' are; the issuing thread waits for one or the other.
  bool areDirectionsWritten(size_t unit) const;
  bool areOrthogonal(size_t unit) const;
  template <typename Ready> void awaitMatrices(size_t unit, Ready ready) {
    wait(Activity::Optimizer, "matrices", static_cast<int64_t>(unit), ready);
  }

  /// The sum over ranks, in their order, of what each gives. Every rank calls
  /// these once per step and gets the same bits.
  double sumNorms(double mine);
  struct LossSum {
    double loss = 0, count = 0;
  };
  LossSum sumLosses(LossSum mine);

private:
  /// How often this rank has started each, in program order, which is the
  /// order of every rank.
  struct Counts {
    uint64_t gathers = 0, reductions = 0, replicaSums = 0, updates = 0;
    uint64_t directions = 0;
    /// Numbers of the last gather and reduction in the flight recorder.
    uint64_t gather = 0, reduction = 0;
  };
  /// Every `step`-th rank of [begin, end).
  struct Ranks {
    int begin, end, step;
  };
  /// Another unit whose buffer lies on the same bytes, and how many of its
  /// uses came before.
  struct Use {
    size_t unit;
    uint64_t count;
  };
  bool every(const Ranks &ranks, size_t unit, Counter UnitCounters::*counter,
             uint64_t value) const;
  /// Of the issuing thread, for the trace too.
  template <typename Ready>
  void wait(Activity activity, const char *name, int64_t unit, Ready ready) {
    TraceSpan span(trace, TraceRow::Waiting, name, unit);
    control.wait(activity, unit < 0 ? 0 : static_cast<size_t>(unit),
                 /*spin=*/true, ready);
  }
  bool sharded(size_t unit) const { return units[unit].unit->sharded; }
  /// Who shares the gathered unit, and whose gradients of it are added up.
  static Ranks groupOf(const State &state);
  const Ranks &readers(size_t unit) const {
    return sharded(unit) ? group : self;
  }
  const Ranks &summands(size_t unit) const {
    return sharded(unit) ? group : all;
  }
  std::vector<Use> usesBefore(const std::vector<size_t> &overlapping,
                              uint64_t Counts::*count) const;
  void writeSection(uint8_t *to, const uint8_t *from, int64_t bytes);
  void writeSlice(size_t unit, uint64_t gather);
  void poisonSlice(size_t unit, uint64_t gather);
  void sumSlice(size_t unit, uint64_t reduction, bool accumulate, bool last);
  static void sumCounted(UnitState &u, bool accumulate, bool parallel);
  static void squareCounted(UnitState &u, bool parallel);
  bool travels(size_t unit) const;
  const Route &routeOf(size_t unit) const {
    return sharded(unit) ? routes.group : routes.all;
  }
  Interval partOf(size_t unit, bool trainable, size_t member) const;
  void sendSlices(size_t unit, uint64_t gather);
  bool sendsImages(size_t unit) const {
    return units[unit].unit->gatherType != GatherDtype::Param;
  }
  void planImages();
  void sendImages(size_t unit, uint64_t gather);
  void sumOverMachines(size_t unit, uint64_t reduction, bool accumulate,
                       bool last);
  void sumOverReplicas(size_t unit, uint64_t sum);
  /// What each rank gives, by rank, where there are several machines.
  std::vector<LossSum> fromMachines(const LossSum &mine, Activity activity);
  void startReplicaSum(size_t unit);
  void sumReplicaPart(size_t unit, uint64_t sum);
  void copyReplicaParts(size_t unit, uint64_t sum);
  class Recorded;

  State &state;
  Control &control;
  Trace *trace; // null: none
  Exchange &exchange;
  const Routes &routes;
  Network *network; // null: one machine
  std::vector<UnitState> &units;
  /// This rank, its replica, the ranks at its place in each replica, all.
  const Ranks self, group, column, all;
  /// The ranks of its tensor axis, and all of its replica.
  const Ranks alike, replica;
  bool firstMicrobatch = true, lastMicrobatch = true;
  std::vector<Counts> counts;
  /// [unit] the units, itself among them, whose gather or gradient buffer
  /// shares bytes with its own.
  std::vector<std::vector<size_t>> gatherOverlaps, gradOverlaps;
  /// Slices on their way between machines, as --gather-dtype sends them:
  /// which one of the memory's equal parts a member's is in.
  struct Images {
    std::vector<size_t> places; // [member of the group]
    size_t step = 0;            // bytes of a part
    std::vector<uint8_t> memory;
  };
  Images images;
  uint64_t normTurn = 0, lossTurn = 0;
  /// Last, so that it ends first.
  std::unique_ptr<CommThread> thread;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_COMMUNICATOR_H
