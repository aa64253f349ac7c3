// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nn dialect: differentiable tensor ops with static shapes.

#ifndef SHARDONNX_DIALECT_NN_IR_NN_H
#define SHARDONNX_DIALECT_NN_IR_NN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "shardonnx/Dialect/NN/Interpreter/InterpretableOpInterface.h"
#include "llvm/ADT/SmallBitVector.h"

#include "shardonnx/Dialect/NN/IR/NNInterfaces.h.inc"

#include "shardonnx/Dialect/NN/IR/NNOpsDialect.h.inc"
#include "shardonnx/Dialect/NN/IR/NNOpsEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "shardonnx/Dialect/NN/IR/NNOpsAttrs.h.inc"
#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNOps.h.inc"

namespace shardonnx::nn {

/// The name of the discardable attribute that holds an op's unit.
inline constexpr llvm::StringLiteral kUnitAttr = "nn.unit";

/// Argument and result attributes of @forward: the graph's name for it, and
/// what the data loader feeds (docs/nn.md lists the kinds).
inline constexpr llvm::StringLiteral kNameAttr = "nn.name";
inline constexpr llvm::StringLiteral kKindAttr = "nn.kind";

/// The module attribute that holds the element type of parameter gradients.
inline constexpr llvm::StringLiteral kReduceDtypeAttr = "nn.reduce_dtype";

/// The module's attribute that says which loss was attached: `causal-lm`,
/// `cross-entropy`, `mse` or `graph`.
/// The token that ends a document (an i64), where samples are packed.
inline constexpr llvm::StringLiteral kDocumentSeparatorAttr =
    "nn.document_separator";
inline constexpr llvm::StringLiteral kLossKindAttr = "nn.loss_kind";

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_NN_H
