// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The exec ops of IndexABI.h's calls, and their descriptors.

#ifndef SHARDONNX_DIALECT_EXEC_IR_EXECINDEX_H
#define SHARDONNX_DIALECT_EXEC_IR_EXECINDEX_H

#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/runtime/IndexABI.h"

#define GET_OP_CLASSES
#include "shardonnx/Dialect/Exec/IR/ExecIndexOps.h.inc"

namespace shardonnx::exec {

ShxIndexing describe(GatherElementsOp op);
ShxIndexing describe(ScatterOp op);
ShxTopK describe(TopKOp op);
ShxGroupedGemm describe(GroupedGemmOp op);
ShxGroupedGemm describe(GroupedGemmGradOp op);

/// Bytes of scratch that each thread keeps for a call of this group; 0 for
/// others.
int64_t scratchOf(mlir::Operation *op);

/// Registers the group with the dialect.
void registerIndexOps(ExecDialect &dialect);

} // namespace shardonnx::exec

#endif // SHARDONNX_DIALECT_EXEC_IR_EXECINDEX_H
