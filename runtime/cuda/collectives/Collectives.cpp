// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Collectives.h. Which collectives a run has is chosen at the end.

#include "Collectives.h"
#include "../../support/Error.h"
#include "../launch/Launch.h"
#include "../state/Slices.h"
#include "SingleRank.h"
#include "shardonnx/runtime/GatherCodes.h"
#include <chrono>
#include <cstring>
#include <future>
#include <thread>

namespace shardonnx::rt::cuda {
namespace {

bool overlap(const Interval &a, const Interval &b) {
  return a.begin < b.end && b.begin < a.end;
}

} // namespace

NcclCollectives::NcclCollectives(Context &context, const Manifest &manifest,
                                 const Topology &topology, Control &control,
                                 Exchange &exchange, int ranksPerGpu)
    : context(context), control(control), exchange(exchange),
      communicators(manifest, topology,
                    {control, exchange, *context.device, ranksPerGpu}),
      gathers(0, TraceRow::Gather), reductions(1, TraceRow::Reduce),
      memory(exchange, communicators.touchingUnits()),
      points(manifest.units.size()),
      watchdog(control, [this] { return asyncError(); }) {
  if (topology.replicas > 1)
    replicas.emplace(2, TraceRow::Replicas);
  if (topology.together() > 1)
    axes.emplace(3, TraceRow::Reduce);
  control.setBeforeExit(this, [this] { abort(); });
}

NcclCollectives::~NcclCollectives() { control.setBeforeExit(this, {}); }

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
  watchdog.beginFunction(function, context.step);
}

void NcclCollectives::launched() { watchdog.endFunction(context.compute); }

void NcclCollectives::beginFunction() {
  ++function;
  for (UnitPoints &unit : points)
    unit.resharded = false;
  started = awaited = 0;
  record(begun, context.compute);
}

// The queue's first work in a function comes after what was before it.
void NcclCollectives::joinFunction(Queue &queue) {
  if (queue.function == function)
    return;
  queue.function = function;
  wait(begun, queue.stream);
}

std::vector<NcclCollectives::Queue *> NcclCollectives::allQueues() {
  std::vector<Queue *> list = {&gathers, &reductions};
  for (std::optional<Queue> *one : {&replicas, &axes})
    if (*one)
      list.push_back(&**one);
  return list;
}

std::vector<std::pair<CUstream, TraceRow>> NcclCollectives::queues() const {
  std::vector<std::pair<CUstream, TraceRow>> list = {
      {gathers.stream, gathers.row}, {reductions.stream, reductions.row}};
  for (const std::optional<Queue> *one : {&replicas, &axes})
    if (*one)
      list.emplace_back((*one)->stream, (*one)->row);
  return list;
}

void NcclCollectives::endFunction() {
  for (Queue *queue : allQueues())
    if (queue->function == function) {
      record(queue->end, queue->stream);
      wait(queue->end, context.compute);
    }
}

// Where `work` calls NCCL. When preparing, it runs once, at once.
template <typename Work>
void NcclCollectives::collective(Queue &queue,
                                 const NcclCommunicator &communicator,
                                 Activity activity, size_t unit, int64_t bytes,
                                 Work work) {
  Watchdog::Station station =
      watchdog.station(activity, unit, queue.index, bytes);
  if (context.preparing() &&
      !connected.insert({communicator, activity, unit}).second)
    return;
  watchdog.begin(queue.stream, queue.index, station);
  work();
  watchdog.end(queue.stream, queue.index);
  if (context.preparing())
    check(driver().cuStreamSynchronize(queue.stream),
          "running a collective for the first time");
}

// For the trace: one kernel of NCCL.
void NcclCollectives::note(CollectiveKind kind, const Queue &queue,
                           int64_t unit) {
  if (context.issued && !context.preparing())
    context.issued->push_back({kind, queue.row, static_cast<int32_t>(unit)});
}

// ---- All-gather

