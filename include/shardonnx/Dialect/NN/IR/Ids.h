// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arguments of an nn function that hold ids of a table, or of classes: what the
// data may have there, which the runtime looks at before the first step.

#ifndef SHARDONNX_DIALECT_NN_IR_IDS_H
#define SHARDONNX_DIALECT_NN_IR_IDS_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include <optional>

namespace shardonnx::nn {

/// How ids of an argument are used in one place.
struct IdUse {
  int64_t limit = 0;              // they lie in [0, limit)
  std::optional<int64_t> ignored; // of labels: the one that counts in no loss
  /// The first of each sample is left out.
  bool shifted = false;
  /// Not all are used.
  bool partial = false;
  /// Which, along the axes behind the first; empty: all, or nobody knows.
  llvm::SmallVector<int64_t> begin, end;
};

/// The argument that ids are moved from, and which of its elements they are;
/// none where anything else has a share in them.
struct IdSource {
  mlir::BlockArgument argument;
  IdUse use; // without limit and ignored
};
std::optional<IdSource> sourceOfIds(mlir::Value ids);

/// Of an argument: uses of its ids of which no op tells after the raise, such
/// as the labels of a loss that is written out (an array of dictionaries).
inline constexpr llvm::StringLiteral kIdsAttr = "nn.ids";

mlir::Attribute toAttribute(mlir::MLIRContext *context, const IdUse &use);
/// None where it is no such attribute.
std::optional<IdUse> toIdUse(mlir::Attribute attribute);
llvm::SmallVector<IdUse> idUsesOf(mlir::FunctionOpInterface function,
                                  unsigned index);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_IDS_H
