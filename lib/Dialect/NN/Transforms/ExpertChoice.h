// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conditions by which rows choose an expert.

#ifndef SHARDONNX_DIALECT_NN_TRANSFORMS_EXPERTCHOICE_H
#define SHARDONNX_DIALECT_NN_TRANSFORMS_EXPERTCHOICE_H

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"

#include <optional>

namespace shardonnx::nn {

/// Of each row, whether the index that belongs to it is `expert`.
struct ExpertChoice {
  mlir::Value ids;
  /// Axes of `ids` in the order of rows; those of size 1 do not count.
  llvm::SmallVector<int64_t> axes;
  int64_t expert = 0;

  bool sameIds(const ExpertChoice &other) const {
    return ids == other.ids && axes == other.axes;
  }
};

/// A condition [rows, 1], or as wide as what is chosen, that compares indices
/// with one number, or with several of which it is a slice; nothing for others.
std::optional<ExpertChoice> matchChoice(mlir::Value condition);

/// Of each row the place of its expert in a list, [rows].
struct RowIds {
  mlir::Value ids;
  /// Whether it has one, [rows, 1]; null where every row does.
  mlir::Value some;
};

/// `experts` rise.
RowIds rowIds(NNBuilder &b, const ExpertChoice &choice,
              llvm::ArrayRef<int64_t> experts);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_TRANSFORMS_EXPERTCHOICE_H