void NcclCollectives::gatherStart(size_t unit) {
  const UnitState &u = context.state->units[unit];
  if (u.inPlace)
    return;
  joinFunction(gathers);
  for (size_t other = 0; other < points.size(); ++other)
    if (overlap(u.gatherBytes, context.state->units[other].gatherBytes))
      wait(points[other].freed, gathers.stream);
  wait(points[unit].updated, gathers.stream);
  int64_t element = dtypeBytes(u.unit->paramType);
  uint8_t *frozen = u.gathered + u.unit->frozenOffsetBytes;
  CUstream stream = gathers.stream;
  auto copied = [&](uint8_t *to, const uint8_t *from, const Interval &part) {
    copyBytes(context, stream, to + part.begin * element, from,
              part.size() * element);
  };
  if (std::exchange(points[unit].resharded, false))
    gather(unit, communicators.regather(u.group),
           {u.gathered, u.groupSlice, nullptr,
            [&] { copied(u.gathered, u.resharded, u.groupOwned); }},
           {frozen, u.groupFrozenSlice, nullptr,
            [&] { copied(frozen, u.reshardedFrozen, u.groupFrozenOwned); }});
  else if (context.state->offload == Offload::Params)
    gather(unit, u.unit->sharded ? communicators.gather() : nullptr,
           {u.gathered, u.slice, nullptr,
            [&] {
              bringOwned(context, stream, u,
                         u.gathered + u.owned.begin * element);
            }},
           {frozen, u.frozenSlice, nullptr, [&] {
              bringFrozen(context, stream, u,
                          frozen + u.frozenOwned.begin * element);
            }});
  else
    gather(unit, communicators.gather(), {u.gathered, u.slice, u.sent(), [] {}},
           {frozen, u.frozenSlice, u.frozen, [] {}});
  record(points[unit].gathered, gathers.stream);
}

void NcclCollectives::allGather(const NcclCommunicator &communicator,
                                const UnitState &u, const Section &section) {
  if (section.slice == 0)
    return;
  check(nccl().ncclAllGather(section.sent, section.begin,
                             static_cast<size_t>(section.slice), section.type,
                             communicator, gathers.stream),
        "gathering unit '", u.unit->name, "'");
}

// What --gather-dtype sends of the section, beside those of the other ranks.
NcclCollectives::Section
NcclCollectives::encode(const NcclCommunicator &communicator,
                        const UnitState &u, const Section &section) {
  int64_t bytes = gatherImageBytes(u.unit->gatherType, section.slice);
  uint8_t *images = context.state->images();
  uint8_t *mine = images + communicator.members.index * bytes;
  encodeSlice(context, gathers.stream, *u.unit, section.sent, mine,
              section.slice);
  return {images, bytes, mine, [] {}, ncclUint8};
}

// The two sections in one grouped call; but the padding of the first may lie
// on the second, which then is gathered after it.
void NcclCollectives::gather(size_t unit, const NcclCommunicator *communicator,
                             Section trainable, Section frozen) {
  const UnitState &u = context.state->units[unit];
  bool encodes = u.unit->sendsImages();
  int64_t ranks = communicator ? communicator->members.count : 1;
  bool both = trainable.slice > 0 && frozen.slice > 0;
  bool apart = both && !encodes && trainable.slice * ranks > u.unit->length;
  trainable.fill();
  if (!apart)
    frozen.fill();
  if (!communicator)
    return;
  for (Section *section : {&trainable, &frozen}) {
    section->type = ncclType(u.unit->paramType);
    if (!section->sent)
      section->sent = section->begin + communicator->members.index *
                                           section->slice *
                                           dtypeBytes(u.unit->paramType);
  }
  Section first = encodes ? encode(*communicator, u, trainable) : trainable;
  collective(
      gathers, *communicator, Activity::Gather, unit, u.unit->sentBytes(), [&] {
        if (!apart)
          check(nccl().ncclGroupStart(), "grouping two gathers");
        allGather(*communicator, u, first);
        if (apart)
          frozen.fill();
        allGather(*communicator, u, frozen);
        if (!apart)
          check(nccl().ncclGroupEnd(), "gathering unit '", u.unit->name, "'");
      });
  if (encodes)
    decodeImages(context, gathers.stream, *u.unit, first.begin, trainable.slice,
                 trainable.begin);
  for (int kernels = apart ? 2 : (trainable.slice > 0 || frozen.slice > 0);
       kernels > 0; --kernels)
    note(CollectiveKind::AllGather, gathers, static_cast<int64_t>(unit));
}

void NcclCollectives::gatherWait(size_t unit) {
  wait(points[unit].gathered, context.compute);
}

void NcclCollectives::gatherFree(size_t unit) {
  record(points[unit].freed, context.compute);
}

