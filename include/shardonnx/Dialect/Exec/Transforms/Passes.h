// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes on the exec dialect, and the report of what they planned.

#ifndef SHARDONNX_DIALECT_EXEC_TRANSFORMS_PASSES_H
#define SHARDONNX_DIALECT_EXEC_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace shardonnx::exec {

#define GEN_PASS_DECL
#include "shardonnx/Dialect/Exec/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "shardonnx/Dialect/Exec/Transforms/Passes.h.inc"

/// Prints each space of a planned module: its bytes, its lower bound, and what
/// is live at its peak (`--emit=memory`).
void printMemoryPlan(mlir::ModuleOp module, llvm::raw_ostream &os);

} // namespace shardonnx::exec

#endif // SHARDONNX_DIALECT_EXEC_TRANSFORMS_PASSES_H
