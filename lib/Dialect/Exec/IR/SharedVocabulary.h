// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What lookups and losses of a whole vocabulary, and of a part of it, share on
// their way to calls.

#ifndef SHARDONNX_LIB_DIALECT_EXEC_IR_SHAREDVOCABULARY_H
#define SHARDONNX_LIB_DIALECT_EXEC_IR_SHAREDVOCABULARY_H

#include "Calls.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/runtime/MeshABI.h"

#include <type_traits>

namespace shardonnx::exec {

/// The axis whose ranks share a vocabulary, how many they are, and how many
/// rows of the last are no words.
struct SharedBy {
  mlir::StringAttr axis; // null: each has all words
  int64_t parts = 1, padding = 0;
  /// Where a rank has so many rows.
  int64_t words(int64_t rows) const { return rows * parts - padding; }
};

template <typename Op> SharedBy sharedBy([[maybe_unused]] Op op) {
  if constexpr (std::is_same_v<Op, nn::EmbeddingPartOp> ||
                std::is_same_v<Op, nn::EmbeddingPartGradOp> ||
                std::is_same_v<Op, nn::LinearCrossEntropyPartOp> ||
                std::is_same_v<Op, nn::LinearCrossEntropyPartGradOp>)
    return {op.getAxisAttr(), int64_t(op.getParts()), int64_t(op.getPadding())};
  else
    return {};
}

/// Attaches a model to the op of the whole and to that of a part.
template <template <typename> typename Model, typename... Ops>
void attach(mlir::MLIRContext &context) {
  (Ops::template attachInterface<Model<Ops>>(context), ...);
}

} // namespace shardonnx::exec

#endif // SHARDONNX_LIB_DIALECT_EXEC_IR_SHAREDVOCABULARY_H
