// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a mixture of experts is exported: each row looks its matrix up and is
// multiplied with it.

#ifndef SHARDONNX_DIALECT_NN_TRANSFORMS_MATRIXLOOKUP_H
#define SHARDONNX_DIALECT_NN_TRANSFORMS_MATRIXLOOKUP_H

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"

namespace shardonnx::nn {

/// The product of one vector for each of many matrices, which are rows of a
/// table [experts, rows · columns], looked up for this alone.
struct MatrixLookup {
  MatmulOp product;
  EmbeddingOp lookup;
  bool left; // do the matrices stand left of the vectors?

  mlir::Value matrices() { return left ? product.getLhs() : product.getRhs(); }
  mlir::Value vectors() { return left ? product.getRhs() : product.getLhs(); }
  int64_t experts() { return shapeOf(lookup.getTable())[0]; }
  int64_t count() { return shapeOf(matrices())[0]; }
  /// W·x is x·Wᵀ: stored as it is, W is then the transposed matrix, [out, in].
  bool transposed() {
    return left ? !product.getTransposeLhs() : bool(product.getTransposeRhs());
  }
  int64_t in() { return shapeOf(matrices())[transposed() ? 2 : 1]; }
  int64_t out() { return shapeOf(matrices())[transposed() ? 1 : 2]; }
};

/// The product as such a one; nothing if it is another.
std::optional<MatrixLookup> findMatrixLookup(MatmulOp product);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_TRANSFORMS_MATRIXLOOKUP_H
