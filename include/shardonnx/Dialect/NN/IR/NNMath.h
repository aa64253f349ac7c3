// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nn dialect's functions that few models use, apart from NN.h so that most
// files need not be compiled with them.

#ifndef SHARDONNX_DIALECT_NN_IR_NNMATH_H
#define SHARDONNX_DIALECT_NN_IR_NNMATH_H

#include "shardonnx/Dialect/NN/IR/NN.h"

#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNMathOps.h.inc"

namespace shardonnx::nn {

/// Registers the group with the dialect.
void registerMathOps(NNDialect &dialect);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_NNMATH_H
