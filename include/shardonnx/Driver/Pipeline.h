// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the passes, level by level. The command line and the tests run
// the same lists.

#ifndef SHARDONNX_DRIVER_PIPELINE_H
#define SHARDONNX_DRIVER_PIPELINE_H

#include "mlir/Pass/PassManager.h"
#include "shardonnx/Driver/Options.h"

namespace shardonnx {

/// Where a compilation can stop (`--emit`), in order.
enum class Level {
  Onnx,
  NN,
  Grad,
  FSDP,
  Schedule,
  Memory,
  PTX, // of the kernels; only with --target=cuda
  LLVM,
  Object,
  Link
};

/// The level that `--emit=NAME` names; Link for the empty name.
std::optional<Level> parseLevel(llvm::StringRef name);

/// Adds the passes that lead from the level before `level` to it. Import, the
/// object file and the link are not passes and add none.
void addPassesTo(Level level, mlir::OpPassManager &pm,
                 const CompileOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_PIPELINE_H
