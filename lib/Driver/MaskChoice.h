// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether a program reads its padding masks or takes them for ones.

#ifndef SHARDONNX_LIB_DRIVER_MASKCHOICE_H
#define SHARDONNX_LIB_DRIVER_MASKCHOICE_H

#include "shardonnx/Driver/Options.h"

#include "mlir/IR/BuiltinOps.h"

namespace shardonnx {

/// `--attention-mask`, on a module of Level::Onnx: marks it where its masks are
/// to be read.
void chooseMasks(mlir::ModuleOp module, const CompileOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_MASKCHOICE_H
