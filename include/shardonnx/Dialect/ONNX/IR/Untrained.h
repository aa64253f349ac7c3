// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the import tells of parameters that the graph does not train.

#ifndef SHARDONNX_DIALECT_ONNX_IR_UNTRAINED_H
#define SHARDONNX_DIALECT_ONNX_IR_UNTRAINED_H

#include "llvm/ADT/StringRef.h"

namespace shardonnx::onnx {

/// On a module, an array of dictionaries as nn.untrained, which the raise makes
/// of it: `name`, `reason`, and `asked` where the module's author wanted it so.
inline constexpr llvm::StringLiteral kUntrainedAttr = "onnx.untrained";

/// Reasons of what forward writes, parameters or not; running statistics of a
/// norm have the second.
inline constexpr llvm::StringLiteral kWritten = "written by forward";
inline constexpr llvm::StringLiteral kStatistic = "a running statistic";

/// On a module that PyTorch's exporter has written without the author's word on
/// what requires a gradient.
inline constexpr llvm::StringLiteral kGradientsUntoldAttr =
    "onnx.gradients_untold";

} // namespace shardonnx::onnx

#endif // SHARDONNX_DIALECT_ONNX_IR_UNTRAINED_H
