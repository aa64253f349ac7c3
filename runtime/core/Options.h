// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command line of a training executable.

#ifndef SHARDONNX_RUNTIME_OPTIONS_H
#define SHARDONNX_RUNTIME_OPTIONS_H

#include "Schedule.h"
#include "shardonnx/runtime/Choices.h"
#include "shardonnx/runtime/Offload.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardonnx::rt {

struct Options {
  std::vector<std::string> command;        // the program and its arguments
  std::vector<std::string> data, evalData; // files, or patterns of names
  std::optional<std::string> dataType;     // u16 or u32
  std::optional<bool> shiftLabels;         // none: found out
  int64_t steps = 100, accumulate = 1, evalEvery = 0;
  int64_t patience = 0;  // evaluations without a better one; 0: any number
  bool keepBest = false; // of the checkpoints
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weightDecay = 0.1,
         clipGradNorm = 1.0, clipGradValue = 0; // 0: off
  std::optional<double> momentum;               // none: optimizer's
  std::optional<double> muonLR;                 // none: lr
  AdjustLR adjustLR = AdjustLR::Original;
  std::optional<double> lossScale; // fixed
  bool dynamicLossScale = false;   // asked for: float16 programs have it anyway
  bool skipNonFinite = false;      // else the run stops
  std::string noDecay;
  Schedule::Kind scheduleKind = Schedule::Kind::Constant;
  int64_t warmup = 0;
  double minLR = 0;
  uint64_t seed = 0;
  bool shuffle = false, randomInit = false;
  std::string save, resume;        // "": none
  int64_t saveEvery = 0, keep = 0; // 0: only at the end; all
  std::string model, adapter, log;
  std::string tensorboard; // folder; "": none
  bool profile = false;
  std::string trace;                     // "": none
  int64_t traceFirst = 2, traceLast = 4; // steps
  bool traceStepsGiven = false; // else they count from where the run begins
  int nproc = 0;                // 0: not given
  int replicas = 0;             // of the model; 0: not given
  double timeout = 600;         // seconds
  std::string flightRecord;     // file; "": PROGRAM.flight.json
  Offload offload = Offload::None;
  std::string offloadDir; // of a program for CPUs; "": not given
  bool debugMemory = false;

  Schedule schedule() const { return {scheduleKind, lr, minLR, warmup, steps}; }
  /// Of Muon's matrices: the same in proportion.
  Schedule muonSchedule() const {
    double peak = muonLR.value_or(lr);
    double floor = lr > 0 ? minLR * peak / lr : 0;
    return {scheduleKind, peak, floor, warmup, steps};
  }
  double momentumOf(Optimizer optimizer) const {
    return momentum.value_or(optimizer == Optimizer::Muon ? 0.95 : 0);
  }
};

/// Returns nothing after --help or --version, which it prints. Throws
/// Error(kExitUsage).
std::optional<Options> parseOptions(int argc, char **argv,
                                    const std::string &description);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_OPTIONS_H
