// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the passes, level by level. Every command and the tests run the
// same lists.

#ifndef SHARDONNX_DRIVER_PIPELINE_H
#define SHARDONNX_DRIVER_PIPELINE_H

#include "shardonnx/Driver/Options.h"

namespace mlir {
class OpPassManager;
}

namespace shardonnx {

/// Adds the passes that lead from the level before `level` to it. Import and
/// the object file are not passes and add none.
void addPassesTo(Level level, mlir::OpPassManager &pm,
                 const CompileOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_PIPELINE_H
