// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `--fit`: the strategy, recomputation and schedule of the fastest step that a
// rank's memory allows. What is chosen is said in options, so that a person can
// ask for the same program by hand.

#ifndef SHARDONNX_LIB_DRIVER_FIT_H
#define SHARDONNX_LIB_DRIVER_FIT_H

#include "shardonnx/Driver/Options.h"
#include "shardonnx/Target/Program.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace shardonnx {

/// One way to compile the step, and what the planner says of it.
struct FitTrial {
  Strategy strategy = Strategy::FullShard;
  Recompute recompute;
  bool offloadActivations = false;
  mlir::DictionaryAttr recomputePlan;  // of a budget; as fsdp.recompute_plan
  std::optional<int64_t> memoryBudget; // none: gathers stand as options say
  int64_t bytes = 0;                   // of a rank of --world-size
  double seconds = 0;                  // of a step, predicted

  /// As the command line has it.
  std::string text() const;
};

struct FitOutcome {
  std::optional<FitTrial> fastest;  // of those that fit
  std::optional<FitTrial> smallest; // of all
  std::vector<Strategy> tried;
  std::optional<FitTrial> broken; // the first in which a pass has failed
};

/// Whether nobody has said what is computed again.
bool mayRecompute(const CompileOptions &options);

/// The options as a trial has them.
CompileOptions withTrial(CompileOptions options, const FitTrial &trial);

/// Searches on a module of Level::NN, which it leaves as it is. What
/// `options.given` names stays. `program` tells of the program as its manifest
/// does.
FitOutcome findFit(mlir::ModuleOp module, const CompileOptions &options,
                   const ProgramOptions &program);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_FIT_H
