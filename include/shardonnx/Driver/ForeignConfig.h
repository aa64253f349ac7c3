// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Configurations of others, as options of ours: the file that `accelerate
// config` writes, and DeepSpeed's. No MLIR here: the command line's parser
// reads it.

#ifndef SHARDONNX_DRIVER_FOREIGNCONFIG_H
#define SHARDONNX_DRIVER_FOREIGNCONFIG_H

#include "shardonnx/runtime/Choices.h"

#include <string>
#include <utility>
#include <vector>

namespace shardonnx {

struct ForeignConfig {
  std::string unreadable; // empty: it is such a file
  std::string error;      // empty: all keys were understood
  std::vector<std::pair<std::string, std::string>> options; // name and value
  std::vector<std::string> runtime; // what the executable is told instead
  std::vector<std::string> notes;   // how a key was understood
  std::vector<std::string> unused;  // keys that mean nothing here
};

/// Reads YAML (or JSON) with Accelerate's keys: those of FSDP1 and of FSDP2,
/// and those by which it tells DeepSpeed what to do.
ForeignConfig readAccelerateConfig(const std::string &path);

/// Reads DeepSpeed's JSON.
ForeignConfig readDeepSpeedConfig(const std::string &path);

/// What ZeRO's stages 0 to 3 are here.
std::optional<Strategy> strategyOfZeroStage(const std::string &stage);

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_FOREIGNCONFIG_H
