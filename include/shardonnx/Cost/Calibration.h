// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A CPU's device file from what programs of our own took there, launch by
// launch. Arithmetic on manifests and times; who runs them is the driver.

#ifndef SHARDONNX_COST_CALIBRATION_H
#define SHARDONNX_COST_CALIBRATION_H

#include "shardonnx/Cost/Device.h"
#include "shardonnx/runtime/Manifest.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shardonnx {

/// A run, and seconds of its steps.
struct MeasuredRun {
  Manifest manifest;
  int ranks = 1, threads = 1;            // threads of a rank
  std::map<std::string, double> compute; // by name, as launches are called
  double reduce = 0;                     // sums of gradients, squares of a norm
  double step = 0, waiting = 0;
};

/// Of a thread, while all of the machine's are at work: what explains the runs
/// best. Launches are weighed by the time that they take.
ThreadRates fitRates(const std::vector<const MeasuredRun *> &runs);

struct MachineFigures {
  int threads = 1;
  double memoryBytes = 0;
  std::string name; // of the processor
};

/// The content of a device file: that of `cpu`, with what was measured.
std::string calibratedDevice(const std::vector<MeasuredRun> &runs,
                             const MachineFigures &machine);

} // namespace shardonnx

#endif // SHARDONNX_COST_CALIBRATION_H
