// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `--mlp-chunks=auto`: numbers of chunks are tried on copies of the module with
// the planner itself. Twice as many are taken as long as a rank takes less for
// it, or, where a budget is given, until that is met.

#include "Fit.h"
#include "Trial.h"
#include "shardonnx/runtime/ByteSize.h"

using namespace mlir;

namespace shardonnx {

/// What more chunks must gain: below it something else is the peak, and
/// products of fewer rows are slower.
static constexpr double kLeastGain = 0.01;

// Bytes of a rank, or nothing where so many chunks cannot be had.
static std::optional<int64_t>
bytesOf(ModuleOp module, const CompileOptions &options, ManifestOf manifestOf) {
  std::optional<PlannedStep> step =
      planStep(module, options, manifestOf, Level::Grad);
  return step ? std::optional(step->bytes) : std::nullopt;
}

// As the search of the budget itself has it.
static bool meetsBudget(ModuleOp module, const CompileOptions &options,
                        const ProgramOptions &program, ManifestOf manifestOf) {
  if (options.fit || options.memoryBudget) {
    CompileOptions asked = options;
    if (!options.fit) {
      asked.fit = options.memoryBudget;
      asked.memoryBudget.reset();
      asked.given.strategy = true;
    }
    FitOutcome outcome = findFit(module, asked, program);
    return outcome.fastest || outcome.broken;
  }
  RecomputeTrials trials;
  RecomputeOutcome outcome = fitRecompute(module, options, manifestOf, trials);
  return outcome.fits || outcome.broken;
}

void chooseMlpChunks(ModuleOp module, CompileOptions &options,
                     const ProgramOptions &program, Diagnostics &diagnostics) {
  auto manifestOf = [&](ModuleOp planned) {
    return buildTrialManifest(planned, program);
  };
  bool budget = options.fit || options.memoryBudget ||
                options.recompute.kind == RecomputeKind::Budget;
  options.mlpChunks = 1;
  if (budget && meetsBudget(module, options, program, manifestOf))
    return;
  // With a budget, of the step that takes least.
  CompileOptions tried = options;
  if (budget) {
    tried.fit.reset();
    tried.memoryBudget.reset();
    tried.recompute = {RecomputeKind::Block};
  }
  std::optional<int64_t> whole = bytesOf(module, tried, manifestOf),
                         least = whole;
  for (int64_t chunks = 2; whole && chunks <= kMostTriedMlpChunks;
       chunks *= 2) {
    tried.mlpChunks = chunks;
    std::optional<int64_t> bytes = bytesOf(module, tried, manifestOf);
    if (!bytes || double(*bytes) > (1 - kLeastGain) * double(*least))
      break;
    options.mlpChunks = chunks;
    least = bytes;
    if (budget && meetsBudget(module, options, program, manifestOf))
      break;
  }
  if (*options.mlpChunks > 1)
    diagnostics.note("--mlp-chunks=auto: --mlp-chunks=" +
                     std::to_string(*options.mlpChunks) + ": " +
                     formatBytes(*least) + " a rank in place of " +
                     formatBytes(*whole) +
                     (budget ? " where all blocks are computed again" : ""));
  else
    diagnostics.note("--mlp-chunks=auto: MLPs stay whole: a rank would take no "
                     "less for chunks");
}

} // namespace shardonnx
