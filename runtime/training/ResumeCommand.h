// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command that goes on with a run which was stopped.

#ifndef SHARDONNX_RUNTIME_RESUMECOMMAND_H
#define SHARDONNX_RUNTIME_RESUMECOMMAND_H

#include <string>
#include <vector>

namespace shardonnx::rt {

/// The run's own command with `--resume FOLDER`, for a shell.
std::string resumeCommand(const std::vector<std::string> &command,
                          const std::string &folder);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_RESUMECOMMAND_H
