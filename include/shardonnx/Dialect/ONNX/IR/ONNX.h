// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// C++ side of the `onnx` dialect.

#ifndef SHARDONNX_DIALECT_ONNX_IR_ONNX_H
#define SHARDONNX_DIALECT_ONNX_IR_ONNX_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "shardonnx/Dialect/ONNX/IR/ONNXOpsDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "shardonnx/Dialect/ONNX/IR/ONNXOpsTypes.h.inc"

#define GET_OP_CLASSES
#include "shardonnx/Dialect/ONNX/IR/ONNXOps.h.inc"

#endif // SHARDONNX_DIALECT_ONNX_IR_ONNX_H
