// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each strategy is compiled up to its memory plan with as little recomputation
// as fits, then with state moved to host memory; of a strategy's ways that fit
// the fastest stands in the table. A compiled step serves every number of
// ranks, so more ranks cost nothing to try. Axes that change the program are
// tried in PlanMeshes.cpp.

#include "shardonnx/Driver/Plan.h"
#include "CheckOptions.h"
#include "InspectReport.h"
#include "OutputCheck.h"
#include "PlanSearch.h"
#include "ReportPage.h"
#include "Trial.h"
#include "shardonnx/Cost/FrameworkMemory.h"
#include "shardonnx/Driver/Compilation.h"
#include "shardonnx/Driver/Pipeline.h"
#include "shardonnx/Support/InputFile.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace shardonnx {

// What passes have to say about the graph is said once, by the import.
LogicalResult PlanSearch::start(const Mesh &given, int64_t batch,
                                const PlanSearch *like) {
  mesh = given;
  CompileOptions compile = options.compile;
  compile.mesh = mesh;
  if (batch > 0)
    compile.batch = batch;
  if (failed(checkOptions(compile, diagnostics, /*links=*/false)))
    return failure();
  compilation =
      std::make_unique<Compilation>(compile, diagnostics, ImportOptions());
  if (failed(compilation->runTo(Level::NN)))
    return failure();
  if (like) {
    program = like->program;
  } else {
    FailureOr<const ProgramOptions *> told = compilation->programOptions();
    if (failed(told))
      return failure();
    program = **told;
  }
  eager = countEager(compilation->module());
  return success();
}

LogicalResult PlanSearch::explain() {
  return compilation->runTo(Level::Memory);
}

CompileOptions PlanSearch::optionsOf(Strategy strategy, Recompute recompute,
                                     bool offloadActivations) const {
  CompileOptions compile = options.compile;
  compile.mesh = mesh;
  compile.fit.reset();
  compile.strategy = strategy;
  compile.recompute = recompute;
  compile.offloadActivations = offloadActivations;
  return compile;
}

