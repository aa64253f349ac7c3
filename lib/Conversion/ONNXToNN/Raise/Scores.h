// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What raise-attention reads before it builds: the way from a softmax down to
// the product of queries and keys, and the operands of products. Heads are an
// axis of their own, or one with the batch (torch.bmm, nn.MultiheadAttention).

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_SCORES_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_SCORES_H

#include "../Lower/HeadWidths.h"
#include "Match.h"
#include "shardonnx/Dialect/NN/IR/NN.h"

#include <cmath>
#include <utility>

namespace shardonnx {

/// What is added to scores times `scale`, or a condition that hides them.
struct Mask {
  mlir::Value value;
  double scale = 1;
  bool batched = false; // to scores [batch·heads, queries, keys]
};

inline bool isCondition(const Mask &mask) {
  return elementType(mask.value).isInteger(1);
}

/// Batch and heads, where they are one axis.
struct BatchHeads {
  int64_t batch, heads;
};

/// What stands between the product of queries and keys and the softmax.
struct Scores {
  nn::MatmulOp product;
  double scale = 1;
  double softcap = 0;
  /// Said by a reshape on the way, if one is.
  std::optional<BatchHeads> batchHeads;
  llvm::SmallVector<Mask> masks;
  /// What a condition puts in the place of a score, or what is added to it; one
  /// of several that differ.
  std::optional<double> hidden;
  bool added = false;

  /// Whether a query that sees nothing has numbers as scores.
  bool hidesByNumbers() const { return hidden && std::isfinite(*hidden); }
  /// Whether a condition may put `number` there, too.
  bool fits(double number) const { return !hidden || *hidden == number; }
};

/// What is weighted by a softmax: scores, and a sink where there is one.
struct WeightedScores {
  mlir::Value scores;
  mlir::Value sink; // of any shape with an element for each head, or null
};

/// Weights that are softmax(scores), or softmax([scores, sink]) without those
/// of the sink, a score of each query that has no value.
std::optional<WeightedScores> matchWeights(mlir::Value weights);

/// Walks from the softmax down to the product.
std::optional<Scores> matchScores(mlir::Value value);

/// Whether a reshape of scores, or of weights, only parts or merges batch and
/// heads; `batchHeads` are then these.
bool isOfBatchHeads(nn::ReshapeOp reshape,
                    std::optional<BatchHeads> &batchHeads);

/// An operand of a product of attention: `scale` times [batch, heads, seq,
/// dim], or that with its last two axes swapped; batch and heads may be one
/// axis.
struct Heads {
  mlir::Value value;
  bool swapped;
  BatchHeads first;
  double scale = 1;

  int64_t batch() const { return first.batch; }
  int64_t heads() const { return first.heads; }
  int64_t seq() const { return shapeOf(value).take_back(2)[swapped]; }
  int64_t dim() const { return shapeOf(value).take_back(2)[!swapped]; }

  /// [batch, heads, seq, dim].
  mlir::Value whole(nn::NNBuilder &b) const;
  /// [batch, seq, heads, dim], of `element`s and of that many dimensions.
  mlir::Value seqFirst(nn::NNBuilder &b, mlir::Type element,
                       int64_t width) const;
};

/// Reads an operand of three or four axes; `merged` says what the first of
/// three is.
Heads readHeads(mlir::Value value, bool swapped, BatchHeads merged);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_SCORES_H
