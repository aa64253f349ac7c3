// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nodes of a graph that cannot be lowered: all of them make one error.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_REFUSALS_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_REFUSALS_H

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "shardonnx/Support/RefusedOps.h"

#include <optional>

namespace shardonnx {

/// What a lowering returns where it refuses its node, as a failure, as no value
/// or as none of something.
struct Refusal {
  operator llvm::LogicalResult() const { return llvm::failure(); }
  operator mlir::Value() const { return {}; }
  template <typename T> operator std::optional<T>() const {
    return std::nullopt;
  }
};

class Refusals {
public:
  Refusal add(onnx::NodeOp node, const llvm::Twine &why);

  /// A node that no compiler could lower, since the graph is wrong there: an
  /// error of its own.
  Refusal addWrong(onnx::NodeOp node, const llvm::Twine &why);

  /// Emits the errors, and one that lists every refused op with its count and
  /// its first nodes; success where there is none.
  llvm::LogicalResult report(mlir::ModuleOp module) const;

private:
  RefusedOps refused;
  llvm::SmallVector<std::pair<onnx::NodeOp, std::string>> wrong;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_REFUSALS_H
