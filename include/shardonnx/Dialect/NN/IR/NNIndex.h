// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The nn ops that choose elements. Apart from NN.h, which most files of the
// compiler include: only those that name these ops include this.

#ifndef SHARDONNX_DIALECT_NN_IR_NNINDEX_H
#define SHARDONNX_DIALECT_NN_IR_NNINDEX_H

#include "shardonnx/Dialect/NN/IR/NN.h"

#include "shardonnx/Dialect/NN/IR/NNIndexOpsEnums.h.inc"
#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNIndexOps.h.inc"

namespace shardonnx::nn {

/// How nn.gather and nn.scatter walk over data and indices.
struct IndexAxes {
  llvm::SmallVector<int64_t> data, index, indexed;

  /// Elements along one axis of data, at indices of any shape (ONNX Gather).
  static IndexAxes along(int64_t axis, int64_t dataRank, int64_t indexRank);
  /// At one index for each element of the result (ONNX GatherElements).
  static IndexAxes elements(int64_t axis, int64_t rank);
  /// Slices at coordinates of the first axes (ONNX GatherND); indexRank counts
  /// the axis of the coordinates.
  static IndexAxes slices(int64_t coordinates, int64_t batchRank,
                          int64_t dataRank, int64_t indexRank);
};

/// The shape of the gathered elements, or nothing where the axes do not fit.
std::optional<llvm::SmallVector<int64_t>>
gatheredShape(llvm::ArrayRef<int64_t> data, llvm::ArrayRef<int64_t> indices,
              llvm::ArrayRef<int64_t> dataAxes,
              llvm::ArrayRef<int64_t> indexAxes,
              llvm::ArrayRef<int64_t> indexedAxes);

/// Registers the group with the dialect.
void registerIndexOps(NNDialect &dialect);

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_IR_NNINDEX_H
