// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx plan`: what training a model on some machines will take. Every way
// is compiled up to its memory plan and its step is played on the device's
// figures; nothing runs and no weight is read.

#ifndef SHARDONNX_DRIVER_PLAN_H
#define SHARDONNX_DRIVER_PLAN_H

#include "shardonnx/Cost/Device.h"
#include "shardonnx/Cost/Exposure.h"
#include "shardonnx/Driver/Options.h"
#include "shardonnx/Support/Diagnostics.h"
#include "shardonnx/runtime/Manifest.h"
#include "shardonnx/runtime/MemoryPlan.h"

#include "llvm/Support/raw_ostream.h"

#include <memory>

namespace shardonnx {

/// One way to train, and what it takes of each rank.
struct PlannedWay {
  Strategy strategy = Strategy::FullShard;
  Topology ranks;
  std::string mesh; // replicate:R,shard:S, and what of C and T is not 1
  Recompute recompute;
  Offload offload = Offload::None;
  bool offloadActivations = false;
  int64_t mlpChunks = 1; // where it is a remedy
  int64_t batch = 0, accumulate = 1;

  std::vector<MemoryItem> memory; // of the largest rank, by kind
  int64_t memoryBytes = 0;        // their sum
  int64_t headroomBytes = 0;      // must be free beside it
  int64_t hostBytes = 0;          // outside, with offload
  bool fits = false;

  StepExposure time; // of a step
  double stepSeconds = 0;
  double tokensPerSecondPerGpu = 0;  // samples, without a sequence
  double mfu = 0;                    // of the device's peak in the plan's dtype
  std::optional<double> hours, cost; // for --tokens, with --price

  /// What --log, --trace and the report read of it.
  std::shared_ptr<const Manifest> manifest;
  /// Options of compile that make it, and of the executable.
  std::string compileOptions, runOptions;
};

struct Plan {
  std::string model;
  Device device;
  std::optional<Execution> as; // none: Shardonnx's own
  int64_t gpus = 1, gpusPerNode = 1;
  double memoryBytes = 0; // that a rank may take, headroom included
  ShxDType paramDtype = SHX_F32;
  // As --help has the strategies; behind them, ways on other meshes.
  std::vector<PlannedWay> ways;
  std::optional<size_t> chosen; // none where nothing fits
  std::string why;              // it, or what keeps all others from fitting
  /// Where nothing fits: ways that do, by more ranks, smaller batches, MLPs in
  /// chunks or larger axes.
  std::vector<PlannedWay> remedies;
  std::string command; // that compiles the chosen one
};

mlir::FailureOr<Plan> makePlan(const PlanOptions &options,
                               Diagnostics &diagnostics);

/// --strategy=auto: takes the strategy and recomputation of the plan for
/// --world-size on the device that the program is for, and says which.
mlir::LogicalResult takePlannedStrategy(CompileOptions &options,
                                        Diagnostics &diagnostics);

/// Of --device: one of deviceNames(), or a file.
mlir::FailureOr<Device> givenDevice(const std::string &name,
                                    Diagnostics &diagnostics);

/// --calibrate: measures this machine and writes its device file.
int runCalibration(const PlanOptions &options);

void printPlanText(const Plan &plan, const PlanOptions &options,
                   llvm::raw_ostream &out);
void printPlanJson(const Plan &plan, const PlanOptions &options,
                   llvm::raw_ostream &out);

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_PLAN_H
