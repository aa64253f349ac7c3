// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What passes ask of a value whatever its shape.

#ifndef SHARDONNX_DIALECT_NN_TRANSFORMS_RESHAPES_H
#define SHARDONNX_DIALECT_NN_TRANSFORMS_RESHAPES_H

#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"

namespace shardonnx::nn {

inline mlir::Value withoutReshapes(mlir::Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

/// What takes the step in the update, as it does of weights, which no kernel
/// computes; else null.
inline F8WeightStepOp weightStepOf(mlir::Value step) {
  return withoutReshapes(step).getDefiningOp<F8WeightStepOp>();
}

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_TRANSFORMS_RESHAPES_H
