// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ops that reduce along axes.

#ifndef SHARDONNX_DIALECT_NN_IR_REDUCTIONS_H
#define SHARDONNX_DIALECT_NN_IR_REDUCTIONS_H

namespace mlir {
class Operation;
} // namespace mlir

namespace shardonnx::nn {

/// True for the reductions that may stand in a kernel's body.
bool isReduction(mlir::Operation *op);
/// Of these, in the body of a kernel over rows: the sum over all rows, which
/// leaves none, instead of along each of them.
bool sumsRows(mlir::Operation *op);
/// No reduction of rows either: nn.f8_tensor_step.
bool isTensorStep(mlir::Operation *op);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_REDUCTIONS_H
