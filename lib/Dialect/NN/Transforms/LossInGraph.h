// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recognises the cross-entropy that a graph computes for itself.

#ifndef SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_LOSSINGRAPH_H
#define SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_LOSSINGRAPH_H

#include "shardonnx/Dialect/NN/IR/NN.h"
#include <optional>

namespace shardonnx::nn {

/// A cross-entropy that is an output.
struct LossInGraph {
  CrossEntropyOp op;
  /// Its sum over the labels divided by their number, by the number of rows
  /// whether their labels count or not, or as it is.
  enum { MeanOfLabels, MeanOfRows, Sum } reduction;
  /// The function argument that holds the labels.
  unsigned labels;
  /// How many leading positions of each sample have no label of their own.
  int64_t shift;
};

/// The loss behind a scalar output, or nothing where it is opaque.
std::optional<LossInGraph> findLossInGraph(mlir::Value output);

} // namespace shardonnx::nn

#endif // SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_LOSSINGRAPH_H
