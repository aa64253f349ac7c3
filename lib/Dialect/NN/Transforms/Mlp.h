// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The hidden values of an MLP: what linear layers make of rows of tokens, and
// elementwise kernels of that alone, until linear layers have read it all. A
// row of them needs no other row, so they can be computed a few rows at a time.

#ifndef SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_MLP_H
#define SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_MLP_H

#include "shardonnx/Dialect/NN/IR/NN.h"
#include "llvm/ADT/DenseSet.h"

namespace shardonnx::nn {

/// What a shape has of the rows of an MLP.
enum class RowShape {
  rows,    // its leading axes are the rows
  whole,   // none: the same for each row
  neither, // some, as a table of positions has
};

/// How many leading axes of a shape are so many rows together; none if none
/// are.
std::optional<size_t> leadingRows(llvm::ArrayRef<int64_t> shape, int64_t rows);
/// Of a shape beside one that has so many axes behind its rows.
RowShape rowShapeOf(llvm::ArrayRef<int64_t> shape, int64_t rows,
                    size_t axesBehind);

/// A linear product or what a library makes of one.
struct LinearProduct {
  mlir::Value lhs, rhs, side; // side: null, or what an epilogue reads
  bool transposeLhs = false, transposeRhs = false;
};
std::optional<LinearProduct> linearProduct(mlir::Operation *op);

struct Mlp {
  int64_t rows = 0;
  /// All that computes or reads a hidden value, in the order of the block.
  llvm::SmallVector<mlir::Operation *> ops;
  /// Results that have the rows; the others are summed over them.
  llvm::DenseSet<mlir::Value> byRows;
};

/// Which readers of hidden values belong to the MLP: all, or, of values that
/// forward may yet keep for backward, those of forward.
enum class MlpReaders { all, forward };

/// The MLPs of a block, in its order.
llvm::SmallVector<Mlp> findMlps(mlir::Block &block,
                                MlpReaders readers = MlpReaders::all);

} // namespace shardonnx::nn

#endif // SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_MLP_H