// On the compute stream, where the unit's last reader was.
void NcclCollectives::gatherReshard(size_t unit) {
  const UnitState &u = context.state->units[unit];
  if (u.group == 0)
    return;
  points[unit].resharded = true;
  int64_t element = dtypeBytes(u.unit->paramType);
  const uint8_t *frozen = u.gathered + u.unit->frozenOffsetBytes;
  copyBytes(context, context.compute, u.resharded,
            u.gathered + u.groupOwned.begin * element,
            u.groupOwned.size() * element);
  copyBytes(context, context.compute, u.reshardedFrozen,
            frozen + u.groupFrozenOwned.begin * element,
            u.groupFrozenOwned.size() * element);
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
  Queue &queue = u.unit->sharded ? reductions : wholeQueue();
  record(points[unit].ready, context.compute);
  joinFunction(queue);
  wait(points[unit].ready, queue.stream);
  if (u.unit->sharded)
    reduceScatter(unit);
  else
    allReduce(unit, queue, communicators.alike(), u.gradients, u.unit->length,
              dtype);
  if (squaresWithSum(context, u))
    accumulateCounted(context, queue.stream, unit, accumulate);
  else
    accumulateSlice(context, queue.stream, dtype,
                    u.gradients + u.owned.begin * dtypeBytes(dtype), u.reduced,
                    u.owned.size(), accumulate);
  record(points[unit].reduced, queue.stream);
  if (u.unit->sharded && replicas && context.lastMicrobatch)
    addReplicas(unit);
}

void NcclCollectives::reduceScatter(size_t unit) {
  const UnitState &u = context.state->units[unit];
  const NcclCommunicator *group = communicators.reduce();
  if (!group || u.unit->length == 0)
    return;
  ShxDType dtype = u.unit->reduceType;
  uint8_t *mine =
      u.gradients + group->members.index * u.slice * dtypeBytes(dtype);
  collective(reductions, *group, Activity::Reduce, unit,
             u.unit->gradientBytes(), [&] {
               check(nccl().ncclReduceScatter(
                         u.gradients, mine, static_cast<size_t>(u.slice),
                         ncclType(dtype), ncclSum, *group, reductions.stream),
                     "reducing the gradients of unit '", u.unit->name, "'");
             });
  note(CollectiveKind::ReduceScatter, reductions, static_cast<int64_t>(unit));
}

void NcclCollectives::allReduce(size_t unit, Queue &queue,
                                const NcclCommunicator *communicator,
                                void *data, int64_t count, ShxDType dtype) {
  if (count == 0 || !communicator)
    return;
  Activity activity = context.state->units[unit].unit->sharded
                          ? Activity::Replicas
                          : Activity::Reduce;
  collective(
      queue, *communicator, activity, unit, count * dtypeBytes(dtype), [&] {
        check(nccl().ncclAllReduce(data, data, static_cast<size_t>(count),
                                   ncclType(dtype), ncclSum, *communicator,
                                   queue.stream),
              "adding up the gradients of unit '",
              context.state->units[unit].unit->name, "'");
      });
  note(CollectiveKind::AllReduce, queue, static_cast<int64_t>(unit));
}

// Once a step: what this rank's group has summed, over all groups.
void NcclCollectives::addReplicas(size_t unit) {
  const UnitState &u = context.state->units[unit];
  joinFunction(*replicas);
  wait(points[unit].reduced, replicas->stream);
  allReduce(unit, *replicas, communicators.replicas(), u.reduced,
            u.owned.size(), SHX_F32);
  record(points[unit].added, replicas->stream);
}

void NcclCollectives::reduceWait(size_t unit) {
  wait(points[unit].reduced, context.compute);
  wait(points[unit].added, context.compute);
}

// ---- Muon's matrices

void NcclCollectives::matricesStart(size_t unit, Matrices way,
                                    const std::vector<Transfer> &transfers) {
  bool alongAxis = way == Matrices::Join || way == Matrices::Part;
  const NcclCommunicator *ranks = alongAxis
                                      ? &communicators.axis(MeshAxis::Tensor)
                                      : communicators.reduce();
  if (!ranks)
    return;
  Queue &queue = alongAxis ? *axes : reductions;
  auto index = static_cast<size_t>(way);
  record(points[unit].matricesReady[index], context.compute);
  joinFunction(queue);
  wait(points[unit].matricesReady[index], queue.stream);
  for (size_t before = 0; before < index; ++before)
    wait(points[unit].matricesThere[before], queue.stream);
  int64_t bytes = 0;
  for (const Transfer &transfer : transfers)
    bytes += transfer.bytes;
  Activity activity = way == Matrices::ToOwners || way == Matrices::Join
                          ? Activity::Directions
                          : Activity::Matrices;
  collective(queue, *ranks, activity, unit, bytes, [&] {
    check(nccl().ncclGroupStart(), "grouping matrices");
    for (const Transfer &transfer : transfers) {
      auto count = static_cast<size_t>(transfer.bytes);
      check(transfer.sends
                ? nccl().ncclSend(transfer.data, count, ncclUint8,
                                  transfer.peer, *ranks, queue.stream)
                : nccl().ncclRecv(transfer.data, count, ncclUint8,
                                  transfer.peer, *ranks, queue.stream),
            "exchanging matrices");
    }
    check(nccl().ncclGroupEnd(), "exchanging the matrices of unit '",
          context.state->units[unit].unit->name, "'");
  });
  if (!transfers.empty())
    note(CollectiveKind::SendReceive, queue, static_cast<int64_t>(unit));
  record(points[unit].matricesThere[index], queue.stream);
}

