// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the arguments of an nn function are: nn.name and nn.kind, read and
// written in one place.

#ifndef SHARDONNX_DIALECT_NN_IR_INPUTS_H
#define SHARDONNX_DIALECT_NN_IR_INPUTS_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "shardonnx/runtime/InputKind.h"

namespace shardonnx::nn {

/// The graph's name for an argument; empty where it has none.
llvm::StringRef inputName(mlir::FunctionOpInterface function, unsigned index);

/// What the data loader feeds an argument with (docs/nn.md), where that was
/// said.
std::optional<InputKind> inputKind(mlir::FunctionOpInterface function,
                                   unsigned index);
/// Of an argument of which nobody said it: what the names are that every
/// exporter gives.
std::optional<InputKind> kindByName(llvm::StringRef name, mlir::Type type);
void setInputKind(mlir::FunctionOpInterface function, unsigned index,
                  InputKind kind);

/// The attributes of an argument that a pass adds, named after its kind.
mlir::DictionaryAttr inputAttributes(mlir::MLIRContext *context,
                                     InputKind kind);

/// Of the module, where an input tells first keys: as many documents of a
/// microbatch as a library's attention may be planned for (an i64).
inline constexpr llvm::StringLiteral kMaxDocumentsAttr = "nn.max_documents";

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_INPUTS_H
