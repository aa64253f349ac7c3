// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Collectives.h. Which collectives a run has is chosen at the end.

#include "Collectives.h"
#include "../core/Error.h"
#include "Engine.h"
#include "Kernels.h"
#include "SingleRank.h"
#include <chrono>
#include <cstring>
#include <future>
#include <thread>

namespace shardonnx::rt::cuda {
namespace {

bool overlap(const Interval &a, const Interval &b) {
  return a.begin < b.end && b.begin < a.end;
}

void copy(void *to, const void *from, int64_t bytes, CUstream stream) {
  if (bytes > 0)
    check(driver().cuMemcpyDtoDAsync(deviceAddress(to), deviceAddress(from),
                                     static_cast<size_t>(bytes), stream),
          "copying a slice");
}

} // namespace

NcclCollectives::NcclCollectives(Context &context, const Manifest &manifest,
                                 Control &control, Exchange &exchange,
                                 int ranksPerGpu)
    : context(context), control(control), exchange(exchange),
      gathers(control, exchange, *context.device, "gather", 0, ranksPerGpu),
      reductions(control, exchange, *context.device, "reduce", 1, ranksPerGpu),
      memory(exchange, {gathers.communicator, reductions.communicator}),
      points(manifest.units.size()), watchdog(control, manifest.units.size(),
                                              [this] { return asyncError(); }) {
  control.setBeforeExit([this] { abort(); });
}

NcclCollectives::~NcclCollectives() { control.setBeforeExit({}); }

// ---- Points

void NcclCollectives::record(Point &point, CUstream stream) {
  if (context.preparing())
    return;
  point.event.record(stream);
  point.function = function;
}

void NcclCollectives::wait(const Point &point, CUstream stream) {
  if (!context.preparing() && point.function == function)
    point.event.wait(stream);
}

void NcclCollectives::announce(const char *function) {
  watchdog.expect(function, context.step);
}

void NcclCollectives::launched() { watchdog.mark(context.compute); }

void NcclCollectives::beginFunction() {
  ++function;
  record(begun, context.compute);
}

// The queue's first work in a function comes after what was before it.
void NcclCollectives::enter(Queue &queue) {
  if (queue.function == function)
    return;
  queue.function = function;
  wait(begun, queue.stream);
}

void NcclCollectives::endFunction() {
  for (Queue *queue : {&gathers, &reductions})
    if (queue->function == function) {
      record(queue->end, queue->stream);
      wait(queue->end, context.compute);
    }
}

// Where `work` calls NCCL. When preparing, it runs once, at once.
template <typename Work>
void NcclCollectives::collective(Queue &queue, Activity activity, size_t unit,
                                 Work work) {
  Watchdog::Station station = watchdog.station(activity, unit);
  if (context.preparing() && !connected.insert({activity, unit}).second)
    return;
  watchdog.begin(queue.stream, queue.index, station);
  work();
  watchdog.end(queue.stream, queue.index);
  if (context.preparing())
    queue.stream.synchronize("running a collective for the first time");
}

// For the trace: one kernel of NCCL.
void NcclCollectives::note(CollectiveKind kind, const Queue &queue,
                           int64_t unit) {
  if (context.issued && !context.preparing())
    context.issued->push_back(
        {kind, &queue == &gathers ? TraceRow::Gather : TraceRow::Reduce,
         static_cast<int32_t>(unit)});
}

// ---- All-gather

void NcclCollectives::gatherStart(size_t unit) {
  const UnitState &u = context.state->units[unit];
  ShxDType dtype = u.unit->paramType;
  int64_t element = dtypeBytes(dtype);
  enter(gathers);
  for (size_t other = 0; other < points.size(); ++other)
    if (overlap(u.gatherBytes, context.state->units[other].gatherBytes))
      wait(points[other].freed, gathers.stream);
  wait(points[unit].updated, gathers.stream);
  castSlice(context, gathers.stream, u.master, dtype,
            u.gathered + u.owned.begin * element, u.owned.size());
  if (u.unit->sharded)
    gatherSections(unit);
  else if (!context.preparing())
    copy(u.gathered + u.unit->frozenOffsetBytes, u.frozen,
         u.unit->frozenLength * element, gathers.stream);
  record(points[unit].gathered, gathers.stream);
}

// The two sections in one grouped call; but the padding of the first may lie
// on the second, which then is gathered after it.
void NcclCollectives::gatherSections(size_t unit) {
  const UnitState &u = context.state->units[unit];
  ShxDType dtype = u.unit->paramType;
  int64_t element = dtypeBytes(dtype);
  uint8_t *frozen = u.gathered + u.unit->frozenOffsetBytes;
  bool both = u.slice > 0 && u.frozenSlice > 0;
  bool apart = both && u.slice * context.ranks > u.unit->length;
  auto copyFrozen = [&] {
    if (!context.preparing())
      copy(frozen + u.frozenOwned.begin * element, u.frozen,
           u.frozenOwned.size() * element, gathers.stream);
  };
  auto gather = [&](uint8_t *section, int64_t slice) {
    if (slice > 0)
      check(nccl().ncclAllGather(section + context.rank * slice * element,
                                 section, static_cast<size_t>(slice),
                                 ncclType(dtype), gathers.communicator,
                                 gathers.stream),
            "gathering unit '", u.unit->name, "'");
  };
  if (!apart)
    copyFrozen();
  collective(gathers, Activity::Gather, unit, [&] {
    if (!apart)
      check(nccl().ncclGroupStart(), "grouping two gathers");
    gather(u.gathered, u.slice);
    if (apart)
      copyFrozen();
    gather(frozen, u.frozenSlice);
    if (!apart)
      check(nccl().ncclGroupEnd(), "gathering unit '", u.unit->name, "'");
  });
  for (int kernels = apart ? 2 : (u.slice > 0 || u.frozenSlice > 0);
       kernels > 0; --kernels)
    note(CollectiveKind::AllGather, gathers, static_cast<int64_t>(unit));
}

void NcclCollectives::gatherWait(size_t unit) {
  wait(points[unit].gathered, context.compute);
}

void NcclCollectives::gatherFree(size_t unit) {
  record(points[unit].freed, context.compute);
}

void NcclCollectives::updated(size_t unit) {
  record(points[unit].updated, context.compute);
}

// ---- Reduce-scatter

void NcclCollectives::gradAcquire(size_t unit) {
  const State &state = *context.state;
  for (size_t other = 0; other < points.size(); ++other)
    if (overlap(state.units[unit].gradientBytes,
                state.units[other].gradientBytes))
      wait(points[other].reduced, context.compute);
}

void NcclCollectives::reduceStart(size_t unit, bool accumulate) {
  const UnitState &u = context.state->units[unit];
  ShxDType dtype = u.unit->reduceType;
  record(points[unit].ready, context.compute);
  enter(reductions);
  wait(points[unit].ready, reductions.stream);
  if (u.unit->length > 0)
    collective(reductions, Activity::Reduce, unit, [&] { reduceUnit(unit); });
  accumulateSlice(context, reductions.stream, dtype,
                  u.gradients + u.owned.begin * dtypeBytes(dtype), u.reduced,
                  u.owned.size(), accumulate);
  record(points[unit].reduced, reductions.stream);
}

void NcclCollectives::reduceUnit(size_t unit) {
  const UnitState &u = context.state->units[unit];
  ShxDType dtype = u.unit->reduceType;
  uint8_t *mine = u.gradients + context.rank * u.slice * dtypeBytes(dtype);
  check(u.unit->sharded
            ? nccl().ncclReduceScatter(
                  u.gradients, mine, static_cast<size_t>(u.slice),
                  ncclType(dtype), ncclSum, reductions.communicator,
                  reductions.stream)
            : nccl().ncclAllReduce(u.gradients, u.gradients,
                                   static_cast<size_t>(u.unit->length),
                                   ncclType(dtype), ncclSum,
                                   reductions.communicator, reductions.stream),
        "reducing the gradients of unit '", u.unit->name, "'");
  note(u.unit->sharded ? CollectiveKind::ReduceScatter
                       : CollectiveKind::AllReduce,
       reductions, static_cast<int64_t>(unit));
}

void NcclCollectives::reduceWait(size_t unit) {
  wait(points[unit].reduced, context.compute);
}

// ---- Numbers and bytes

void NcclCollectives::allGather(const double *mine, double *all, size_t count) {
  record(numbersReady, context.compute);
  enter(reductions);
  wait(numbersReady, reductions.stream);
  // The norm is one number, a loss comes with its count.
  Activity activity = count == 1 ? Activity::Norm : Activity::Loss;
  collective(reductions, activity, 0, [&] {
    check(nccl().ncclAllGather(mine, all, count, ncclFloat64,
                               reductions.communicator, reductions.stream),
          "gathering numbers");
  });
  note(CollectiveKind::AllGather, reductions, -1);
  record(numbersThere, reductions.stream);
  wait(numbersThere, context.compute);
}

void NcclCollectives::broadcast(void *data, size_t bytes) {
  std::string chosen =
      exchange.broadcast(std::string(static_cast<char *>(data), bytes));
  if (chosen.size() != bytes)
    fail("rank 0 chose for other calls than this rank has");
  std::memcpy(data, chosen.data(), bytes);
}

// ---- Failures

std::string NcclCollectives::asyncError() {
  for (Queue *queue : {&gathers, &reductions}) {
    ncclResult_t error = ncclSuccess;
    nccl().ncclCommGetAsyncError(queue->communicator, &error);
    if (error != ncclSuccess && error != ncclInProgress)
      return concat("the ", queue->communicator.queue(),
                    " queue: ", describe(error, queue->communicator));
  }
  return "";
}

// The GPU may be in a collective that never ends: it is told to, but not
// waited for long.
void NcclCollectives::abort() {
  constexpr std::chrono::seconds kPatience(3);
  auto aborted = std::make_shared<std::promise<void>>();
  std::future<void> end = aborted->get_future();
  std::thread([this, aborted] {
    nccl().ncclCommAbort(gathers.communicator);
    nccl().ncclCommAbort(reductions.communicator);
    aborted->set_value();
  }).detach();
  end.wait_for(kPatience);
}

std::unique_ptr<Collectives> makeCollectives(Context &context,
                                             const EngineSetup &setup) {
  if (setup.info.worldSize == 1)
    return std::make_unique<SingleRank>(context);
  int version = nccl().version;
  std::string mine(reinterpret_cast<const char *>(&version), sizeof(version));
  std::vector<int> versions;
  std::vector<std::string> uuids;
  for (const std::string &word :
       setup.exchange.allGather(mine + context.device->uuid())) {
    std::memcpy(&versions.emplace_back(), word.data(), sizeof(version));
    uuids.push_back(word.substr(sizeof(version)));
  }
  return std::make_unique<NcclCollectives>(context, setup.manifest,
                                           setup.control, setup.exchange,
                                           checkNccl(versions, uuids));
}

} // namespace shardonnx::rt::cuda
