// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is made of memory that a rank has left. First, gathers start as far
// ahead as the prefetch distances say. Then units are kept over the steps,
// those first whose gather takes longest for a byte. What is left then has
// gathers start earlier still. Every choice is tried on a copy and measured
// with the planner that the executable's own prediction comes from.

#include "Trial.h"
#include "shardonnx/Cost/Exposure.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/runtime/MemoryPlan.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"

#include <functional>

using namespace mlir;

namespace shardonnx {

static void setNumber(ModuleOp module, StringRef name,
                      std::optional<int64_t> number) {
  if (number)
    module->setAttr(name,
                    OpBuilder(module.getContext()).getI64IntegerAttr(*number));
  else
    module->removeAttr(name);
}

void gatherLate(ModuleOp module) {
  setNumber(module, fsdp::kGatherBudgetAttr, 0);
}

std::optional<PlannedStep> planStep(ModuleOp module,
                                    const CompileOptions &options,
                                    ManifestOf manifestOf, Level first) {
  OwningOpRef<ModuleOp> planned = planCopy(module, first, options);
  std::string error;
  std::optional<Manifest> manifest;
  if (planned)
    manifest = parseManifest(manifestOf(*planned), error);
  if (!manifest)
    return std::nullopt;
  int64_t ranks = options.worldSize.value_or(options.mesh.together());
  int threads = threadsPerRank(ranks);
  Topology topology(static_cast<int>(ranks), 1, /*ranksHere=*/0,
                    manifest->sliceAlignment(),
                    static_cast<int>(options.mesh.tensor()),
                    static_cast<int>(options.mesh.context()));
  PlannedStep step;
  step.device = deviceOfProgram(manifest->cuda(), manifest->arch, threads);
  step.bytes = totalBytes(planMemory(*manifest, topology, threads)) +
               totalBytes(planHeadroom(*manifest, topology));
  step.time = predictExposure(*manifest, step.device, topology);
  step.manifest = std::move(*manifest);
  return step;
}

namespace {

class MemoryFitter {
public:
  MemoryFitter(ModuleOp module, const CompileOptions &options,
               ManifestOf manifestOf)
      : module(module), options(options), manifestOf(manifestOf),
        ranks(*options.worldSize),
        owners(*options.worldSize / options.mesh.tensor(),
               options.mesh.tensor()),
        budget(*options.memoryBudget), builder(module.getContext()) {}

  BudgetOutcome run();

private:
  bool measure();
  bool fits() { return measure() && step.bytes <= budget; }
  void setNumber(StringRef name, std::optional<int64_t> number) {
    shardonnx::setNumber(module, name, number);
  }
  void setKept(ArrayRef<std::string> names);
  void mergeSmall();
  void keepUnits();
  void startEarlier(std::optional<int64_t> otherwise);

  ModuleOp module;
  const CompileOptions &options;
  ManifestOf manifestOf;
  int64_t ranks;
  RankGroup owners; // of a unit
  int64_t budget;
  OpBuilder builder;
  PlannedStep step;    // of the last measurement
  bool broken = false; // a pass has failed
};

} // namespace

void MemoryFitter::setKept(ArrayRef<std::string> names) {
  SmallVector<Attribute> list;
  for (const std::string &name : names)
    list.push_back(builder.getStringAttr(name));
  module->setAttr(fsdp::kKeepAttr, builder.getArrayAttr(list));
}

bool MemoryFitter::measure() {
  std::optional<PlannedStep> planned = planStep(module, options, manifestOf);
  broken |= !planned;
  if (planned)
    step = std::move(*planned);
  return planned.has_value();
}

// Neighbours whose gathers would take longer to begin than to run, if the step
// then waits less: what is merged overlaps less, so only smaller ones may do,
// and of equals the least is merged.
void MemoryFitter::mergeSmall() {
  constexpr int64_t kFractions[] = {512, 64, 8, 1};
  if (!measure())
    return;
  double least = step.time.exposed;
  int64_t whole = step.device.latencyBytes(owners);
  std::optional<int64_t> best;
  for (int64_t fraction : kFractions) {
    setNumber(fsdp::kMergeBelowAttr, whole / fraction);
    if (fits() && step.time.exposed < least) {
      least = step.time.exposed;
      best = whole / fraction;
    }
  }
  setNumber(fsdp::kMergeBelowAttr, best);
}

// The largest number of units that fit, in the order of seconds that a byte of
// their gathers takes.
void MemoryFitter::keepUnits() {
  if (!measure())
    return;
  std::vector<std::pair<double, std::string>> units;
  for (const Manifest::Unit &unit : step.manifest.units)
    if (unit.sharded && !unit.kept)
      units.push_back(
          {step.device.gatherSeconds(double(unit.sentBytes()), owners) /
               double(unit.gatheredBytes()),
           unit.name});
  llvm::stable_sort(
      units, [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<std::string> names;
  for (const auto &[seconds, name] : units)
    names.push_back(name);
  // Often none fits, so it begins with one.
  size_t enough = 0, tooMany = names.size() + 1, middle = 1;
  while (enough + 1 < tooMany) {
    setKept(ArrayRef(names).take_front(middle));
    (fits() ? enough : tooMany) = middle;
    middle = (enough + tooMany) / 2;
  }
  setKept(ArrayRef(names).take_front(enough));
}

// Offsets may leave gaps, so a budget of live bytes that should fit may not.
// What starts earlier may also stand before what is needed sooner: then not.
void MemoryFitter::startEarlier(std::optional<int64_t> otherwise) {
  constexpr int kTries = 4;
  if (!fits())
    return;
  // Ranks of a machine share what they gather, unless they have GPUs.
  int64_t sharing = step.manifest.cuda() ? 1 : ranks;
  double before = step.time.exposed;
  int64_t gathered = step.manifest.gatherSpace.lowerBoundBytes +
                     (budget - step.bytes) * sharing;
  for (int i = 0; i < kTries && gathered > 0; ++i) {
    setNumber(fsdp::kGatherBudgetAttr, gathered);
    if (!measure())
      return;
    if (step.bytes <= budget && step.time.exposed <= before)
      return;
    if (step.bytes <= budget)
      break;
    gathered -= (step.bytes - budget) * sharing;
  }
  setNumber(fsdp::kGatherBudgetAttr, otherwise);
}

BudgetOutcome MemoryFitter::run() {
  gatherLate(module);
  bool leastFits = fits();
  int64_t least = step.bytes;
  if (broken || !leastFits)
    return {false, least, broken};
  std::optional<int64_t> start; // the prefetch distances
  setNumber(fsdp::kGatherBudgetAttr, start);
  bool distancesFit = fits();
  if (!distancesFit)
    setNumber(fsdp::kGatherBudgetAttr, start = 0);
  mergeSmall();
  if (distancesFit)
    keepUnits();
  startEarlier(start);
  return {true, least, broken};
}

BudgetOutcome fitMemory(ModuleOp module, const CompileOptions &options,
                        ManifestOf manifestOf) {
  return MemoryFitter(module, options, manifestOf).run();
}

} // namespace shardonnx
