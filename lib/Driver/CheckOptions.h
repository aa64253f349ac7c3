// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is wrong with a command line whatever the model says, for every command
// that compiles.

#ifndef SHARDONNX_DRIVER_CHECKOPTIONS_H
#define SHARDONNX_DRIVER_CHECKOPTIONS_H

#include "shardonnx/Driver/Options.h"
#include "shardonnx/Support/Diagnostics.h"

namespace shardonnx {

/// How a command that printed errors ends: as the command line's mistakes, or
/// as those of the input, a file or the machine.
int exitCodeOf(const Diagnostics &diagnostics);

/// Prints the error, which is one of the command line: exit code 2. Where
/// nothing is linked, targets that this build lacks will do.
mlir::LogicalResult checkOptions(const CompileOptions &options,
                                 Diagnostics &diagnostics, bool links = true);

/// Refuses a mesh that so many ranks (0: any number) are not dealt out to.
mlir::LogicalResult checkMeshRanks(const Mesh &mesh, int64_t ranks,
                                   Diagnostics &diagnostics);

/// Refuses what `shardonnx plan` would ignore.
mlir::LogicalResult checkPlanned(const CompileOptions &options,
                                 Diagnostics &diagnostics);

/// Whether no unit's policy asks for what the strategy does not have.
bool suitsPolicies(Strategy strategy, const CompileOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_CHECKOPTIONS_H
