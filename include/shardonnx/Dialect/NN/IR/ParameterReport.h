// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The names of a parameter, and the list of those that are not trained.

#ifndef SHARDONNX_DIALECT_NN_IR_PARAMETERREPORT_H
#define SHARDONNX_DIALECT_NN_IR_PARAMETERREPORT_H

#include "shardonnx/Dialect/NN/IR/NN.h"
#include "llvm/Support/Regex.h"

namespace shardonnx::nn {

/// On a module, an array of dictionaries: the `name` of a parameter of the
/// model that is not trained, the `reason`, and `asked` where the user wanted
/// it so.
inline constexpr llvm::StringLiteral kUntrainedAttr = "nn.untrained";

/// Adds to that list; one that is there keeps its reason.
void noteUntrained(mlir::ModuleOp module, llvm::StringRef name,
                   llvm::StringRef reason, bool asked);

/// All names in the state dict: several where modules share it.
llvm::SmallVector<llvm::StringRef> namesOf(ParameterOp parameter);

/// Whether one of its names matches.
bool matchesName(const llvm::Regex &regex, ParameterOp parameter);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_PARAMETERREPORT_H
