// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Engine.h.

#include "Engine.h"
#include "../comm/Launch.h"
#include "../support/Convert.h"
#include "../support/Error.h"
#include "Peaks.h"
#include "ProcessMemory.h"
#include "ReduceKernels.h"
#include "kernels/Kernels.h"
#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/Cpu.h"
#include "shardonnx/runtime/MemoryPlan.h"
#include <algorithm>
#include <cstring>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <utility>

namespace shardonnx::rt {
namespace {

// Reading the proportional set size walks all page tables: at most this share
// of the time.
constexpr double kMeasurementShare = 0.01;

MemoryOptions memoryOptions(const Options &options, const Topology &topology) {
  MemoryOptions memory;
  memory.groupsLeaveMachine = topology.groupsLeaveMachine();
  memory.debug = options.debugMemory;
  memory.accumulate = options.accumulate;
  memory.offload = options.offload;
  memory.offloadDir = options.offloadDir;
  return memory;
}

// The ranks of a group in shared memory must be on one machine.
void checkPlaces(const EngineSetup &setup, const Routes &routes) {
  if (setup.topology.groupsLeaveMachine() || !routes.group.leavesMachine())
    return;
  fail("ranks ", routes.group.members.front(), "…", routes.group.members.back(),
       ", which keep one replica of the model, are on several machines though "
       "each machine has ranks for whole replicas: number the ranks machine by "
       "machine (mpirun --map-by slot, srun --distribution=block)");
}

std::unique_ptr<Network> connect(const EngineSetup &setup,
                                 const Routes &routes) {
  if (setup.group.machines.hosts.size() < 2)
    return nullptr;
  checkPlaces(setup, routes);
  return std::make_unique<Network>(setup.control, setup.exchange, setup.group,
                                   routes.peers(setup.info.rank));
}

Routes routesOf(const EngineSetup &setup) {
  return Routes(setup.topology, setup.group.machines.machineOf,
                setup.info.rank);
}

// OpenMP ends the process with a line of its own where it cannot make a thread.
void checkThreadStacks(int threads) {
  constexpr rlim_t kUsualStack = rlim_t(8) << 20;
  rlimit space{}, stack{};
  if (::getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_cur == RLIM_INFINITY ||
      ::getrlimit(RLIMIT_STACK, &stack) != 0)
    return;
  size_t each = std::min(stack.rlim_cur, kUsualStack);
  size_t bytes = each * static_cast<size_t>(std::max(threads - 1, 0));
  if (bytes == 0)
    return;
  void *room = ::mmap(nullptr, bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    fail("the address space is limited to ",
         formatBytes(static_cast<int64_t>(space.rlim_cur)),
         " (ulimit -v), and the stacks of ", std::to_string(threads),
         " threads need ", formatBytes(static_cast<int64_t>(bytes)),
         " of what is left: raise the limit, or set OMP_NUM_THREADS to fewer");
  ::munmap(room, bytes);
}

// Directions lie in memory that the ranks of a group share.
void checkMuon(const Manifest &manifest, const Topology &topology) {
  for (const Manifest::Unit &unit : manifest.units)
    if (unit.matrixLength > 0 && unit.sharded && topology.groupsLeaveMachine())
      fail(
          "--optimizer=muon needs the ranks that share unit '", unit.name,
          "' on one machine: compile with --strategy=hybrid_shard (one replica "
          "a machine) or no_shard");
}

} // namespace

CpuEngine::CpuEngine(const EngineSetup &setup)
    : Engine(setup.manifest), program(setup.program), control(setup.control),
      state(manifest, setup.topology, control.rank(),
            setup.group.memory ? setup.group.memory.get() : -1,
            memoryOptions(setup.options, setup.topology)),
      routes(routesOf(setup)), network(connect(setup, routes)),
      communicator(state, control, setup.trace,
                   {setup.exchange, routes, network.get()}),
      axis(state, control, setup.trace),
      plannedBytes(totalBytes(
          planMemory(manifest, setup.topology, threadsPerRank(setup.info),
                     setup.options.accumulate, setup.options.offload))) {
  if (network)
    plannedBytes += Network::stagingBytes(routes, manifest);
  checkMuon(manifest, setup.topology);
  allocateInputs();
  checkThreadStacks(threadsPerRank(setup.info)); // the plan's memory is there
  context.privateBase = state.privateBase();
  context.params = state.paramPointers.data();
  context.grads = state.gradPointers.data();
  context.inputs = inputPointers.data();
  context.scalars = context.values;
  context.state = &state;
  context.communicator = &communicator;
  context.axis = &axis;
  context.trace = setup.trace;
  context.beforeUpdate = &beforeUpdate;
  context.clipGradNorm = setup.options.clipGradNorm;
  if (manifest.hasMatrices())
    context.muon = &muon.emplace(context, setup.options.adjustLR);
}

void CpuEngine::allocateInputs() {
  int64_t bytes = 0;
  for (const Manifest::Input &input : manifest.inputs)
    bytes += alignTo(input.bytes(), kBufferAlignmentBytes);
  inputMemory = Mapping::anonymous(static_cast<size_t>(bytes), "inputs");
  uint8_t *at = inputMemory.data();
  for (const Manifest::Input &input : manifest.inputs) {
    inputPointers.push_back(at);
    at += alignTo(input.bytes(), kBufferAlignmentBytes);
  }
}

Interval CpuEngine::owned(size_t unit, bool trainable) const {
  return state.units[unit].section(trainable);
}

void CpuEngine::write(size_t unit, StateArray array, int64_t begin,
                      const float *values, int64_t count) {
  const UnitState &u = state.units[unit];
  narrow(u.dtype(array), u.address(array, begin), values, count);
}

void CpuEngine::writeStored(size_t unit, StateArray array, int64_t begin,
                            const uint8_t *bytes, int64_t count) {
  const UnitState &u = state.units[unit];
  std::memcpy(u.address(array, begin), bytes,
              static_cast<size_t>(count * u.elementBytes(array)));
}

void CpuEngine::read(size_t unit, StateArray array, const Interval &interval,
                     const Sink &sink) {
  constexpr int64_t kPiece = 8 << 20;
  const UnitState &u = state.units[unit];
  const uint8_t *from = u.address(array, interval.begin);
  int64_t bytes = interval.size() * u.elementBytes(array);
  for (int64_t at = 0; at < bytes; at += kPiece)
    sink(from + at, std::min(kPiece, bytes - at));
  if (state.offloads)
    state.evictUnit(unit);
}

void CpuEngine::readReduced(size_t unit, int64_t begin, float *values,
                            int64_t count) {
  const UnitState &u = state.units[unit];
  std::memcpy(values, u.reduced + (begin - u.owned.begin),
              static_cast<size_t>(count) * sizeof(float));
}

void CpuEngine::setDecay(
    const std::function<bool(const std::string &)> &noDecay) {
  for (UnitState &u : state.units)
    u.setDecay(noDecay);
}

// All masters are in place. From now on the update writes what is read in
// another type.
void CpuEngine::start() {
  for (UnitState &u : state.units)
    if (u.unit->gatherType != GatherDtype::Param)
      roundSlice(u.params, *u.unit, u.master, u.owned.size(),
                 /*parallel=*/true);
    else if (u.params)
      castSlice(u.params, u.unit->paramType,
                reinterpret_cast<const float *>(u.master), u.owned.size(),
                /*parallel=*/true);
  state.evictAll();
  ::malloc_trim(0); // what reading the manifest and the model has left behind
  control.barrier(Activity::Start);
  if (state.topology.ranks > 1)
    state.mapGathered();
  communicator.gatherKept();
}

void CpuEngine::finish() { control.barrier(Activity::End); }

void CpuEngine::beginTrace() {
  setKernelTrace([](ShxContext *context, const char *name, int thread,
                    int64_t begin, int64_t end) {
    Trace &trace = *contextOf(context).trace;
    const char *kept = trace.intern(name);
    if (thread == kWholeCall)
      trace.measure({kept, begin, end, -1, TraceRow::Compute});
    else
      trace.add({kept, begin, end, thread, TraceRow::Threads});
  });
}

void CpuEngine::endTrace() { setKernelTrace(nullptr); }

std::optional<Peaks> CpuEngine::measurePeaks() {
  return cpu::measurePeaks(manifest.paramType);
}

void CpuEngine::poisonPrivate() {
  if (state.debug) // nothing of a microbatch may be read by the next
    poison(state.privateBase(), manifest.privateSpace.bytes);
}

// Between two kernels, where no thread waits.
void CpuEngine::adaptWaiting() {
  double now = monotonicSeconds();
  if (!waits.isDue(now))
    return;
  if (std::optional<ThreadTimes> times = threadTimes()) {
    bool spins = waits.decide(now, *times);
    control.setSpins(spins);
    setPoolSpins(spins);
  }
}

void CpuEngine::beginStep(const Scalars &scalars) {
  stepBegin = monotonicSeconds();
  std::memcpy(context.values, scalars.data(), sizeof(context.values));
  context.lossSum = 0;
}

void CpuEngine::microbatch(bool first, bool last) {
  adaptWaiting();
  poisonPrivate();
  communicator.beginMicrobatch(first, last);
  (first ? program.firstMicrobatch : program.nextMicrobatch)(&context);
}

// The ranks of a tensor group have the same, those of a context group each that
// of its own tokens.
double CpuEngine::ownLoss() const {
  return tensorRank() == 0 ? context.lossSum : 0;
}

void CpuEngine::update() {
  double asked = control.askedToStop() ? 1 : 0;
  Communicator::LossSum sum = communicator.sumLosses({ownLoss(), asked});
  lossSum = sum.loss;
  stop = sum.count > 0;
  context.lossSum = 0;
  context.offloadSeconds = 0;
  state.prefetch(0, 0);
  program.update(&context);
}

void CpuEngine::endStep() {
  stepResult = {lossSum, context.gradNorm,   monotonicSeconds() - stepBegin,
                stop,    state.bytesMoved(), context.offloadSeconds};
}

std::optional<StepResult> CpuEngine::result(bool) {
  return std::exchange(stepResult, std::nullopt);
}

void CpuEngine::evalMicrobatch() {
  poisonPrivate();
  program.evalMicrobatch(&context);
}

Engine::Evaluation CpuEngine::evaluation(double count) {
  Communicator::LossSum sum = communicator.sumLosses(
      {count > 0 ? ownLoss() : 0, rank() % together() == 0 ? count : 0});
  context.lossSum = 0;
  return {sum.loss, sum.count};
}

// The last step's is what the closing line says, so it has all ranks'.
MemoryUse CpuEngine::memory(int64_t heldByHost, bool last) {
  RankBlock &mine = control.block(control.rank());
  mine.peakBytes.store(plannedBytes + heldByHost);
  double begin = monotonicSeconds();
  if (last || begin >= nextMeasurement) {
    mine.pssBytes.store(std::max(proportionalSetBytes(), context.pssWithPart));
    double end = monotonicSeconds();
    nextMeasurement = end + (end - begin) / kMeasurementShare;
  }
  if (last)
    control.barrier(Activity::End);
  return largestUse(control);
}

// ---- The platform

void CpuPlatform::check() {
  if (const char *why = whyNoKernels())
    failUsage(why);
}

void CpuPlatform::prepare(const RankInfo &info, char **argv) {
  undoDefaultBinding(info);
  ensureThreadEnvironment(info, argv);
  keepMemoryNear(info);
  if (info.localWorldSize > availableCores() && info.rank == 0)
    printWarning(concat(info.localWorldSize, " ranks",
                        info.severalMachines() ? " of this machine" : "",
                        " share ", availableCores(),
                        " cores: one thread each, and slow"));
  ::mallopt(M_ARENA_MAX, 1); // the threads allocate next to nothing
}

int64_t CpuPlatform::sharedBytes(const Manifest &manifest,
                                 const Options &options,
                                 const Topology &topology) {
  return planShared(manifest, topology, memoryOptions(options, topology)).total;
}

std::unique_ptr<Engine> CpuPlatform::makeEngine(const EngineSetup &setup) {
  return std::make_unique<CpuEngine>(setup);
}

} // namespace shardonnx::rt
