// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a compilation decides by bytes: --fit, --recompute=budget and
// --memory-budget, and what it says of them.

#include "Fit.h"
#include "Trial.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Driver/Compilation.h"
#include "shardonnx/runtime/ByteSize.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace shardonnx {

// What would let the step fit, of what was not settled by an option.
static std::string fitAdvice(const CompileOptions &options, int64_t bytes) {
  std::string text = "give --fit=" + std::to_string(bytes);
  if (options.given.strategy)
    text += ", leave --strategy out";
  if (options.given.recompute)
    text += ", leave --recompute out";
  if (options.given.prefetch)
    text += ", leave the prefetch distances out";
  text += ", or try more ranks (--world-size), a smaller --batch";
  if (options.paramDtype == SHX_F32 && !options.strictNumerics)
    text += " or --param-dtype=bf16";
  return text;
}

static LogicalResult refuseFit(const FitOutcome &outcome,
                               const CompileOptions &options, StringRef rank,
                               Diagnostics &diags) {
  std::vector<std::string> tried;
  for (Strategy strategy : outcome.tried)
    tried.emplace_back(spell(strategy));
  const FitTrial &least = *outcome.smallest;
  return diags.error(
      "--fit: " + formatBytes(*options.fit) + " are too few for '" +
      options.model + "' on " + rank + ": of " + llvm::join(tried, ", ") +
      " with " +
      (options.given.recompute ? "--recompute=" + options.recompute.text()
                               : "as much recomputation as there is") +
      ", --strategy=" + spell(least.strategy) + " takes least, " +
      formatExactBytes(least.bytes) + "; " + fitAdvice(options, least.bytes));
}

// Both decide what the options then say, so only one of them does.
LogicalResult Compilation::fitBytes() {
  if (options.fit)
    return fit();
  if (options.memoryBudget &&
      (mayRecompute(options) || options.offloadActivations))
    return fitBudget();
  return success();
}

LogicalResult Compilation::fit() {
  FailureOr<const ProgramOptions *> told = programOptions();
  if (failed(told))
    return failure();
  FitOutcome outcome = findFit(module(), options, **told);
  // What a pass refuses it refuses on the module itself, and says why.
  std::optional<FitTrial> taken =
      outcome.fastest ? outcome.fastest : outcome.broken;
  std::string rank = "a rank of " + std::to_string(*options.worldSize);
  if (!taken)
    return refuseFit(outcome, options, rank, diags);
  if (outcome.fastest)
    diags.note(
        "--fit: " + taken->text() + ": " + formatBytes(taken->bytes) + " of " +
        formatBytes(*options.fit) + " on " + rank +
        (options.target == TargetKind::CUDA ? ", headroom included, " : ", ") +
        llvm::formatv("{0:F2}", 1e3 * taken->seconds).str() +
        " ms a step predicted");
  options = withTrial(options, *taken);
  if (taken->recomputePlan)
    module()->setAttr(fsdp::kRecomputePlanAttr, taken->recomputePlan);
  program->strategy = taken->strategy;
  return success();
}

// `--memory-budget` where nothing is said of recomputation, or activations may
// be offloaded: of each tensor, whether it is kept, waits on the host or is
// computed again is decided with the schedule, by the predicted time of what
// fits.
LogicalResult Compilation::fitBudget() {
  FailureOr<const ProgramOptions *> told = programOptions();
  if (failed(told))
    return failure();
  CompileOptions asked = options;
  asked.fit = options.memoryBudget;
  asked.memoryBudget.reset();
  asked.given.strategy = true;
  asked.given.prefetch = false;
  FitOutcome outcome = findFit(module(), asked, **told);
  // What a pass refuses it refuses on the module itself, and says why.
  if (!outcome.fastest && outcome.broken)
    return success();
  std::string rank = "a rank of " + std::to_string(*options.worldSize);
  if (!outcome.fastest)
    return diags.error(
        "--memory-budget: " + formatBytes(*options.memoryBudget) +
        " are too few: " + rank + " takes at least " +
        formatExactBytes(outcome.smallest->bytes) + " for '" + options.model +
        "' with --strategy=" + spell(options.strategy) +
        ", whatever is computed again; give that much, more ranks "
        "(--world-size) or a smaller batch");
  const FitTrial &taken = *outcome.fastest;
  if (taken.recompute.kind != RecomputeKind::None || options.offloadActivations)
    diags.note(
        "--memory-budget: --recompute=" + taken.recompute.text() +
        (taken.offloadActivations ? " --offload=activations" : "") + ": " +
        formatBytes(taken.bytes) + " of " + formatBytes(*options.memoryBudget) +
        " on " + rank +
        (options.target == TargetKind::CUDA ? ", headroom included, " : ", ") +
        llvm::formatv("{0:F2}", 1e3 * taken.seconds).str() +
        " ms a step predicted");
  options.recompute = taken.recompute;
  if (taken.recomputePlan)
    module()->setAttr(fsdp::kRecomputePlanAttr, taken.recomputePlan);
  options.offloadActivations = taken.offloadActivations;
  return success();
}

// Activations go to the host only where something must give way and the step is
// faster for it.
LogicalResult Compilation::fitRecompute() {
  FailureOr<const ProgramOptions *> told = programOptions();
  if (failed(told))
    return failure();
  auto manifestOf = [&](ModuleOp planned) {
    return buildTrialManifest(planned, **told);
  };
  RecomputeTrials trials;
  CompileOptions tried = options;
  tried.offloadActivations = false;
  RecomputeOutcome best =
      shardonnx::fitRecompute(module(), tried, manifestOf, trials);
  bool offloads = false;
  if (options.offloadActivations && !best.broken && !best.keepsAll) {
    RecomputeOutcome other =
        shardonnx::fitRecompute(module(), options, manifestOf, trials);
    offloads = other.broken ||
               (other.fits && (!best.fits || other.seconds < best.seconds));
    other.least = std::min(other.least, best.least);
    if (offloads || !other.fits)
      best = other;
  }
  if (!best.fits && !best.broken)
    return diags.error(
        "--recompute=budget: " + formatBytes(options.recompute.number) +
        " are too few: activations and workspaces of '" + options.model +
        "' take at least " + formatBytes(best.least) +
        " on a rank, whatever is computed again; give budget:" +
        std::to_string(best.least) +
        " or more, or compile with a smaller batch");
  if (options.offloadActivations && !offloads && !best.broken)
    diags.note("--offload=activations: no step that keeps --recompute=" +
               options.recompute.text() +
               " is faster for it, so activations stay on the GPU");
  options.offloadActivations = offloads;
  if (best.plan)
    module()->setAttr(fsdp::kRecomputePlanAttr, best.plan);
  return success();
}

LogicalResult Compilation::fitMemory() {
  FailureOr<const ProgramOptions *> program = programOptions();
  if (failed(program))
    return failure();
  BudgetOutcome outcome =
      shardonnx::fitMemory(module(), options, [&](ModuleOp planned) {
        return buildTrialManifest(planned, **program);
      });
  if (outcome.fits || outcome.broken)
    return success();
  return diags.error(
      "--memory-budget: " + formatBytes(*options.memoryBudget) +
      " are too few: a rank of " + Twine(*options.worldSize) +
      " takes at least " + formatExactBytes(outcome.least) + " for '" +
      options.model + "' with --strategy=" + spell(options.strategy) +
      " and --recompute=" + options.recompute.text() +
      "; give that much, more ranks (--world-size), a smaller batch or more "
      "recomputation");
}

} // namespace shardonnx
