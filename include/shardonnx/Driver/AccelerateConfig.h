// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The file that `accelerate config` writes for FSDP, as options of ours. No
// MLIR here: the command line's parser reads it.

#ifndef SHARDONNX_DRIVER_ACCELERATECONFIG_H
#define SHARDONNX_DRIVER_ACCELERATECONFIG_H

#include <string>
#include <utility>
#include <vector>

namespace shardonnx {

struct AccelerateConfig {
  std::string error; // empty: all keys were understood
  std::vector<std::pair<std::string, std::string>> options; // name and value
  std::vector<std::string> runtime; // what the executable is told instead
  std::vector<std::string> notes;   // how a key was understood
  std::vector<std::string> unused;  // keys that mean nothing here
};

/// Reads YAML (or JSON) with Accelerate's keys, those of FSDP1 and of FSDP2.
AccelerateConfig readAccelerateConfig(const std::string &path);

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_ACCELERATECONFIG_H
