// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arithmetic of runtime/Random.h as vector code.

#ifndef SHARDONNX_DIALECT_NN_IR_RANDOMBITS_H
#define SHARDONNX_DIALECT_NN_IR_RANDOMBITS_H

#include "mlir/IR/Builders.h"

namespace shardonnx::nn {

/// random::elementBits of columns, vectors of i32 all three; `low` and `high`
/// are the halves of the row's key.
mlir::Value emitElementBits(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value low, mlir::Value high,
                            mlir::Value column);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_RANDOMBITS_H
