// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Engine.h.

#include "Engine.h"
#include "../comm/Exchange.h"
#include "../core/GatherImage.h"
#include "../support/Convert.h"
#include "../support/Error.h"
#include "collectives/Collectives.h"
#include "driver/Numa.h"
#include "driver/Switch.h"
#include "gemm/GemmCache.h"
#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/CacheFolder.h"
#include "state/Masters.h"
#include "state/Slices.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <malloc.h>

namespace shardonnx::rt::cuda {
namespace {

std::vector<ImageTable> runtimeTables() {
  return {shx_runtime_images, shx_runtime_images + shx_runtime_image_tables};
}

std::string list(const std::vector<MemoryItem> &items) {
  std::string text;
  for (const MemoryItem &item : items)
    if (item.bytes > 0)
      text += concat(text.empty() ? "" : ", ", item.name, " ",
                     formatBytes(item.bytes));
  return text;
}

// SHARDONNX_CUDA_HEADROOM: somebody knows better.
std::vector<MemoryItem> headroomOf(const Manifest &manifest,
                                   const Topology &topology) {
  constexpr const char *kVariable = "SHARDONNX_CUDA_HEADROOM";
  const char *asked = std::getenv(kVariable);
  if (!asked || !*asked)
    return planHeadroom(manifest, topology);
  std::optional<int64_t> bytes =
      std::string(asked) == "0" ? 0 : parseByteSize(asked);
  if (!bytes)
    fail(kVariable, "='", asked, "' is not a size as in 512MiB, or 0");
  return {{kVariable, *bytes}};
}

// What is asked for by item, before the first of it is taken: a library that
// finds no memory left later has no words for it. --fit counts `estimate`, what
// the compiler takes the headroom to be.
void requireFits(const std::vector<MemoryItem> &items,
                 const std::vector<MemoryItem> &headroom, int64_t estimate,
                 const Device &device, int rank) {
  Device::Memory memory = device.memory();
  int64_t planned = totalBytes(items), later = totalBytes(headroom);
  if (planned + later <= memory.free)
    return;
  constexpr int64_t kMiB = 1 << 20;
  int64_t fit = (memory.free - later + estimate) / kMiB;
  fail("rank ", rank, " needs ", formatBytes(planned + later),
       " of GPU memory: ", formatBytes(planned), " as planned (", list(items),
       ") and ", formatBytes(later), " of headroom (", list(headroom), "); '",
       device.name(), "' has ", formatBytes(memory.free), " free of ",
       formatBytes(memory.total), ": compile it ",
       fit > 0 ? concat("with --fit=", fit, "MiB, ") : "",
       "with --recompute or a smaller --batch, start more ranks, or take a GPU "
       "that nothing else uses");
}

} // namespace

CudaEngine::CudaEngine(const EngineSetup &setup, const DeviceProgram &code)
    : Engine(setup.manifest), program(setup.program), options(setup.options),
      topology(setup.topology), control(setup.control),
      exchange(setup.exchange), phaseBegin(monotonicSeconds()),
      tracer(setup.trace, setup.info.localRank, setup.info.worldSize),
      device(setup.info.localRank), numaNode(bindToGpu(device.pciBus())),
      freeAtStart(device.memory().free),
      programImages(device, {{"the program", code.images, code.imageCount}}),
      runtimeImages(device, runtimeTables()), gemm(context, cacheFolder()),
      attention(context) {
  makeContext(setup);
  log("driver and context");
  if (isVerbose() && numaNode)
    std::fprintf(stderr, "start: bound to NUMA node %d of GPU %s\n", *numaNode,
                 device.pciBus().c_str());
  collectives = makeCollectives(context, setup);
  context.collectives = collectives.get();
  log("communicators");
  allocate(code);
  log("memory");
}

CudaEngine::~CudaEngine() = default;

void CudaEngine::makeContext(const EngineSetup &setup) {
  context.rank = setup.info.rank;
  context.ranks = setup.info.worldSize;
  context.device = &device;
  context.compute = compute;
  if (!isOff("SHARDONNX_CUDA_DEPENDENT_LAUNCH"))
    context.dependent = compute;
  context.programImages = &programImages;
  context.runtimeImages = &runtimeImages;
  context.gemm = &gemm;
  context.attention = &attention;
  context.clipGradNorm = options.clipGradNorm;
  context.poison = options.debugMemory;
}

// Steps are known behind the last optimizer, when offloaded masters have left.
static void requireMastersHere(const Manifest &manifest, Offload offload) {
  for (const Manifest::Unit &unit : manifest.units)
    if (unit.inCodes() && offload == Offload::Params)
      fail("--offload=params: the masters of unit '", unit.name,
           "' are read twice in an update, which gathers it in the 8 bits of "
           "its products: give --offload=optimizer, or compile without "
           "--gather-dtype=fp8");
}

void CudaEngine::allocate(const DeviceProgram &code) {
  requireMastersHere(manifest, options.offload);
  auto constantBytes = static_cast<int64_t>(code.constantsSize);
  items =
      planMemory(manifest, topology, 0, options.accumulate, options.offload);
  requireFits(items, headroomOf(manifest, topology),
              totalBytes(planHeadroom(manifest, topology)), device,
              context.rank);
  state = std::make_unique<State>(manifest, context.rank, topology,
                                  options.accumulate, collectives->symmetric(),
                                  options.offload);
  batch = std::make_unique<Inputs>(manifest);
  upload = std::make_unique<Upload>(copy);
  download = std::make_unique<Download>(device);
  context.state = state.get();
  if (manifest.hasMatrices())
    muon = std::make_unique<Muon>(context, options.adjustLR);
  context.muon = muon.get();
  constants = DeviceMemory(constantBytes, "constants");
  writeNow(constants.address(), code.constants,
           static_cast<int64_t>(code.constantsSize),
           "copying constants to the GPU");
  context.constants = constants.data();
  context.privateBase = state->privateBase();
  context.params = state->paramPointers.data();
  context.grads = state->gradPointers.data();
  context.inputs = batch->device();
  context.documents = batch->documents();
  if (options.offload != Offload::None)
    staging = std::make_unique<Staging>(context);
  context.staging = staging.get();
  if (int64_t bytes = manifest.hostSpace.bytes; bytes > 0)
    hostCopies = std::make_unique<HostCopies>(context, bytes);
  context.hostCopies = hostCopies.get();
}

// ---- The model

Interval CudaEngine::owned(size_t unit, bool trainable) const {
  return state->units[unit].section(trainable);
}

void CudaEngine::write(size_t unit, StateArray array, int64_t begin,
                       const float *values, int64_t count) {
  const UnitState &u = state->units[unit];
  if (array == StateArray::Master && u.halves)
    return writeHalves(u, begin, values, count);
  ShxDType dtype = u.dtype(array);
  uint8_t *to = u.address(array, begin);
  if (!state->onHost(array))
    return upload->write(to, dtype, values, count);
  narrow(dtype, to, values, count);
  if (array == StateArray::Master && u.hostParams != u.master) {
    int64_t element = dtypeBytes(u.unit->paramType);
    narrow(u.unit->paramType, u.hostParams + (begin - u.owned.begin) * element,
           values, count);
  }
}

void CudaEngine::writeStored(size_t unit, StateArray array, int64_t begin,
                             const uint8_t *bytes, int64_t count) {
  const UnitState &u = state->units[unit];
  int64_t size = count * u.elementBytes(array);
  if (array == StateArray::Master && u.halves) {
    std::vector<float> values(static_cast<size_t>(count));
    std::memcpy(values.data(), bytes, static_cast<size_t>(size));
    return writeHalves(u, begin, values.data(), count);
  }
  uint8_t *to = u.address(array, begin);
  if (state->onHost(array))
    std::memcpy(to, bytes, static_cast<size_t>(size));
  else
    upload->writeBytes(to, bytes, size);
}

void CudaEngine::writeHalves(const UnitState &unit, int64_t begin,
                             const float *values, int64_t count) {
  splitMasters(
      unit, begin, values, count,
      [&](uint8_t *to, int64_t bytes, int64_t size, const FillHost &fill) {
        if (state->onHost(StateArray::Master))
          fill(to, 0, size);
        else
          upload->writeFilled(to, bytes, size, fill);
      });
}

void CudaEngine::readReduced(size_t unit, int64_t begin, float *values,
                             int64_t count) {
  const UnitState &u = state->units[unit];
  compute.synchronize(waiting().c_str());
  check(driver().cuMemcpyDtoH(values,
                              deviceAddress(u.reduced + begin - u.owned.begin),
                              static_cast<size_t>(count) * sizeof(float)),
        "reading gradients");
}

void CudaEngine::snapshot() {
  finishUpdate();
  download->mark({compute, copy});
}

void CudaEngine::read(size_t unit, StateArray array, const Interval &interval,
                      const Sink &sink) {
  const UnitState &u = state->units[unit];
  auto get = [&](const uint8_t *from, int64_t bytes, const Sink &to) {
    if (state->onHost(array))
      download->readHost(from, bytes, to);
    else
      download->read(from, bytes, to);
  };
  if (array == StateArray::Master && u.halves)
    joinMasters(u, interval, get, sink);
  else
    get(u.address(array, interval.begin),
        interval.size() * u.elementBytes(array), sink);
}

void CudaEngine::setDecay(
    const std::function<bool(const std::string &)> &noDecay) {
  for (UnitState &u : state->units)
    u.setDecay(noDecay);
}

// ---- The start

void CudaEngine::start() {
  copy.synchronize("waiting for the weights to be copied");
  upload.reset();
  for (const UnitState &u : state->units) {
    castMasters(context, u);
    if (u.hostParams && u.unit->sendsImages())
      roundAsGathered(u.unit->gatherType, u.unit->masterType, u.master,
                      u.unit->paramType, u.hostParams, u.owned.size());
  }
  compute.synchronize("writing the parameters that products read");
  log("weights");
  int64_t partials = 0;
  for (const UnitState &u : state->units)
    for (const Piece &piece : u.pieces)
      partials += squaresPartials(piece.length);
  numbers = std::make_unique<Numbers>(topology, partials, manifest.f8Steps());
  makeBranch();
  context.cells = numbers->cells(/*keepsScalars=*/branch != nullptr);
  context.scalars = context.cells.scalars;
  takeSteps();
  makeFunctions();
  prepare();
  capture();
  gatherFirst(/*kept=*/true);
  publishMemory();
  logMemory();
  exchange.barrier(Activity::Start);
}

void CudaEngine::takeSteps() {
  if (manifest.f8Steps() == 0)
    return;
  steps = std::make_unique<WeightSteps>(context);
  context.steps = steps.get();
  Function(context, "the first steps of weights", [this] {
    steps->start();
  }).run();
  compute.synchronize(waiting().c_str());
  log("steps of weights");
}

// ---- Steps

std::string CudaEngine::waiting() const {
  return concat("waiting for the GPU (enqueued last: ", context.lastWork, ")");
}

void CudaEngine::sendBatch() {
  batch->send(copy, compute);
  if (context.documents && !context.documents->fit() && context.rank == 0 &&
      attention.takesDocuments() && !std::exchange(toldOfDocuments, true))
    printWarning(concat(
        "a microbatch has ", context.documents->count(),
        " documents, and cuDNN's attention was planned for ",
        context.documents->limit(),
        ": such ones run on kernels of our own, which are slower; compile with "
        "a larger --max-documents"));
  if (options.debugMemory) // nothing of a microbatch may be read by the next
    check(driver().cuMemsetD8Async(
              deviceAddress(context.privateBase), 0xff,
              static_cast<size_t>(manifest.privateSpace.bytes), compute),
          "poisoning activations");
}

void CudaEngine::beginStep(const Scalars &scalars) {
  ++context.step;
  numbers->beginStep(compute, scalars);
}

void CudaEngine::microbatch(bool first, bool last) {
  if (first && std::exchange(evaluated, false))
    gatherFirst(/*kept=*/false);
  bool beside = first && std::exchange(updating, false);
  if (beside)
    beginOptimizers();
  sendBatch();
  Function *function = beside                 ? besideFunction.get()
                       : first                ? firstFunction.get()
                       : last && lastFunction ? lastFunction.get()
                                              : nextFunction.get();
  function->run();
}

// The GPU is at work on what was enqueued while a checkpoint is copied from
// the state that the optimizers will change.
void CudaEngine::beginOptimizers() {
  if (beforeUpdate)
    for (size_t unit = 0; unit < state->units.size(); ++unit)
      beforeUpdate(unit);
}

void CudaEngine::update() {
  if (control.askedToStop())
    numbers->setCount(compute, 1);
  if (branch) {
    normFunction->run();
    updating = true;
    return;
  }
  beginOptimizers();
  if (staging)
    numbers->beginUpdate(compute);
  updateFunction->run();
}

// Before anything but the next step reads what the optimizers write.
void CudaEngine::finishUpdate() {
  if (!std::exchange(updating, false))
    return;
  beginOptimizers();
  updateFunction->run();
}

void CudaEngine::endStep() { numbers->endStep(compute); }

std::optional<StepResult> CudaEngine::result(bool wait) {
  std::optional<StepResult> result = numbers->take(wait, waiting());
  if (result && staging)
    result->offloadBytes = staging->bytes();
  return result;
}

void CudaEngine::evalMicrobatch() {
  if (!evaluating) {
    finishUpdate();
    numbers->interrupt();
    numbers->clearLoss(compute);
    evaluating = true;
  }
  sendBatch();
  evalFunction->run();
  evaluated = true;
}

void CudaEngine::gatherLosses() {
  collectives->announce("a sum of losses");
  collectives->beginFunction();
  collectives->allGather(context.cells.loss, context.cells.losses, 2);
  collectives->endFunction();
  collectives->launched();
}

Engine::Evaluation CudaEngine::evaluation(double count) {
  evaluating = false;
  if (count == 0)
    numbers->clearLoss(compute);
  numbers->setCount(compute, count);
  gatherLosses();
  return numbers->readLosses(compute, waiting());
}

// ---- Memory

// Of the device, without its context: what this rank has taken since.
void CudaEngine::publishMemory() {
  RankBlock &mine = control.block(context.rank);
  mine.peakBytes.store(totalBytes(items));
  Device::Memory memory = device.memory();
  mine.pssBytes.store(freeAtStart - memory.free);
  contextBytes = memory.total - memory.free - totalBytes(items);
}

MemoryUse CudaEngine::memory(int64_t, bool last) {
  if (last) {
    publishMemory();
    exchange.barrier(Activity::End);
  }
  MemoryUse use = largestUse(control);
  use.context = contextBytes;
  return use;
}

std::optional<double> CudaEngine::peakFlops() const {
  return cuda::peakFlops(device.name());
}

void CudaEngine::finish() {
  finishUpdate();
  compute.synchronize(waiting().c_str());
  exchange.barrier(Activity::End);
}

// ---- The trace

void CudaEngine::drain() {
  compute.synchronize(waiting().c_str());
  copy.synchronize(waiting().c_str());
}

// Each traced step has one update: where the first does not run beside the one
// of the step before, the last has its own.
void CudaEngine::beginTrace() {
  if (!beganWithUpdate)
    beganWithUpdate = updating;
  drain();
  Tracer::Queues queues = collectives->queues();
  queues.push_back({compute, TraceRow::Compute});
  queues.push_back({copy, TraceRow::Copy});
  if (branch)
    queues.push_back({*branch, TraceRow::Update});
  if (staging)
    for (CUstream stream : staging->streams())
      queues.push_back({stream, TraceRow::Copy});
  if (hostCopies)
    for (CUstream stream : hostCopies->streams())
      queues.push_back({stream, TraceRow::Copy});
  tracer.begin(queues);
  context.issued = tracer.issued();
}

void CudaEngine::endTrace() {
  if (!*beganWithUpdate)
    finishUpdate();
  drain();
  context.issued = nullptr;
  tracer.end();
}

// The optimizers, which would run beside the next step, belong to the last.
void CudaEngine::pauseTrace() {
  finishUpdate();
  endTrace();
}

// ---- What the start says

bool CudaEngine::isVerbose() const {
  static const char *asked = std::getenv("SHARDONNX_VERBOSE");
  return context.rank == 0 && asked && std::strcmp(asked, "1") == 0;
}

void CudaEngine::log(const char *phase) {
  if (!isVerbose())
    return;
  double now = monotonicSeconds();
  Device::Memory memory = device.memory();
  std::fprintf(stderr, "start: %-22s %7.3f s, %s taken of the GPU\n", phase,
               now - phaseBegin,
               formatBytes(freeAtStart - memory.free).c_str());
  phaseBegin = monotonicSeconds();
}

// What the plan does not have: measured, never predicted.
void CudaEngine::logMemory() const {
  if (!isVerbose())
    return;
  Device::Memory memory = device.memory();
  int64_t planned = totalBytes(items), taken = freeAtStart - memory.free;
  if (int64_t bytes = offloadedBytes(manifest, topology, options.offload);
      bytes > 0)
    std::fprintf(stderr, "memory: %s in pinned host memory (--offload)\n",
                 formatBytes(bytes).c_str());
  std::fprintf(stderr,
               "memory: %s planned; %s beside it for modules, graphs and "
               "communicators; %s for the CUDA context and other programs\n",
               formatBytes(planned).c_str(),
               formatBytes(taken - planned).c_str(),
               formatBytes(memory.total - freeAtStart).c_str());
}

// ---- The platform

// Whoever lacks a driver lacks it on every rank of its machine: one speaks.
void CudaPlatform::prepare(const RankInfo &info, char **) {
  ::mallopt(M_ARENA_MAX, 1); // the threads allocate next to nothing
  try {
    requireDevices();
  } catch (const Error &e) {
    if (info.localRank == 0)
      throw;
    throw Error(e.what(), kExitFollows);
  }
}

int64_t CudaPlatform::sharedBytes(const Manifest &manifest, const Options &,
                                  const Topology &topology) {
  return static_cast<int64_t>(
      Control::bytes(topology.ranks, manifest.units.size()));
}

std::unique_ptr<Engine> CudaPlatform::makeEngine(const EngineSetup &setup) {
  return std::make_unique<CudaEngine>(setup, code);
}

} // namespace shardonnx::rt::cuda
