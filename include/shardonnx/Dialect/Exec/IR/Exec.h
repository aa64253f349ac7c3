// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The exec dialect: a step as calls on planned memory.

#ifndef SHARDONNX_DIALECT_EXEC_IR_EXEC_H
#define SHARDONNX_DIALECT_EXEC_IR_EXEC_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "shardonnx/Dialect/Exec/IR/RuntimeCall.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Support/ElementType.h"

#include "shardonnx/Dialect/Exec/IR/ExecOpsDialect.h.inc"
#include "shardonnx/Dialect/Exec/IR/ExecOpsEnums.h.inc"
#define GET_OP_CLASSES
#include "shardonnx/Dialect/Exec/IR/ExecOps.h.inc"

namespace shardonnx::exec {

/// Set on each fsdp.unit by exec-plan-memory: byte offsets of its gathered
/// parameters and of its gradients in their spaces.
inline constexpr llvm::StringLiteral kParamOffsetAttr = "exec.param_offset";
inline constexpr llvm::StringLiteral kGradOffsetAttr = "exec.grad_offset";

/// The same in the private space, where backward has done with activations: of
/// its gradients, for a step of one rank, and of the slice of their sum that
/// one of several ranks owns. Both of a step of one microbatch.
inline constexpr llvm::StringLiteral kGradPlaceAttr = "exec.grad_place";
inline constexpr llvm::StringLiteral kSlicePlaceAttr = "exec.slice_place";

/// Set on the module by fsdp-to-exec: the device whose calls the ops stand for.
inline constexpr llvm::StringLiteral kTargetAttr = "exec.target";
bool isCuda(mlir::Operation *module);

using shardonnx::elementBytes;

/// Strides of a memref type; its offset is 0 (the verifiers see to it).
llvm::SmallVector<int64_t> stridesOf(mlir::MemRefType type);

/// Elements from the first to the last that the type reaches, inclusive.
int64_t spanOf(mlir::MemRefType type);

/// Are the elements dense and in row-major order?
bool isContiguous(mlir::MemRefType type);

/// A memref type of these strides; without a layout when they are row-major.
mlir::MemRefType stridedMemRef(llvm::ArrayRef<int64_t> shape,
                               llvm::ArrayRef<int64_t> strides,
                               mlir::Type elementType);

/// The alloc or buffer that a value is a view of.
mlir::Value rootOf(mlir::Value buffer);

} // namespace shardonnx::exec

#endif // SHARDONNX_DIALECT_EXEC_IR_EXEC_H
