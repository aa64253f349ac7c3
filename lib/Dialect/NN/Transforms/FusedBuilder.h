// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The body of an nn.fused, built from ops of the block around it.

#ifndef SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_FUSEDBUILDER_H
#define SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_FUSEDBUILDER_H

#include "FusionGraph.h"
#include "llvm/ADT/MapVector.h"

namespace shardonnx::fusion {

class FusedBuilder {
public:
  /// `takes`: the ops that the body computes; cheap ones come along.
  FusedBuilder(mlir::OpBuilder &builder, mlir::Location loc, nn::FusedKind kind,
               llvm::ArrayRef<int64_t> domain,
               llvm::function_ref<bool(mlir::Operation *)> takes);

  /// Makes the group of these results, and gives for each its value outside,
  /// of the original type.
  llvm::SmallVector<mlir::Value> build(llvm::ArrayRef<mlir::Value> results,
                                       nn::FusedOp &fused);

private:
  mlir::Value get(mlir::Value value, llvm::ArrayRef<int64_t> from);
  mlir::Value root(mlir::Value result);
  mlir::Value input(mlir::Value value, const Shape &shape);
  mlir::Value clone(mlir::Operation *op);
  mlir::Value cloneReduction(mlir::Operation *op);
  Shape targetOf(llvm::ArrayRef<int64_t> from) const;
  bool canTakeAlong(mlir::Operation *op) const;
  mlir::Value reshapeOutside(mlir::Value value, llvm::ArrayRef<int64_t> shape);

  mlir::OpBuilder &outside;
  mlir::Location loc;
  nn::FusedKind kind;
  Shape domain;
  llvm::function_ref<bool(mlir::Operation *)> takes;
  mlir::Block *body = nullptr;
  mlir::OpBuilder inside;
  llvm::DenseMap<mlir::Value, mlir::Value> computed;
  llvm::MapVector<std::pair<mlir::Value, mlir::Type>, mlir::Value> inputs;
};

} // namespace shardonnx::fusion

#endif // SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_FUSEDBUILDER_H
