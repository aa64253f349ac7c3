// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nn dialect's products of 8 bits, apart from NN.h so that most files need
// not be compiled with them.

#ifndef SHARDONNX_DIALECT_NN_IR_NNF8_H
#define SHARDONNX_DIALECT_NN_IR_NNF8_H

#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/runtime/Mesh.h"

#include "shardonnx/Dialect/NN/IR/NNF8OpsEnums.h.inc"
#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNF8Ops.h.inc"

namespace shardonnx::nn {

/// What products of 8 bits want of every size: libraries' kernels take no
/// other.
inline constexpr int64_t kF8SizeMultiple = 16;

/// Of a parameter: the numbers of the steps that it is scaled by
/// (nn.f8_weight_step).
inline constexpr llvm::StringLiteral kF8StepsAttr = "nn.f8_steps";

/// Of a parameter: it is gathered as what products of 8 bits multiply.
inline constexpr llvm::StringLiteral kInCodesAttr = "nn.in_codes";

/// The largest absolute value along `axis`, or of all, which stays with size 1.
mlir::Value amaxOf(mlir::OpBuilder &builder, mlir::Location loc,
                   mlir::Value value,
                   std::optional<int64_t> axis = std::nullopt);

/// The largest of what the ranks of each of these axes of the mesh have, where
/// `dim` has one element.
mlir::Value amaxOverRanks(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::Value amax, int64_t dim,
                          llvm::ArrayRef<MeshAxis> axes);

/// `value` rounded to 8 bits, scaled by each of the largest values `amax`.
mlir::Value roundToF8(mlir::OpBuilder &builder, mlir::Location loc,
                      F8Format format, mlir::Value value, mlir::Value amax);

/// nn.f8_step of vectors of f32, in a kernel.
mlir::Value emitF8Step(mlir::OpBuilder &builder, mlir::Location loc,
                       F8Format format, mlir::Value amax);

/// Registers the group with the dialect.
void registerF8Ops(NNDialect &dialect);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_NNF8_H
