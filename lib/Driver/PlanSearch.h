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

class PlanSearch {
public:
  PlanSearch(const PlanOptions &options, Plan &plan, Diagnostics &diagnostics);
  mlir::LogicalResult run();

private:
  struct Trial {
    Strategy strategy;
    Recompute recompute;
    Offload offload;
    int64_t accumulate;
  };

  /// Imports the model, with another batch where one is given.
  mlir::LogicalResult start(int64_t batch);
  CompileOptions optionsOf(Strategy strategy, Recompute recompute) const;
  mlir::ModuleOp gradOf(Recompute recompute);
  /// Null where a pass fails.
  std::shared_ptr<const Manifest> stepOf(Strategy strategy,
                                         Recompute recompute);
  Topology topologyOf(Strategy strategy, int64_t gpus) const;
  PlannedWay wayOf(const std::shared_ptr<const Manifest> &step,
                   const Trial &trial, int64_t gpus) const;
  std::vector<Recompute> recomputations() const;
  std::vector<Offload> offloads() const;
  /// The fastest that fits, else the one that takes least memory.
  std::optional<PlannedWay> bestOf(Strategy strategy, int64_t gpus,
                                   int64_t accumulate);
  void choose();
  void addRemedies();

  const PlanOptions &options;
  Plan &plan;
  Diagnostics &diagnostics;
  std::unique_ptr<Compilation> compilation;
  ProgramOptions program;
  EagerGraph eager; // of the model as it stands
  std::map<std::string, mlir::OwningOpRef<mlir::ModuleOp>> grads;
  std::map<std::pair<Strategy, std::string>, std::shared_ptr<const Manifest>>
      steps;
};

/// Says why the chosen way is taken, and the command that compiles it.
void describeChoice(Plan &plan, const PlanOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_PLANSEARCH_H
