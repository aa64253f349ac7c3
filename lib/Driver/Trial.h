// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Choices that a budget decides are tried on a copy of the module, with the
// passes and the planner that the program itself goes through: what a budget
// promises is what the plan will hold.

#ifndef SHARDONNX_LIB_DRIVER_TRIAL_H
#define SHARDONNX_LIB_DRIVER_TRIAL_H

#include "shardonnx/Cost/Exposure.h"
#include "shardonnx/Driver/Options.h"
#include "shardonnx/Support/Diagnostics.h"
#include "shardonnx/Target/Program.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <map>
#include <tuple>

namespace shardonnx {

/// A copy of `module`, which is of the level before `first`, taken to
/// Level::Memory; null when a pass fails. What passes have to say is not
/// printed: they say it again on the module itself.
mlir::OwningOpRef<mlir::ModuleOp> planCopy(mlir::ModuleOp module, Level first,
                                           const CompileOptions &options);

/// What a budget came to.
struct BudgetOutcome {
  bool fits = false;
  int64_t least = 0;   // bytes that the search can do with
  bool broken = false; // a pass has failed: on the module itself it says why
};

/// Tells of a planned module as its manifest does.
using ManifestOf = llvm::function_ref<std::string(mlir::ModuleOp)>;

/// What a module takes of a rank of --world-size, and how long its step,
/// planned as the attributes of the module say.
struct PlannedStep {
  Manifest manifest;
  Device device;
  int64_t bytes = 0;
  StepExposure time;
};

/// Of a module of the level before `first`; nothing when a pass fails. Without
/// --world-size, of as few ranks as a mesh has.
std::optional<PlannedStep> planStep(mlir::ModuleOp module,
                                    const CompileOptions &options,
                                    ManifestOf manifestOf,
                                    Level first = Level::FSDP);

/// What trials of recomputation came to, for the searches to come on the same
/// module: by strategy, whether activations are offloaded, whether gathers are
/// late, and the plan.
struct RecomputeTrial {
  int64_t activations = 0; // bytes of the private space
  int64_t rank = 0;        // bytes of all that a rank takes
  double seconds = 0;      // of a step
};
using RecomputeTrials =
    std::map<std::tuple<Strategy, bool, bool, const void *>, RecomputeTrial>;

struct RecomputeOutcome {
  bool fits = false;
  bool broken = false;       // a pass has failed: the module's own say why
  bool keepsAll = false;     // whatever forward has written
  mlir::DictionaryAttr plan; // as fsdp.recompute_plan
  double seconds = 0;        // of a step with that plan
  int64_t least = 0;         // bytes of activations that any trial took
};

/// `--recompute=budget:BYTES`, on a module of Level::NN, which it leaves as it
/// is: finds the recomputation of the least predicted time with which the
/// private space has at most that many bytes and a rank those of
/// --memory-budget. Gathers start as the options say; where no rank would have
/// so few bytes, where they are needed; where it then has not, either, the
/// least activations are found. These wait in host memory where the options say
/// so.
RecomputeOutcome fitRecompute(mlir::ModuleOp module,
                              const CompileOptions &options,
                              ManifestOf manifestOf, RecomputeTrials &trials);

/// Has each gather of a module, of Level::Grad or before, start where it is
/// needed: no schedule takes less memory.
void gatherLate(mlir::ModuleOp module);

/// `--memory-budget`, on a module of Level::Grad: decides which units are
/// merged, which are kept and how early gathers start, so that the planned
/// memory of a rank of --world-size has at most that many bytes, and writes it
/// down as attributes of the module.
BudgetOutcome fitMemory(mlir::ModuleOp module, const CompileOptions &options,
                        ManifestOf manifestOf);

/// Searches try no more chunks of MLPs: products would have too few rows.
constexpr int64_t kMostTriedMlpChunks = 64;

/// `--mlp-chunks=auto`, on a module of Level::NN, which it leaves as it is:
/// sets the option to as few chunks as take least memory, or meet the budget.
void chooseMlpChunks(mlir::ModuleOp module, CompileOptions &options,
                     const ProgramOptions &program, Diagnostics &diagnostics);

/// As many threads as a rank would take on this machine.
int threadsPerRank(int64_t ranks);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_TRIAL_H
