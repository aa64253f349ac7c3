// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the families say what their ops do with operands that are split: each
// attaches ShardableOpInterface to its ops, beside their gradients.

#ifndef SHARDONNX_LIB_DIALECT_NN_IR_SHARDABLE_H
#define SHARDONNX_LIB_DIALECT_NN_IR_SHARDABLE_H

#include "shardonnx/Dialect/NN/IR/Sharding.h"

namespace shardonnx::nn {

/// `Model` says rule(Op, ShardingQuery &).
template <typename Model, typename Op>
struct ShardableModel : ShardableOpInterface::ExternalModel<Model, Op> {
  llvm::LogicalResult shard(mlir::Operation *op, ShardingQuery &query) const {
    return Model::rule(llvm::cast<Op>(op), query);
  }

private:
  ShardableModel() = default;
  friend Model;
};

/// The rule of ops that map elements to elements under broadcasting.
llvm::LogicalResult shardElementwise(mlir::Operation *op, ShardingQuery &query);
template <typename Op>
struct ShardableElementwise : ShardableModel<ShardableElementwise<Op>, Op> {
  static llvm::LogicalResult rule(Op op, ShardingQuery &query) {
    return shardElementwise(op, query);
  }
};

/// The rule of ops that compute each row of the last axis by itself: results
/// lie as the first operand, the others are whole.
llvm::LogicalResult shardRows(mlir::Operation *op, ShardingQuery &query);
template <typename Op>
struct ShardableRows : ShardableModel<ShardableRows<Op>, Op> {
  static llvm::LogicalResult rule(Op op, ShardingQuery &query) {
    return shardRows(op, query);
  }
};

/// The rule of cross-entropies: rows and their labels, of which each rank has a
/// sum; the classes, or what they are computed from, are whole.
llvm::LogicalResult shardEntropy(ShardingQuery &query);

template <template <typename> typename Model, typename... Ops>
void attachSharding(mlir::MLIRContext &context) {
  (Ops::template attachInterface<Model<Ops>>(context), ...);
}

// Of each family, and of all.
void attachElementwiseShardings(mlir::MLIRContext &context);
void attachUnaryShardings(mlir::MLIRContext &context);
void attachMathShardings(mlir::MLIRContext &context);
void attachShapeShardings(mlir::MLIRContext &context);
void attachReduceShardings(mlir::MLIRContext &context);
void attachMatmulShardings(mlir::MLIRContext &context);
void attachAttentionShardings(mlir::MLIRContext &context);
void attachNormShardings(mlir::MLIRContext &context);
void attachLossShardings(mlir::MLIRContext &context);
void attachMeshShardings(mlir::MLIRContext &context);
void attachIndexShardings(mlir::MLIRContext &context);
void attachRingShardings(mlir::MLIRContext &context);
void attachVocabularyShardings(mlir::MLIRContext &context);
void attachShardings(mlir::MLIRContext &context);

} // namespace shardonnx::nn

#endif // SHARDONNX_LIB_DIALECT_NN_IR_SHARDABLE_H
