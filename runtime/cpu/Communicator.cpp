// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The protocol. A counter is written by its own rank alone and only grows; a
// wait compares the others' counters with this rank's own count of the same
// event, which is right because all ranks issue the same events in one order.

#include "Communicator.h"
#include "ReduceKernels.h"
#include <cstring>
#include <utility>

namespace shardonnx::rt {
namespace {

constexpr auto kAcquire = std::memory_order_acquire;

// For each unit, the units whose interval of the space shares bytes with it.
template <typename Begin, typename Bytes>
std::vector<std::vector<size_t>> overlaps(const std::vector<UnitState> &units,
                                          Begin begin, Bytes bytes) {
  std::vector<std::vector<size_t>> result(units.size());
  for (size_t a = 0; a < units.size(); ++a)
    for (size_t b = 0; b < units.size(); ++b)
      if (a == b ||
          (begin(a) < begin(b) + bytes(b) && begin(b) < begin(a) + bytes(a)))
        result[a].push_back(b);
  return result;
}

} // namespace

Communicator::Communicator(State &state, Control &control, Trace *trace,
                           const Machines &machines)
    : state(state), control(control), trace(trace), exchange(machines.exchange),
      routes(machines.routes), network(machines.network), units(state.units),
      self{state.rank, state.rank + 1, 1}, group(groupOf(state)),
      column{state.topology.rankAt(0, state.topology.groupRank(state.rank),
                                   state.rank),
             state.topology.ranks,
             state.topology.groupSize() * state.topology.tensor},
      all{state.topology.tensorRank(state.rank), state.topology.ranks,
          state.topology.tensor},
      alike{state.rank - state.topology.tensorRank(state.rank),
            state.rank - state.topology.tensorRank(state.rank) +
                state.topology.tensor,
            1},
      replica{group.begin - group.begin % state.topology.tensor,
              group.begin - group.begin % state.topology.tensor +
                  state.topology.groupSize() * state.topology.tensor,
              1},
      counts(state.units.size()) {
  auto paramBegin = [&](size_t u) { return units[u].unit->paramOffsetBytes; };
  auto paramBytes = [&](size_t u) {
    return units[u].inPlace ? 0 : units[u].unit->gatheredBytes();
  };
  auto gradBegin = [&](size_t u) { return units[u].unit->gradOffsetBytes; };
  auto gradBytes = [&](size_t u) { return units[u].unit->gradientBytes(); };
  gatherOverlaps = overlaps(units, paramBegin, paramBytes);
  gradOverlaps = overlaps(units, gradBegin, gradBytes);
  if (network && routes.group.leavesMachine())
    planImages();
  // A single rank waits for nobody: its copies are made where they are asked
  // for, and no thread takes a core from the pool.
  if (control.ranks() > 1)
    thread = std::make_unique<CommThread>(control, network != nullptr);
}

Communicator::Ranks Communicator::groupOf(const State &state) {
  const Topology &mesh = state.topology;
  int begin = mesh.rankAt(mesh.replica(state.rank), 0, state.rank);
  return {begin, begin + mesh.groupSize() * mesh.tensor, mesh.tensor};
}

bool Communicator::every(const Ranks &ranks, size_t unit,
                         Counter UnitCounters::*counter, uint64_t value) const {
  for (int r = ranks.begin; r < ranks.end; r += ranks.step)
    if (routes.isLocal[static_cast<size_t>(r)] &&
        (control.unit(r, unit).*counter).load(kAcquire) < value)
      return false;
  return true;
}

std::vector<Communicator::Use>
Communicator::usesBefore(const std::vector<size_t> &overlapping,
                         uint64_t Counts::*count) const {
  std::vector<Use> uses;
  for (size_t unit : overlapping)
    if (uint64_t n = counts[unit].*count)
      uses.push_back({unit, n});
  return uses;
}

// ---- All-gather

void Communicator::gatherStart(size_t unit) {
  std::vector<Use> uses = usesBefore(gatherOverlaps[unit], &Counts::gathers);
  uint64_t gather = ++counts[unit].gathers;
  uint64_t number = counts[unit].gather =
      control.issue(Activity::Gather, unit, units[unit].unit->gatheredBytes());
  if (units[unit].inPlace)
    return; // the update has written it
  auto ready = [this, uses = std::move(uses)] {
    for (const Use &use : uses)
      if (!every(readers(use.unit), use.unit, &UnitCounters::freed, use.count))
        return false;
    return true;
  };
  auto run = [this, unit, gather, number] {
    control.recorder.begin(number);
    writeSlice(unit, gather);
  };
  if (thread)
    thread->push(Queue::Gather, {std::move(ready), std::move(run)});
  else
    run();
}

// Of an offloaded slice, a part is copied while the next is read.
void Communicator::writeSection(uint8_t *to, const uint8_t *from,
                                int64_t bytes) {
  const OffloadFile &file = state.offloaded();
  int64_t step = file.holds(from) ? kFilePartBytes : bytes;
  for (int64_t begin = 0; begin < bytes; begin += step) {
    int64_t left = bytes - begin, count = std::min(step, left);
    file.prefetch(from + begin + count, std::min(step, left - count));
    copySlice(to + begin, from + begin, count, /*parallel=*/!thread);
    file.evict(from + begin, count);
  }
}

void Communicator::writeSlice(size_t unit, uint64_t gather) {
  UnitState &u = units[unit];
  TraceSpan span(trace, TraceRow::Gather, u.unit->name.c_str(),
                 static_cast<int64_t>(unit));
  int64_t element = dtypeBytes(u.unit->paramType);
  const uint8_t *from = u.params ? u.params : u.master;
  writeSection(u.gathered + u.owned.begin * element, from,
               u.owned.size() * element);
  writeSection(u.gathered + u.unit->frozenOffsetBytes +
                   u.frozenOwned.begin * element,
               u.frozen, u.frozenOwned.size() * element);
  if (sharded(unit) && travels(unit))
    sendSlices(unit, gather);
  control.publish(control.mine(unit).published, gather);
}

void Communicator::gatherWait(size_t unit) {
  uint64_t target =
      units[unit].inPlace ? counts[unit].updates : counts[unit].gathers;
  if (units[unit].inPlace)
    control.recorder.begin(counts[unit].gather);
  wait(Activity::Gather, "gather", static_cast<int64_t>(unit), [&] {
    return every(readers(unit), unit, &UnitCounters::published, target);
  });
  control.recorder.end(counts[unit].gather);
}

void Communicator::gatherFree(size_t unit) {
  uint64_t gather = counts[unit].gathers;
  control.publish(control.mine(unit).released, gather);
  if (!state.debug || units[unit].inPlace) {
    control.publish(control.mine(unit).freed, gather);
    return;
  }
  auto ready = [this, unit, gather] {
    return every(readers(unit), unit, &UnitCounters::released, gather);
  };
  auto run = [this, unit, gather] { poisonSlice(unit, gather); };
  if (thread)
    thread->push(Queue::Gather, {ready, run});
  else
    run();
}

void Communicator::poisonSlice(size_t unit, uint64_t gather) {
  UnitState &u = units[unit];
  int64_t element = dtypeBytes(u.unit->paramType);
  poison(u.gathered + u.owned.begin * element, u.owned.size() * element);
  poison(u.gathered + u.unit->frozenOffsetBytes + u.frozenOwned.begin * element,
         u.frozenOwned.size() * element);
  control.publish(control.mine(unit).freed, gather);
}

// ---- Reduce-scatter

void Communicator::gradAcquire(size_t unit) {
  std::vector<Use> uses = usesBefore(gradOverlaps[unit], &Counts::reductions);
  wait(Activity::GradientBuffer, "gradient buffer", static_cast<int64_t>(unit),
       [&] {
         for (const Use &use : uses)
           if (!every(summands(use.unit), use.unit, &UnitCounters::gradsDone,
                      use.count))
             return false;
         return true;
       });
  // Later microbatches add to what the first one wrote.
  if (state.debug && (firstMicrobatch || !state.manifest.unshardedAccumulation))
    poison(state.gradPointers[unit], units[unit].unit->gradientBytes());
}

void Communicator::reduceStart(size_t unit, bool accumulate) {
  if (state.manifest.unshardedAccumulation) {
    if (!lastMicrobatch)
      return;
    accumulate = false; // the gradient buffer has them all
  }
  uint64_t reduction = ++counts[unit].reductions;
  uint64_t number = counts[unit].reduction =
      control.issue(Activity::Reduce, unit, units[unit].unit->gradientBytes());
  control.publish(control.mine(unit).gradsReady, reduction);
  // The last sum must have been read before the next one is written: a
  // replicated unit's by every rank's optimizer, a slice by its replicas.
  uint64_t updates = sharded(unit) ? 0 : counts[unit].updates;
  uint64_t sums = counts[unit].replicaSums;
  auto ready = [this, unit, reduction, updates, sums] {
    return every(summands(unit), unit, &UnitCounters::gradsReady, reduction) &&
           every(all, unit, &UnitCounters::updated, updates) &&
           every(column, unit, &UnitCounters::replicaDone, sums);
  };
  auto run = [this, unit, reduction, accumulate, number,
              last = lastMicrobatch] {
    control.recorder.begin(number);
    sumSlice(unit, reduction, accumulate, last);
    control.recorder.end(number);
  };
  if (thread)
    thread->push(Queue::Reduce, {ready, run});
  else
    run();
  if (lastMicrobatch && !units[unit].replicaSums.empty())
    startReplicaSum(unit);
}

void Communicator::sumSlice(size_t unit, uint64_t reduction, bool accumulate,
                            bool last) {
  UnitState &u = units[unit];
  TraceSpan span(trace, TraceRow::Reduce, u.unit->name.c_str(),
                 static_cast<int64_t>(unit));
  if (travels(unit)) {
    sumOverMachines(unit, reduction, accumulate, last);
    control.publish(control.mine(unit).gradsDone, reduction);
    return;
  }
  ShxDType dtype = u.unit->reduceType;
  std::vector<const void *> sources;
  for (uint8_t *gradients : u.gradients)
    sources.push_back(gradients + u.reducePart.begin * dtypeBytes(dtype));
  float *out = u.reduced + (u.reducePart.begin - u.owned.begin);
  if (sources.front() != out && u.replicaSums.empty())
    sumCounted(u, accumulate, /*parallel=*/!thread);
  else if (sources.front() != out)
    sumSlices(out, sources.data(), sources.size(), u.reducePart.size(), dtype,
              accumulate, /*parallel=*/!thread);
  else if (u.replicaSums.empty())
    squareCounted(u, /*parallel=*/!thread);
  control.publish(control.mine(unit).gradsDone, reduction);
}

// Gradients that are their own sum, while backward has left them in a cache.
void Communicator::squareCounted(UnitState &u, bool parallel) {
  u.squares.clear();
  u.forCounted([&](const float *gradients, int64_t count, bool) {
    size_t taken = u.squares.size();
    u.squares.resize(taken + static_cast<size_t>(normChunks(count)));
    squareSums(gradients, count, u.squares.data() + taken, parallel);
  });
}

// What the norm counts is what this rank sums, where nothing is added to it
// afterwards: the last sum of a step leaves its squares behind.
void Communicator::sumCounted(UnitState &u, bool accumulate, bool parallel) {
  ShxDType dtype = u.unit->reduceType;
  std::vector<const void *> sources(u.gradients.size());
  u.squares.clear();
  u.forCounted([&](const float *reduced, int64_t count, bool) {
    int64_t at = reduced - u.reduced;
    for (size_t r = 0; r < sources.size(); ++r)
      sources[r] = u.gradients[r] + (u.owned.begin + at) * dtypeBytes(dtype);
    size_t taken = u.squares.size();
    u.squares.resize(taken + static_cast<size_t>(normChunks(count)));
    sumSlicesAndSquares(u.reduced + at, sources.data(), sources.size(), count,
                        dtype, accumulate, u.squares.data() + taken, parallel);
  });
}

void Communicator::reduceWait(size_t unit) {
  // Of a replicated unit, the others sum the rest of what is read.
  const Ranks &ranks = sharded(unit) ? self : all;
  uint64_t target = counts[unit].reductions;
  wait(Activity::Reduce, "reduction", static_cast<int64_t>(unit),
       [&] { return every(ranks, unit, &UnitCounters::gradsDone, target); });
  uint64_t sums = counts[unit].replicaSums;
  if (sums > 0)
    wait(Activity::Replicas, "replicas", static_cast<int64_t>(unit),
         [&] { return every(self, unit, &UnitCounters::replicaDone, sums); });
}

// ---- All-reduce over the replicas
// In two steps, in place: each replica sums its part of the slice, of which
// nobody else reads the other replicas' summands; then each copies the parts
// that the others have summed.

void Communicator::startReplicaSum(size_t unit) {
  uint64_t reduction = counts[unit].reductions;
  uint64_t sum = ++counts[unit].replicaSums;
  uint64_t number = control.issue(Activity::Replicas, unit,
                                  units[unit].owned.size() *
                                      static_cast<int64_t>(sizeof(float)));
  if (routes.columnLeavesMachine) {
    auto mine = [this, unit, reduction] {
      return every(self, unit, &UnitCounters::gradsDone, reduction);
    };
    thread->push(Queue::ReplicaSum, {mine, [this, unit, sum, number] {
                                       control.recorder.begin(number);
                                       sumOverReplicas(unit, sum);
                                       control.recorder.end(number);
                                     }});
    return;
  }
  auto reduced = [this, unit, reduction] {
    return every(column, unit, &UnitCounters::gradsDone, reduction);
  };
  thread->push(Queue::ReplicaSum, {reduced, [this, unit, sum, number] {
                                     control.recorder.begin(number);
                                     sumReplicaPart(unit, sum);
                                   }});
  auto summed = [this, unit, sum] {
    return every(column, unit, &UnitCounters::replicaSummed, sum);
  };
  thread->push(Queue::ReplicaCopy, {summed, [this, unit, sum, number] {
                                      copyReplicaParts(unit, sum);
                                      control.recorder.end(number);
                                    }});
}

void Communicator::sumReplicaPart(size_t unit, uint64_t sum) {
  UnitState &u = units[unit];
  TraceSpan span(trace, TraceRow::Replicas, u.unit->name.c_str(),
                 static_cast<int64_t>(unit));
  Interval part = state.replicaPart(u, state.topology.replica(state.rank));
  std::vector<const void *> sources;
  for (float *slice : u.replicaSums)
    sources.push_back(slice + part.begin);
  sumSlices(u.reduced + part.begin, sources.data(), sources.size(), part.size(),
            SHX_F32, /*accumulate=*/false);
  control.publish(control.mine(unit).replicaSummed, sum);
}

void Communicator::copyReplicaParts(size_t unit, uint64_t sum) {
  UnitState &u = units[unit];
  TraceSpan span(trace, TraceRow::Replicas, u.unit->name.c_str(),
                 static_cast<int64_t>(unit));
  for (int replica = 0; replica < state.topology.replicas; ++replica) {
    if (replica == state.topology.replica(state.rank))
      continue;
    Interval part = state.replicaPart(u, replica);
    const float *from = u.replicaSums[static_cast<size_t>(replica)];
    std::memcpy(u.reduced + part.begin, from + part.begin,
                static_cast<size_t>(part.size()) * sizeof(float));
  }
  control.publish(control.mine(unit).replicaDone, sum);
}

void Communicator::beginMicrobatch(bool first, bool last) {
  firstMicrobatch = first;
  lastMicrobatch = last;
}

// ---- Update

void Communicator::gatherKept() {
  for (size_t unit = 0; unit < units.size(); ++unit)
    if (units[unit].unit->kept)
      gatherStart(unit);
}

void Communicator::updateBegin(size_t unit) {
  // In place, this is what the other ranks may still be reading.
  if (!units[unit].inPlace || !sharded(unit))
    return;
  uint64_t target = counts[unit].gathers;
  wait(Activity::Optimizer, "last readers", static_cast<int64_t>(unit),
       [&] { return every(group, unit, &UnitCounters::freed, target); });
}

void Communicator::updateEnd(size_t unit) {
  uint64_t update = ++counts[unit].updates;
  UnitCounters &mine = control.mine(unit);
  if (units[unit].inPlace)
    mine.published.store(update, std::memory_order_release);
  control.publish(mine.updated, update);
}

// ---- Muon's matrices
// Each rank writes its slice of their directions, owners replace whole ones,
// and all read their slices of these. A replicated unit's rank has all, and
// writes what it owns. Of matrices that are split over the tensor axis an owner
// joins the parts of the groups of all its ranks.

void Communicator::awaitDirections(size_t unit) {
  size_t before = state.muon.units[unit].before;
  uint64_t target = counts[before].updates;
  awaitMatrices(unit, [&] {
    return every(group, before, &UnitCounters::updated, target);
  });
}

void Communicator::publishDirections(size_t unit) {
  control.publish(control.mine(unit).directions, ++counts[unit].directions);
}

void Communicator::publishOrthogonal(size_t unit) {
  control.publish(control.mine(unit).orthogonal, counts[unit].directions);
}

bool Communicator::areDirectionsWritten(size_t unit) const {
  return every(sharded(unit) ? replica : alike, unit, &UnitCounters::directions,
               counts[unit].directions);
}

bool Communicator::areOrthogonal(size_t unit) const {
  return every(replica, unit, &UnitCounters::orthogonal,
               counts[unit].directions);
}

// ---- Numbers

// A collective from here to its end.
class Communicator::Recorded {
public:
  Recorded(Control &control, Activity activity, int64_t bytes)
      : control(control), number(control.issue(activity, 0, bytes)) {
    control.recorder.begin(number);
  }
  ~Recorded() { control.recorder.end(number); }
  Recorded(const Recorded &) = delete;
  Recorded &operator=(const Recorded &) = delete;

private:
  Control &control;
  const uint64_t number;
};

double Communicator::sumNorms(double mine) {
  Recorded recorded(control, Activity::Norm,
                    static_cast<int64_t>(sizeof(double)) * control.ranks());
  if (network) {
    double sum = 0;
    for (const LossSum &theirs : fromMachines({mine, 0}, Activity::Norm))
      sum += theirs.loss;
    return sum;
  }
  uint64_t turn = ++normTurn;
  RankBlock &block = control.block(control.rank());
  block.norm[turn % 2] = mine;
  control.publish(block.normReady, turn);
  double sum = 0;
  for (int r = 0; r < control.ranks(); ++r) {
    wait(Activity::Norm, "norm", -1,
         [&] { return control.block(r).normReady.load(kAcquire) >= turn; });
    sum += control.block(r).norm[turn % 2];
  }
  return sum;
}

Communicator::LossSum Communicator::sumLosses(LossSum mine) {
  Recorded recorded(control, Activity::Loss,
                    static_cast<int64_t>(sizeof(LossSum)) * control.ranks());
  if (network) {
    LossSum sum;
    for (const LossSum &theirs : fromMachines(mine, Activity::Loss)) {
      sum.loss += theirs.loss;
      sum.count += theirs.count;
    }
    return sum;
  }
  uint64_t turn = ++lossTurn;
  RankBlock &block = control.block(control.rank());
  block.loss[turn % 2] = mine.loss;
  block.lossCount[turn % 2] = mine.count;
  control.publish(block.lossReady, turn);
  LossSum sum;
  for (int r = 0; r < control.ranks(); ++r) {
    wait(Activity::Loss, "loss", -1,
         [&] { return control.block(r).lossReady.load(kAcquire) >= turn; });
    sum.loss += control.block(r).loss[turn % 2];
    sum.count += control.block(r).lossCount[turn % 2];
  }
  return sum;
}

} // namespace shardonnx::rt
