// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each strategy is tried with as little recomputation as lets it fit, where
// --offload=activations allows it also with activations in host memory. Both
// budgets then do the rest: --recompute=budget, and --memory-budget with what
// is left. Of all that fits, the step that is predicted to take least time is
// taken; of equals the first, in the order in which --help has the strategies.
// What could not be faster if no step ever waited is not tried any further.

#include "Fit.h"
#include "CheckOptions.h"
#include "Trial.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Driver/Pipeline.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

namespace shardonnx {

std::string FitTrial::text() const {
  std::string text = std::string("--strategy=") + spell(strategy) +
                     " --recompute=" + recompute.text();
  if (offloadActivations)
    text += " --offload=activations";
  if (memoryBudget)
    text += " --memory-budget=" + std::to_string(*memoryBudget);
  return text;
}

CompileOptions withTrial(CompileOptions options, const FitTrial &trial) {
  options.fit.reset();
  options.strategy = trial.strategy;
  options.recompute = trial.recompute;
  options.offloadActivations = trial.offloadActivations;
  options.memoryBudget = trial.memoryBudget;
  return options;
}

bool mayRecompute(const CompileOptions &options) {
  bool byUnit = false;
  for (const UnitPolicy &policy : options.unitPolicies)
    byUnit |= policy.recompute.has_value();
  return !options.given.recompute && !byUnit;
}

namespace {

class FitSearch {
public:
  FitSearch(ModuleOp module, const CompileOptions &options,
            const ProgramOptions &program)
      : module(module), options(options), program(program),
        budget(*options.fit) {}

  FitOutcome run();

private:
  // Bytes of a rank, and the activations and workspaces among them.
  struct Peaks {
    int64_t late = 0;    // with each gather where it is needed
    int64_t asGiven = 0; // at the prefetch distances
    int64_t activations = 0;
  };

  void tryStrategy(Strategy strategy);
  void tryOffload(FitTrial trial);
  void tryRecompute(FitTrial trial, Peaks all);
  std::optional<Peaks> plan(FitTrial &trial);
  std::optional<Peaks> fail(const FitTrial &trial);
  OwningOpRef<ModuleOp> differentiate(FitTrial &trial);
  void record(const FitTrial &trial);
  bool isTooSlow(double work) const;
  bool mayMoveGathers() const;

