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
/// model that is not trained, the `reason`, `asked` where the user wanted it
/// so, and `lost` where the exporter has made training it as the module does
/// impossible. What forward writes is there as well, parameter or not: with
/// `read_by`, the outputs of the graph that depend on it, and `lost` where the
/// loss does.
inline constexpr llvm::StringLiteral kUntrainedAttr = "nn.untrained";
inline constexpr llvm::StringLiteral kReadByKey = "read_by";

/// Of what forward writes, keeps as `lost` what the output named `loss` reads.
void noteLoss(mlir::ModuleOp module, llvm::StringRef loss);

/// Adds to that list; one that is there keeps its reason.
void noteUntrained(mlir::ModuleOp module, llvm::StringRef name,
                   llvm::StringRef reason, bool asked);

/// Marks as asked for what is in that list and `isAsked`, of what forward
/// writes only where that is `written`, too. Returns whether there was any.
bool acceptUntrained(mlir::ModuleOp module,
                     llvm::function_ref<bool(llvm::StringRef)> isAsked,
                     llvm::StringRef reason, bool written);

/// All names in the state dict: several where modules share it.
llvm::SmallVector<llvm::StringRef> namesOf(ParameterOp parameter);

/// Whether one of its names matches.
bool matchesName(const llvm::Regex &regex, ParameterOp parameter);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_PARAMETERREPORT_H