void NcclCollectives::matricesWait(size_t unit, Matrices last) {
  for (size_t way = 0; way <= static_cast<size_t>(last); ++way)
    wait(points[unit].matricesThere[way], context.compute);
}

// ---- Axes of the mesh

// All axes share a queue, so every rank's exchanges run in one order.
void NcclCollectives::sendAlong(const AxisExchange &what, Exchanged &points) {
  const NcclCommunicator &axis = communicators.axis(what.axis);
  CUstream stream = axes->stream;
  record(points.ready, context.compute);
  joinFunction(*axes);
  wait(points.ready, stream);
  auto bytes = static_cast<size_t>(what.bytes);
  size_t count = bytes / static_cast<size_t>(dtypeBytes(what.dtype));
  CollectiveKind kind = CollectiveKind::None;
  // Each call once by itself: NCCL connects the ranks for each of its own.
  collective(*axes, axis, Activity::Mesh, static_cast<size_t>(what.call),
             what.bytes, [&] {
               ncclResult_t result = ncclSuccess;
               switch (what.call) {
               case SHX_AXIS_ALL_REDUCE:
                 kind = CollectiveKind::AllReduce;
                 result = nccl().ncclAllReduce(what.from, what.to, count,
                                               ncclType(what.dtype), ncclSum,
                                               axis, stream);
                 break;
               case SHX_AXIS_ALL_GATHER:
                 kind = CollectiveKind::AllGather;
                 result = nccl().ncclAllGather(what.from, what.to, bytes,
                                               ncclUint8, axis, stream);
                 break;
               case SHX_AXIS_REDUCE_SCATTER:
                 kind = CollectiveKind::ReduceScatter;
                 result = nccl().ncclReduceScatter(what.from, what.to, count,
                                                   ncclType(what.dtype),
                                                   ncclSum, axis, stream);
                 break;
               case SHX_AXIS_ALL_TO_ALL:
                 kind = CollectiveKind::SendReceive;
                 allToAll(axis, what);
                 break;
               case SHX_AXIS_SHIFT:
                 kind = CollectiveKind::SendReceive;
                 shift(axis, what);
                 break;
               case SHX_AXIS_ALL_SLICE:
               case SHX_AXIS_PART_PAD:
               case SHX_AXIS_PART_ROLL:
               case SHX_AXIS_PART_UNROLL:
                 break; // send nothing
               }
               check(result, "exchanging a tensor along an axis of the mesh");
             });
  note(kind, *axes, -1);
  record(points.there, stream);
}

void NcclCollectives::exchangeAlong(const AxisExchange &what) {
  sendAlong(what, exchangedAtOnce);
  wait(exchangedAtOnce.there, context.compute);
}

void NcclCollectives::startAlong(const AxisExchange &what) {
  if (started == exchanges.size())
    exchanges.emplace_back();
  sendAlong(what, exchanges[started++]);
}

void NcclCollectives::waitAlong() {
  wait(exchanges[awaited++].there, context.compute);
}

void NcclCollectives::allToAll(const NcclCommunicator &axis,
                               const AxisExchange &what) {
  auto bytes = static_cast<size_t>(what.bytes);
  const auto *from = static_cast<const uint8_t *>(what.from);
  auto *to = static_cast<uint8_t *>(what.to);
  check(nccl().ncclGroupStart(), "grouping parts of a tensor");
  for (int peer = 0; peer < axis.members.count; ++peer) {
    auto at = static_cast<size_t>(peer) * bytes;
    check(
        nccl().ncclSend(from + at, bytes, ncclUint8, peer, axis, axes->stream),
        "sending a part of a tensor");
    check(nccl().ncclRecv(to + at, bytes, ncclUint8, peer, axis, axes->stream),
          "receiving a part of a tensor");
  }
  check(nccl().ncclGroupEnd(), "exchanging parts of a tensor");
}

