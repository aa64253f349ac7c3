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
namespace {

class MemoryFitter {
public:
  MemoryFitter(ModuleOp module, const CompileOptions &options,
               llvm::function_ref<std::string(ModuleOp)> manifestOf)
      : module(module), options(options), manifestOf(manifestOf),
        ranks(*options.worldSize), threads(threadsPerRank(ranks)),
        budget(*options.memoryBudget), builder(module.getContext()) {}

  LogicalResult run(Diagnostics &diagnostics);

private:
  Device device() const {
    return deviceOfProgram(manifest.cuda(), manifest.arch, threads);
  }
  bool measure();
  bool fits() { return measure() && bytes <= budget; }
  void setNumber(StringRef name, std::optional<int64_t> number);
  void setKept(ArrayRef<std::string> names);
  void mergeSmall();
  void keepUnits();
  void startEarlier(std::optional<int64_t> otherwise);

  ModuleOp module;
  const CompileOptions &options;
  llvm::function_ref<std::string(ModuleOp)> manifestOf;
  int64_t ranks;
  int threads;
  int64_t budget;
  OpBuilder builder;
  // Of the last measurement.
  Manifest manifest;
  int64_t bytes = 0;
  double exposed = 0;  // seconds of a step, predicted
  bool broken = false; // a pass has failed: the compilation will say why
};

} // namespace

void MemoryFitter::setNumber(StringRef name, std::optional<int64_t> number) {
  if (number)
    module->setAttr(name, builder.getI64IntegerAttr(*number));
  else
    module->removeAttr(name);
}

void MemoryFitter::setKept(ArrayRef<std::string> names) {
  SmallVector<Attribute> list;
  for (const std::string &name : names)
    list.push_back(builder.getStringAttr(name));
  module->setAttr(fsdp::kKeepAttr, builder.getArrayAttr(list));
}

// Plans a copy as the module's attributes say.
bool MemoryFitter::measure() {
  OwningOpRef<ModuleOp> planned = planCopy(module, Level::FSDP, options);
  std::string error;
  std::optional<Manifest> parsed;
  if (planned)
    parsed = parseManifest(manifestOf(*planned), error);
  broken |= !parsed;
  if (!parsed)
    return false;
  manifest = std::move(*parsed);
  Topology topology(static_cast<int>(ranks), 1);
  bytes = totalBytes(planMemory(manifest, topology, threads));
  exposed = predictExposure(manifest, device(), topology).exposed;
  return true;
}

// Neighbours whose gathers would take longer to begin than to run, if the step
// then waits less: what is merged overlaps less, so only smaller ones may do.
void MemoryFitter::mergeSmall() {
  constexpr int64_t kFractions[] = {1, 8, 64, 512};
  if (!measure())
    return;
  double least = exposed;
  int64_t whole = device().latencyBytes(ranks);
  std::optional<int64_t> best;
  for (int64_t fraction : kFractions) {
    setNumber(fsdp::kMergeBelowAttr, whole / fraction);
    if (fits() && exposed < least) {
      least = exposed;
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
  for (const Manifest::Unit &unit : manifest.units)
    if (unit.sharded && !unit.kept)
      units.push_back(
          {device().gatherSeconds(double(unit.gatheredBytes()), ranks) /
               double(unit.gatheredBytes()),
           unit.name});
  llvm::stable_sort(
      units, [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<std::string> names;
  for (const auto &[seconds, name] : units)
    names.push_back(name);
  size_t enough = 0, tooMany = names.size() + 1;
  while (enough + 1 < tooMany) {
    size_t middle = (enough + tooMany) / 2;
    setKept(ArrayRef(names).take_front(middle));
    (fits() ? enough : tooMany) = middle;
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
  int64_t sharing = manifest.cuda() ? 1 : ranks;
  double before = exposed;
  int64_t gathered =
      manifest.gatherSpace.lowerBoundBytes + (budget - bytes) * sharing;
  for (int i = 0; i < kTries && gathered > 0; ++i) {
    setNumber(fsdp::kGatherBudgetAttr, gathered);
    if (!measure())
      return;
    if (bytes <= budget && exposed <= before)
      return;
    if (bytes <= budget)
      break;
    gathered -= (bytes - budget) * sharing;
  }
  setNumber(fsdp::kGatherBudgetAttr, otherwise);
}

LogicalResult MemoryFitter::run(Diagnostics &diagnostics) {
  // Each gather where it is needed: there is no less.
  setNumber(fsdp::kGatherBudgetAttr, 0);
  bool least = fits();
  if (broken)
    return success();
  if (!least)
    return diagnostics.error(
        "--memory-budget=" + Twine(budget) + ": a rank of " + Twine(ranks) +
        " takes at least " + Twine(bytes) + " bytes for '" + options.model +
        "' with --strategy=" + spell(options.strategy) +
        " and --recompute=" + options.recompute.text() +
        "; give that much, more ranks (--world-size), a "
        "smaller batch or more recomputation");
  std::optional<int64_t> start; // the prefetch distances
  setNumber(fsdp::kGatherBudgetAttr, start);
  bool distancesFit = fits();
  if (!distancesFit)
    setNumber(fsdp::kGatherBudgetAttr, start = 0);
  mergeSmall();
  if (distancesFit)
    keepUnits();
  startEarlier(start);
  return success();
}

LogicalResult fitMemory(ModuleOp module, const CompileOptions &options,
                        llvm::function_ref<std::string(ModuleOp)> manifestOf,
                        Diagnostics &diagnostics) {
  return MemoryFitter(module, options, manifestOf).run(diagnostics);
}

} // namespace shardonnx