  ModuleOp module;
  const CompileOptions &options;
  ProgramOptions program;
  int64_t budget;
  RecomputeTrials trials;
  FitOutcome outcome;
};

} // namespace

bool FitSearch::mayMoveGathers() const {
  bool byUnit = false;
  for (const UnitPolicy &policy : options.unitPolicies)
    byUnit |= policy.forwardPrefetch || policy.backwardPrefetch;
  return !options.given.prefetch && !byUnit;
}

std::optional<FitSearch::Peaks> FitSearch::fail(const FitTrial &trial) {
  if (!outcome.broken)
    outcome.broken = trial;
  return std::nullopt;
}

// A copy of the module at Level::Grad. Where no recomputation gets the
// activations below the trial's number of bytes, the trial asks for the least
// there is.
OwningOpRef<ModuleOp> FitSearch::differentiate(FitTrial &trial) {
  ScopedDiagnosticHandler silent(module.getContext(),
                                 [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> copy(module.clone());
  CompileOptions tried = withTrial(options, trial);
  if (trial.recompute.kind == RecomputeKind::Budget) {
    program.strategy = trial.strategy;
    auto manifestOf = [&](ModuleOp planned) {
      return buildTrialManifest(planned, program);
    };
    RecomputeOutcome fit = fitRecompute(*copy, tried, manifestOf, trials);
    if (!fit.fits && !fit.broken) {
      tried.recompute.number = trial.recompute.number = fit.least;
      fit = fitRecompute(*copy, tried, manifestOf, trials);
    }
    if (fit.broken)
      return nullptr;
    trial.recomputePlan = fit.plan;
    (*copy)->setAttr(fsdp::kRecomputePlanAttr, fit.plan);
  }
  PassManager pm(module.getContext());
  addPassesTo(Level::Grad, pm, tried);
  if (failed(pm.run(*copy)))
    return nullptr;
  return copy;
}

// Plans the trial, with what --memory-budget makes of the bytes that are left,
// and records it. Nothing: there is no more to try of it.
std::optional<FitSearch::Peaks> FitSearch::plan(FitTrial &trial) {
  OwningOpRef<ModuleOp> copy = differentiate(trial);
  if (!copy)
    return fail(trial);
  program.strategy = trial.strategy;
  auto manifestOf = [&](ModuleOp planned) {
    return buildTrialManifest(planned, program);
  };
  CompileOptions tried = withTrial(options, trial);
  std::optional<PlannedStep> step = planStep(*copy, tried, manifestOf);
  if (!step)
    return fail(trial);
  if (isTooSlow(step->time.work))
    return std::nullopt;
  Peaks peaks{step->bytes, step->bytes, step->manifest.privateSpace.bytes};
  if (trial.memoryBudget) {
    BudgetOutcome fit = fitMemory(*copy, tried, manifestOf);
    peaks.late = fit.least;
    step = fit.broken ? std::nullopt : planStep(*copy, tried, manifestOf);
    if (!step)
      return fail(trial);
  }
  trial.bytes = step->bytes;
  trial.seconds = step->time.seconds();
  record(trial);
  return peaks;
}

// A thousandth is less than what the prediction knows.
bool FitSearch::isTooSlow(double work) const {
  return outcome.fastest && work > outcome.fastest->seconds * (1 - 1e-3);
}

void FitSearch::record(const FitTrial &trial) {
  std::optional<FitTrial> &smallest = outcome.smallest;
  if (!smallest || trial.bytes < smallest->bytes)
    smallest = trial;
  std::optional<FitTrial> &fastest = outcome.fastest;
  if (trial.bytes <= budget && (!fastest || trial.seconds < fastest->seconds))
    fastest = trial;
}

// Where what backward reads does not all fit, looks for the recomputation of
// the fastest step that does. Where gathers stand as the options say, that is
// told in bytes of activations: what else lives at the peak may have grown with
// it, then it is for fewer.
void FitSearch::tryRecompute(FitTrial trial, Peaks all) {
  constexpr int kTries = 6;
  if (!mayRecompute(options) || all.asGiven <= budget)
    return;
  int64_t activations =
      trial.memoryBudget ? budget : all.activations - (all.asGiven - budget);
  for (int i = 0; i < kTries; ++i) {
    int64_t asked = std::max<int64_t>(activations, 1);
    trial.recompute = {RecomputeKind::Budget, asked};
    std::optional<Peaks> peaks = plan(trial);
    bool least = trial.recompute.number != asked;
    if (!peaks || peaks->late <= budget || least)
      return;
    activations = std::min(asked, peaks->activations) - (peaks->late - budget);
  }
}

void FitSearch::tryStrategy(Strategy strategy) {
  outcome.tried.push_back(strategy);
  FitTrial trial;
  trial.strategy = strategy;
  trial.recompute = options.recompute;
  if (mayMoveGathers())
    trial.memoryBudget = budget;
  std::optional<Peaks> peaks = plan(trial);
  if (options.offloadActivations)
    tryOffload(trial);
  if (peaks)
    tryRecompute(trial, *peaks);
}

// Before more is computed again on the device alone, which seldom is faster.
void FitSearch::tryOffload(FitTrial trial) {
  trial.offloadActivations = true;
  if (std::optional<Peaks> peaks = plan(trial))
    tryRecompute(trial, *peaks);
}

FitOutcome FitSearch::run() {
  for (Strategy strategy : allValues<Strategy>()) {
    // How many replicas there are is said when a program starts.
    bool serves = options.given.strategy
                      ? strategy == options.strategy
                      : !isHybrid(strategy) && suitsPolicies(strategy, options);
    if (serves)
      tryStrategy(strategy);
  }
  return std::move(outcome);
}

FitOutcome findFit(ModuleOp module, const CompileOptions &options,
                   const ProgramOptions &program) {
  return FitSearch(module, options, program).run();
}

} // namespace shardonnx
