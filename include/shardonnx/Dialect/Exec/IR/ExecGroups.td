// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every group of the exec dialect, for its page in docs.

#ifndef SHARDONNX_DIALECT_EXEC_GROUPS
#define SHARDONNX_DIALECT_EXEC_GROUPS

include "shardonnx/Dialect/Exec/IR/ExecOps.td"
include "shardonnx/Dialect/Exec/IR/ExecIndexOps.td"

#endif // SHARDONNX_DIALECT_EXEC_GROUPS
