// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which values need a gradient: those that depend on a trainable parameter and
// that the loss depends on.

#ifndef SHARDONNX_LIB_DIFFERENTIATE_ACTIVITY_H
#define SHARDONNX_LIB_DIFFERENTIATE_ACTIVITY_H

#include "mlir/IR/SymbolTable.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "llvm/ADT/DenseSet.h"

namespace shardonnx {

class Activity {
public:
  /// Analyses the block of a function that ends in `loss`.
  Activity(nn::LossOp loss, const mlir::SymbolTable &symbols);

  bool isActive(mlir::Value value) const {
    return varied.contains(value) && useful.contains(value);
  }
  bool isActive(mlir::Operation *op) const;

private:
  void findVaried(mlir::Block &block, const mlir::SymbolTable &symbols);
  void findUseful(mlir::Block &block, mlir::Value loss);

  /// Floats that depend on a trainable parameter.
  llvm::DenseSet<mlir::Value> varied;
  /// Values that the loss depends on.
  llvm::DenseSet<mlir::Value> useful;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_DIFFERENTIATE_ACTIVITY_H
