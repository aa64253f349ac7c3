// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What may not run between the start of an axis's collective and its wait: for
// the pass that puts the wait, and for the verifier.

#ifndef SHARDONNX_DIALECT_EXEC_TRANSFORMS_AXISWAITS_H
#define SHARDONNX_DIALECT_EXEC_TRANSFORMS_AXISWAITS_H

#include "shardonnx/Dialect/Exec/IR/Exec.h"

namespace shardonnx::exec {

/// Whether the op touches what the start writes, or writes what it reads.
bool mustAwait(mlir::Operation &op, AxisStartOp start);

} // namespace shardonnx::exec

#endif // SHARDONNX_DIALECT_EXEC_TRANSFORMS_AXISWAITS_H
