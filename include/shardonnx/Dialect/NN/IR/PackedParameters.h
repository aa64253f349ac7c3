// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Frozen weights that are kept in few bits (runtime/Packing.h): the parameter
// has the weight's shape, what reads it gets its packed words.

#ifndef SHARDONNX_DIALECT_NN_IR_PACKEDPARAMETERS_H
#define SHARDONNX_DIALECT_NN_IR_PACKEDPARAMETERS_H

#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/runtime/Packing.h"
#include <optional>

namespace shardonnx::nn {

/// On a parameter: the word of its packing.
inline constexpr llvm::StringLiteral kPackingAttr = "nn.packing";
/// On a parameter [in, out]: it is packed as [out, in], as an nn.Linear has it.
inline constexpr llvm::StringLiteral kPackedTransposedAttr =
    "nn.packed_transposed";

std::optional<Packing> packingOf(ParameterOp parameter);

/// [rows, columns] as they are packed.
mlir::RankedTensorType packedShape(ParameterOp parameter);

/// What a reader of the parameter gets in a unit of this dtype.
mlir::RankedTensorType typeIn(ParameterOp parameter, mlir::Type dtype);

/// Elements of this dtype that the parameter takes of its unit's section.
int64_t elementsIn(ParameterOp parameter, mlir::Type dtype);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_PACKEDPARAMETERS_H