void NcclCollectives::shift(const NcclCommunicator &axis,
                            const AxisExchange &what) {
  auto bytes = static_cast<size_t>(what.bytes);
  int ranks = axis.members.count, rank = axisRank(what.axis);
  check(nccl().ncclGroupStart(), "grouping blocks of a ring");
  check(nccl().ncclSend(what.from, bytes, ncclUint8,
                        (rank + what.behind) % ranks, axis, axes->stream),
        "sending a block of a ring");
  check(nccl().ncclRecv(what.to, bytes, ncclUint8,
                        (rank - what.behind + ranks) % ranks, axis,
                        axes->stream),
        "receiving a block of a ring");
  check(nccl().ncclGroupEnd(), "exchanging blocks of a ring");
}

// ---- Numbers and bytes

template <typename Work>
void NcclCollectives::ofAllRanks(Activity activity, int64_t bytes,
                                 CollectiveKind kind, Work work) {
  Queue &queue = wholeQueue();
  const NcclCommunicator &communicator = *communicators.world();
  record(numbersReady, context.compute);
  joinFunction(queue);
  wait(numbersReady, queue.stream);
  collective(queue, communicator, activity, 0, bytes,
             [&] { work(communicator, queue.stream); });
  note(kind, queue, -1);
  record(numbersThere, queue.stream);
  wait(numbersThere, context.compute);
}

void NcclCollectives::allGather(const double *mine, double *all, size_t count) {
  // The norm is one number, a loss comes with its count.
  Activity activity = count == 1 ? Activity::Norm : Activity::Loss;
  auto bytes = static_cast<int64_t>(count * sizeof(double)) * context.ranks;
  ofAllRanks(activity, bytes, CollectiveKind::AllGather,
             [&](ncclComm_t communicator, CUstream stream) {
               check(nccl().ncclAllGather(mine, all, count, ncclFloat64,
                                          communicator, stream),
                     "gathering numbers");
             });
}

void NcclCollectives::largest(uint32_t *values, size_t count) {
  ofAllRanks(Activity::Steps, static_cast<int64_t>(count * sizeof(*values)),
             CollectiveKind::AllReduce,
             [&](ncclComm_t communicator, CUstream stream) {
               check(nccl().ncclAllReduce(values, values, count, ncclUint32,
                                          ncclMax, communicator, stream),
                     "taking the largest of all ranks' weights");
             });
}

void NcclCollectives::broadcast(void *data, size_t bytes) {
  std::string chosen =
      exchange.broadcast(std::string(static_cast<char *>(data), bytes));
  if (chosen.size() != bytes)
    fail("rank 0 chose for other calls than this rank has");
  std::memcpy(data, chosen.data(), bytes);
}

// ---- Failures

// Those that are aborted are gone.
std::string NcclCollectives::asyncError() {
  std::unique_lock<std::mutex> lock(asking, std::try_to_lock);
  if (!lock || aborted)
    return "";
  for (NcclCommunicator *one : communicators.all()) {
    ncclResult_t error = ncclSuccess;
    nccl().ncclCommGetAsyncError(*one, &error);
    if (error != ncclSuccess && error != ncclInProgress)
      return concat("the ", one->queue(), " queue: ", describe(error, *one));
  }
  return "";
}

// The GPU may be in a collective that never ends: it is told to, but not
// waited for long. All in one group: the end of one communicator waits for the
// GPU, which another one may be holding.
void NcclCollectives::abort() {
  constexpr std::chrono::seconds kPatience(3);
  auto ended = std::make_shared<std::promise<void>>();
  std::future<void> end = ended->get_future();
  std::thread([this, ended] {
    std::lock_guard<std::mutex> lock(asking);
    aborted = true;
    driver().cuCtxSetCurrent(context.device->context());
    nccl().ncclGroupStart();
    for (NcclCommunicator *one : communicators.all())
      nccl().ncclCommAbort(*one);
    nccl().ncclGroupEnd();
    ended->set_value();
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
  return std::make_unique<NcclCollectives>(
      context, setup.manifest, setup.topology, setup.control, setup.exchange,
      checkNccl(versions, uuids));
}

} // namespace shardonnx::rt::cuda
