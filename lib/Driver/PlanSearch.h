// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The search of `shardonnx plan`: what is compiled once and asked often.

#ifndef SHARDONNX_LIB_DRIVER_PLANSEARCH_H
#define SHARDONNX_LIB_DRIVER_PLANSEARCH_H

#include "shardonnx/Cost/Eager.h"
#include "shardonnx/Driver/Compilation.h"
#include "shardonnx/Driver/Plan.h"

#include <map>

namespace shardonnx {

/// Whether more ranks take less memory each.
constexpr bool isSharded(Strategy strategy) {
  return strategy != Strategy::NoShard;
}

/// What one import of the model serves: a mesh's tensor and context axes, and a
/// batch.
class PlanSearch {
public:
  PlanSearch(const PlanOptions &options, const Plan &plan,
             Diagnostics &diagnostics)
      : options(options), plan(plan), diagnostics(diagnostics) {}

  /// Imports the model, with another batch where one is given; `like` knows
  /// what the program will say of itself.
  mlir::LogicalResult start(const Mesh &mesh, int64_t batch = 0,
                            const PlanSearch *like = nullptr);
  /// Goes on to the memory plan, so that passes say why none was found.
  mlir::LogicalResult explain();

  /// Those that could serve on the plan's GPUs.
  std::vector<Strategy> strategies() const;
  /// The fastest that fits, else the one that takes least memory; nothing where
  /// a pass fails. Ways of no more than so many tokens a second and GPU are not
  /// looked for.
  std::optional<PlannedWay> bestOf(Strategy strategy, int64_t gpus,
                                   int64_t accumulate, double tokens = 0);
  /// The most tokens a second and GPU of all that was tried, whether it fits or
  /// not; and of one that would not wait either.
  double reached() const { return mostTokens; }
  double reachedWithoutWaits() const { return mostTokensOfWork; }

private:
  struct Trial {
    Strategy strategy;
    Recompute recompute;
    Offload offload;
    int64_t accumulate;
    bool offloadActivations;
  };

  CompileOptions optionsOf(Strategy strategy, Recompute recompute,
                           bool offloadActivations = false) const;
  mlir::ModuleOp gradOf(Recompute recompute);
  /// Null where a pass fails.
  std::shared_ptr<const Manifest> stepOf(Strategy strategy, Recompute recompute,
                                         bool offloadActivations);
  Topology topologyOf(Strategy strategy, int64_t gpus) const;
  bool serves(Strategy strategy) const;
  PlannedWay wayOf(const std::shared_ptr<const Manifest> &step,
                   const Trial &trial, int64_t gpus) const;
  std::vector<Recompute> recomputations() const;
  std::vector<Offload> offloads() const;
  /// Whether activations wait on the host, as it is to be tried.
  std::vector<bool> activations() const;

  const PlanOptions &options;
  const Plan &plan;
  Diagnostics &diagnostics;
  Mesh mesh;
  std::unique_ptr<Compilation> compilation;
  ProgramOptions program;
  EagerGraph eager; // of the model as it stands
  double mostTokens = 0, mostTokensOfWork = 0;
  std::map<std::string, mlir::OwningOpRef<mlir::ModuleOp>> grads;
  std::map<std::tuple<Strategy, std::string, bool>,
           std::shared_ptr<const Manifest>>
      steps;
};

/// Ways of larger tensor and context axes, where these could gain something on
/// the plan's ways; `first` has made those.
void addMeshes(const PlanOptions &options, const PlanSearch &first, Plan &plan);

/// Where nothing fits: ways that do.
void addRemedies(const PlanOptions &options, const PlanSearch &first,
                 Plan &plan);

bool isFaster(const PlannedWay &a, const PlannedWay &b);

/// So much faster must be what moves state to host memory: how fast the links
/// to it are is assumed, and a percent is not known of them.
constexpr double kOffloadGain = 1.01;

/// Tokens a second and GPU of `a` over those of `b`, as a choice counts them:
/// below 1, `b` is to be taken.
double gainOf(const PlannedWay &a, const PlannedWay &b);

/// The axes of a way that change its program, context and tensor; their text is
/// as --mesh takes it, "" where both are 1.
Mesh meshOf(const PlannedWay &way);
std::string axesText(const PlannedWay &way);

/// What lies in host memory, as --offload has it; "none" for nothing.
std::string offloadText(const PlannedWay &way);

/// Says why the chosen way is taken, and the command that compiles it.
void describeChoice(Plan &plan, const PlanOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_PLANSEARCH_H
