// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters that are read as one: nn-join-products puts them side by side
// along their first axis, fsdp-make-units lays them out so in their unit, and
// neither they nor their gradients are ever copied.

#ifndef SHARDONNX_DIALECT_NN_IR_JOINEDPARAMETERS_H
#define SHARDONNX_DIALECT_NN_IR_JOINEDPARAMETERS_H

#include "shardonnx/Dialect/NN/IR/NN.h"

namespace shardonnx::nn {

/// Whether `op` puts several parameters side by side along their first axis.
bool joinsParameters(mlir::Operation *op);

/// The value of which `part` is some rows (a slice of the first axis), where
/// nothing but such slices reads it; else null. Gradients of joined parameters
/// are parts of one.
mlir::Value wholeOfRows(mlir::Value part);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_JOINEDPARAMETERS_H
