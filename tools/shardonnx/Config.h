// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `--config FILE`: most keys become arguments of the command line, which so
// checks them in one place; `units` has no option of its own.

#ifndef SHARDONNX_TOOLS_SHARDONNX_CONFIG_H
#define SHARDONNX_TOOLS_SHARDONNX_CONFIG_H

#include "shardonnx/Driver/Options.h"

namespace shardonnx {

/// One line on standard error, as every error of the program; exits.
[[noreturn]] void usageError(const std::string &message);
[[noreturn]] void fileError(const std::string &message);

struct Config {
  std::string path;
  /// Begins a message on what the file says.
  std::string where() const { return "--config: '" + path + "': "; }
  std::vector<std::string> arguments; // to stand before the user's own
  std::vector<UnitPolicy> units;
};

/// Reads the file that --config names in `commandLine`, if any. Keys that the
/// command line gives itself are left out. Exits on a mistake.
Config readConfig(const std::vector<std::string> &commandLine);

} // namespace shardonnx

#endif // SHARDONNX_TOOLS_SHARDONNX_CONFIG_H