ModuleOp PlanSearch::gradOf(Recompute recompute) {
  auto [found, isNew] = grads.try_emplace(recompute.text());
  if (!isNew)
    return *found->second;
  ModuleOp module = compilation->module();
  ScopedDiagnosticHandler silent(module.getContext(),
                                 [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> copy(module.clone());
  PassManager pm(module.getContext());
  pm.enableVerifier(false); // planCopy verifies what becomes of it
  CompileOptions compile = optionsOf(Strategy::FullShard, recompute);
  addPassesTo(Level::Grad, pm, compile);
  if (succeeded(pm.run(*copy)))
    found->second = std::move(copy);
  return *found->second;
}

std::shared_ptr<const Manifest> PlanSearch::stepOf(Strategy strategy,
                                                   Recompute recompute,
                                                   bool offloadActivations) {
  auto key = std::make_tuple(strategy, recompute.text(), offloadActivations);
  if (auto found = steps.find(key); found != steps.end())
    return found->second;
  std::shared_ptr<const Manifest> &step = steps[key];
  // What others recompute selectively is added to the time of their step.
  bool others = plan.as && recompute.kind == RecomputeKind::Selective;
  ModuleOp grad = gradOf(others ? Recompute() : recompute);
  if (!grad)
    return step;
  OwningOpRef<ModuleOp> planned = planCopy(
      grad, Level::FSDP, optionsOf(strategy, recompute, offloadActivations));
  if (!planned)
    return step;
  program.strategy = strategy;
  std::string error;
  std::optional<Manifest> manifest =
      parseManifest(buildTrialManifest(*planned, program), error);
  if (manifest)
    step = std::make_shared<const Manifest>(std::move(*manifest));
  return step;
}

// A replica is a machine, unless the mesh says otherwise.
Topology PlanSearch::topologyOf(Strategy strategy, int64_t gpus) const {
  int64_t here = std::min(gpus, plan.gpusPerNode);
  int64_t replicas = 1;
  if (isHybrid(strategy)) {
    int64_t named = mesh.size(MeshAxis::Replicate),
            shards = mesh.size(MeshAxis::Shard);
    int64_t each = shards > 0 ? shards * mesh.together() : here;
    replicas = named > 0 ? named : std::max<int64_t>(1, gpus / each);
  }
  return {static_cast<int>(gpus),          static_cast<int>(replicas),
          static_cast<int>(here),          kSliceAlignment,
          static_cast<int>(mesh.tensor()), static_cast<int>(mesh.context())};
}

// Hybrid strategies where there are several replicas, each of whole groups of
// ranks that compute together.
bool PlanSearch::serves(Strategy strategy) const {
  if (options.compile.given.strategy)
    return strategy == options.compile.strategy;
  Topology ranks = topologyOf(strategy, plan.gpus);
  int64_t group = ranks.ranks / ranks.replicas;
  int64_t replicas = mesh.size(MeshAxis::Replicate),
          shards = mesh.size(MeshAxis::Shard);
  if (ranks.ranks % ranks.replicas != 0 || group % mesh.together() != 0 ||
      isHybrid(strategy) != (ranks.replicas > 1) ||
      (replicas > 0 && replicas != ranks.replicas) ||
      (shards > 0 && shards * mesh.together() != group))
    return false;
  // One rank has nobody to share with.
  return suitsPolicies(strategy, options.compile) &&
         (plan.gpus > 1 || strategy == Strategy::NoShard);
}

std::vector<Strategy> PlanSearch::strategies() const {
  std::vector<Strategy> list;
  for (Strategy strategy : allValues<Strategy>())
    if (serves(strategy))
      list.push_back(strategy);
  return list;
}

static std::string meshText(const Topology &ranks) {
  std::string text = "replicate:" + std::to_string(ranks.replicas) + ",shard:" +
                     std::to_string(ranks.groupSize() / ranks.context);
  if (ranks.context > 1)
    text += ",context:" + std::to_string(ranks.context);
  if (ranks.tensor > 1)
    text += ",tensor:" + std::to_string(ranks.tensor);
  return text;
}

Mesh meshOf(const PlannedWay &way) {
  Mesh mesh;
  mesh.set(MeshAxis::Context, way.ranks.context);
  mesh.set(MeshAxis::Tensor, way.ranks.tensor);
  return mesh;
}

std::string axesText(const PlannedWay &way) { return meshOf(way).text(); }

PlannedWay PlanSearch::wayOf(const std::shared_ptr<const Manifest> &step,
                             const Trial &trial, int64_t gpus) const {
  const Manifest &m = *step;
  PlannedWay way;
  way.strategy = trial.strategy;
  way.recompute = trial.recompute;
  way.offload = trial.offload;
  way.offloadActivations = trial.offloadActivations;
  way.manifest = step;
  way.batch = m.batch;
  way.accumulate = trial.accumulate;
  way.ranks = topologyOf(trial.strategy, gpus);
  way.ranks.sliceAlignment = m.sliceAlignment();
  way.mesh = meshText(way.ranks);
  int threads =
      m.cuda() ? 1 : threadsPerRank(std::min<int64_t>(gpus, plan.gpusPerNode));
  EagerTraffic traffic;
  traffic.logits = eager.logits;
  for (const Manifest::Unit &unit : m.units)
    traffic.units.push_back(eager.units.lookup(unit.name));
  way.memory =
      plan.as && plan.as->memory
          ? frameworkMemory(m, way.ranks, *plan.as->memory, traffic,
                            trial.recompute)
          : planMemory(m, way.ranks, threads, trial.accumulate, trial.offload);
  way.memoryBytes = totalBytes(way.memory);
  way.headroomBytes = totalBytes(planHeadroom(m, way.ranks));
  way.hostBytes = offloadedBytes(m, way.ranks, trial.offload);
  way.fits =
      double(way.memoryBytes + (options.memory ? 0 : way.headroomBytes)) <=
      plan.memoryBytes;
  Device device = plan.device;
  device.perMachine = plan.gpusPerNode;
  StepPlay play{trial.accumulate,
                options.straggler,
                plan.as ? &*plan.as : nullptr,
                &traffic,
                trial.recompute.kind == RecomputeKind::Selective,
                trial.offload};
  way.time = predictExposure(m, device, way.ranks, play);
  double offload = offloadSeconds(m, way.ranks, trial.offload, device);
  way.time.exposed += offload;
  way.stepSeconds = way.time.seconds();
  way.tokensPerSecondPerGpu =
      tokensPerSecond(m, trial.accumulate, way.stepSeconds);
  double peak =
      m.paramType == SHX_F32 ? plan.device.f32Peak : plan.device.halfPeak;
  way.mfu =
      m.flopsPerMicrobatch * double(trial.accumulate) / way.stepSeconds / peak;
  if (options.tokens)
    way.hours =
        *options.tokens / (way.tokensPerSecondPerGpu * double(gpus)) / 3600;
  if (way.hours && options.price)
    way.cost = *way.hours * double(gpus) * *options.price;
  return way;
}

// In the order in which they are to be preferred where they take equally long.
std::vector<Recompute> PlanSearch::recomputations() const {
  if (options.compile.given.recompute || options.compile.given.strategy)
    return {options.compile.recompute};
  return {{RecomputeKind::None},
          {RecomputeKind::Selective},
          {RecomputeKind::Block}};
}

std::vector<Offload> PlanSearch::offloads() const {
  if (options.compile.given.strategy)
    return {Offload::None};
  return {Offload::None, Offload::Optimizer, Offload::Params};
}

// With --offload=activations where that makes a way fit, or in the one way that
// is shown.
std::vector<bool> PlanSearch::activations() const {
  if (!options.compile.offloadActivations || plan.as)
    return {false};
  if (options.compile.given.strategy)
    return {true};
  return {false, true};
}

std::string offloadText(const PlannedWay &way) {
  if (!way.offloadActivations)
    return spell(way.offload);
  return (way.offload == Offload::None
              ? ""
              : std::string(spell(way.offload)) + ",") +
         "activations";
}

bool isFaster(const PlannedWay &a, const PlannedWay &b) {
  return a.tokensPerSecondPerGpu > b.tokensPerSecondPerGpu;
}

double gainOf(const PlannedWay &a, const PlannedWay &b) {
  double ratio = a.tokensPerSecondPerGpu / b.tokensPerSecondPerGpu;
  auto offloads = [](const PlannedWay &way) {
    return way.offload != Offload::None || way.offloadActivations;
  };
  if (offloads(a) == offloads(b))
    return ratio;
  return offloads(a) ? ratio / kOffloadGain : ratio * kOffloadGain;
}

std::optional<PlannedWay> PlanSearch::bestOf(Strategy strategy, int64_t gpus,
                                             int64_t accumulate,
                                             double tokens) {
  std::optional<PlannedWay> fastest, smallest;
  for (const Recompute &recompute : recomputations()) {
    bool mayFit = false, fitsAlone = false;
    double reachedHere = 0;
    for (bool onHost : activations()) {
      // Copies make no step faster.
      std::shared_ptr<const Manifest> step =
          fitsAlone ? nullptr : stepOf(strategy, recompute, onHost);
      if (!step)
        continue;
      for (Offload offload : offloads()) {
        PlannedWay way = wayOf(
            step, {strategy, recompute, offload, accumulate, onHost}, gpus);
        // Recomputation makes activations smaller, nothing else.
        mayFit |= double(way.memoryBytes - step->privateSpace.bytes) <=
                  plan.memoryBytes;
        reachedHere = std::max(reachedHere, way.tokensPerSecondPerGpu);
        mostTokensOfWork =
            std::max(mostTokensOfWork, way.tokensPerSecondPerGpu *
                                           way.stepSeconds / way.time.work);
        if (!smallest || way.memoryBytes < smallest->memoryBytes)
          smallest = way;
        if (way.fits && (!fastest || gainOf(way, *fastest) > 1))
          fastest = way;
        fitsAlone |= way.fits && offload == Offload::None;
        if (way.fits)
          break; // offloading more only takes longer
      }
    }
    mostTokens = std::max(mostTokens, reachedHere);
    // More recomputation makes no step faster but one that waits for copies.
    if (!mayFit || reachedHere <= tokens ||
        (fastest && fastest->offload == Offload::None &&
         fastest->time.copies == 0))
      break;
  }
  return fastest ? fastest : smallest;
}

// A thousandth is less than what the prediction knows: then less memory wins,
// and of meshes the one that stands first.
static void choose(Plan &plan) {
  constexpr double kEqual = 1e-3;
  for (auto [index, way] : llvm::enumerate(plan.ways)) {
    if (!way.fits)
      continue;
    if (!plan.chosen) {
      plan.chosen = index;
      continue;
    }
    const PlannedWay &best = plan.ways[*plan.chosen];
    double gain = gainOf(way, best);
    bool isEqual = gain > 1 - kEqual && axesText(way) == axesText(best);
    if (gain > 1 + kEqual || (isEqual && way.memoryBytes < best.memoryBytes))
      plan.chosen = index;
  }
}

static LogicalResult addWays(const PlanOptions &options, Plan &plan,
                             Diagnostics &diagnostics) {
  PlanSearch search(options, plan, diagnostics);
  if (failed(search.start(options.compile.mesh)))
    return failure();
  for (Strategy strategy : search.strategies())
    if (std::optional<PlannedWay> way =
            search.bestOf(strategy, plan.gpus, options.accumulate))
      plan.ways.push_back(std::move(*way));
  // On the module itself the passes say why.
  if (plan.ways.empty()) {
    if (failed(search.explain()))
      return failure();
    return diagnostics.internalError("'" + options.compile.model +
                                     "': no strategy can be planned");
  }
  if (options.searchesMeshes && !plan.as && !options.compile.mesh.given() &&
      !options.compile.given.strategy && plan.device.target == TargetKind::CUDA)
    addMeshes(options, search, plan);
  choose(plan);
  if (!plan.chosen)
    addRemedies(options, search, plan);
  return success();
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

namespace {

// None: Shardonnx's own execution.
FailureOr<std::optional<Execution>> executionOf(const std::string &name,
                                                Diagnostics &diagnostics) {
  if (name == "shardonnx")
    return std::optional<Execution>();
  if (std::optional<Execution> known = executionNamed(name))
    return known;
  auto file = readInputFile(name, /*isText=*/true);
  if (!file)
    return diagnostics.error("--as: '" + name +
                             "' cannot be read: " + file.getError().message());
  std::string error;
  std::optional<Execution> read =
      parseExecution((*file)->getBuffer().str(), error);
  if (!read)
    return diagnostics.error("--as: '" + name + "': " + error);
  return read;
}

// The program is made for the device. On a GPU nobody trains in f32 unless it
// is asked for.
CompileOptions compileOptionsFor(const PlanOptions &options,
                                 const Device &device) {
  CompileOptions compile = options.compile;
  compile.target = device.target;
  if (device.target == TargetKind::CUDA) {
    if (compile.arch == "native")
      compile.arch = device.arch.empty() ? "sm_90" : device.arch;
    if (!options.paramDtypeGiven)
      compile.paramDtype = SHX_BF16;
  }
  compile.worldSize = options.gpus;
  if (compile.mesh.size(MeshAxis::Replicate) > 1 && !compile.given.strategy)
    compile.strategy = Strategy::HybridShard;
  compile.autoStrategy = false;
  return compile;
}

} // namespace

FailureOr<Device> givenDevice(const std::string &name,
                              Diagnostics &diagnostics) {
  if (std::optional<Device> known = deviceNamed(name))
    return std::move(*known);
  auto file = readInputFile(name, /*isText=*/true);
  if (!file)
    return diagnostics.error(
        "--device: '" + name + "' is none of " +
        llvm::join(deviceNames(), ", ") +
        ", and no file that can be read: " + file.getError().message());
  std::string error;
  std::optional<Device> device = parseDevice((*file)->getBuffer().str(), error);
  if (!device)
    return diagnostics.error("--device: '" + name + "': " + error);
  return std::move(*device);
}

FailureOr<Plan> makePlan(const PlanOptions &given, Diagnostics &diagnostics) {
  FailureOr<Device> device = givenDevice(given.device, diagnostics);
  if (failed(device))
    return failure();
  if (given.targetGiven && given.compile.target != device->target)
    return diagnostics.usageError(
        std::string("--target=") + spell(given.compile.target) + ": --device=" +
        given.device + " is one for --target=" + spell(device->target) +
        "; leave --target out, or name another device");
  FailureOr<std::optional<Execution>> as = executionOf(given.as, diagnostics);
  if (failed(as))
    return failure();
  PlanOptions options = given;
  options.compile = compileOptionsFor(given, *device);
  Plan plan;
  plan.model = given.compile.model;
  plan.as = *as;
  plan.gpus = given.gpus;
  plan.gpusPerNode = given.gpusPerNode.value_or(
      device->perMachine == 0 ? given.gpus : device->perMachine);
  plan.paramDtype = options.compile.paramDtype;
  bool cpu = device->target == TargetKind::CPU;
  int64_t here = std::min(plan.gpus, plan.gpusPerNode);
  plan.memoryBytes = given.memory
                         ? double(*given.memory)
                         : (device->memoryBytes - device->reservedBytes) /
                               double(cpu ? here : 1);
  plan.device =
      cpu ? withThreads(*device, threadsPerRank(here), here) : *device;
  if (failed(addWays(options, plan, diagnostics)))
    return failure();
  describeChoice(plan, options);
  return plan;
}

// The page says the same as --json.
static LogicalResult writePlanPage(const Plan &plan, const PlanOptions &options,
                                   Diagnostics &diagnostics) {
  std::string data;
  llvm::raw_string_ostream stream(data);
  printPlanJson(plan, options, stream);
  return writeReportPage(data, options.html, diagnostics);
}

LogicalResult takePlannedStrategy(CompileOptions &options,
                                  Diagnostics &diagnostics) {
  if (!options.autoStrategy)
    return success();
  PlanOptions asked;
  asked.compile = options;
  asked.gpus = *options.worldSize;
  asked.device = deviceOfProgram(options.target == TargetKind::CUDA,
                                 options.arch, /*threads=*/1)
                     .name;
  asked.paramDtypeGiven = true;
  asked.searchesMeshes = false;
  FailureOr<Plan> plan = makePlan(asked, diagnostics);
  if (failed(plan))
    return failure();
  if (!plan->chosen)
    return diagnostics.error("--strategy=auto: '" + options.model + "' on " +
                             Twine(*options.worldSize) + " x " + asked.device +
                             ": " + plan->why +
                             "; `shardonnx plan` shows what would fit");
  const PlannedWay &best = plan->ways[*plan->chosen];
  options.autoStrategy = false;
  options.strategy = best.strategy;
  options.recompute = best.recompute;
  diagnostics.note(
      "--strategy=auto: " + best.compileOptions + " on " +
      Twine(*options.worldSize) + " x " + asked.device + ": " + plan->why +
      (best.runOptions.empty() ? std::string()
                               : "; run it with " + best.runOptions));
  return success();
}

int runPlan(const PlanOptions &options) {
  if (!options.calibrate.empty())
    return runCalibration(options);
  Diagnostics diagnostics;
  if (options.html == "-" && options.json) {
    (void)diagnostics.error("--html=- and --json would both be written to "
                            "standard output; give --html a file");
    return kExitUsage;
  }
  if (failed(checkPlanned(options.compile, diagnostics)) ||
      (options.compile.mesh.given() &&
       failed(checkMeshRanks(options.compile.mesh, options.gpus, diagnostics))))
    return kExitUsage;
  std::vector<InputName> inputs = inputsOf(options.compile);
  inputs.push_back({"the file that --device names", options.device});
  inputs.push_back({"the file that --as names", options.as});
  if (failed(checkIsNoInput("--html", options.html, inputs, diagnostics)))
    return exitCodeOf(diagnostics);
  FailureOr<Plan> plan = makePlan(options, diagnostics);
  if (failed(plan) || (!options.html.empty() &&
                       failed(writePlanPage(*plan, options, diagnostics))))
    return exitCodeOf(diagnostics);
  if (options.json)
    printPlanJson(*plan, options, llvm::outs());
  else if (options.html.empty())
    printPlanText(*plan, options, llvm::outs());
  return finishOutput(diagnostics);
}

} // namespace shardonnx
