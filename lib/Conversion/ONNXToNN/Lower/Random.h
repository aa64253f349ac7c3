// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the nodes of a graph that draw random numbers share: the state that they
// draw from.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_RANDOM_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_RANDOM_H

#include "Handlers.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"

namespace shardonnx {

class RandomDraws {
public:
  explicit RandomDraws(DropoutMode dropout) : dropout(dropout) {}

  DropoutMode getDropout() const { return dropout; }
  /// Says once that a Dropout node with a ratio does nothing.
  void warnOfIdle(onnx::NodeOp node);

  // Both are null, and the node is refused, where samples cannot be told apart.

  /// `value` with a share of its elements dropped.
  mlir::Value drop(Lowering &l, onnx::NodeOp node, mlir::Value value,
                   double ratio);
  /// Numbers in [0, 1), f32.
  mlir::Value uniform(Lowering &l, onnx::NodeOp node,
                      llvm::ArrayRef<int64_t> shape);

  /// Whether --dropout=on asks for what no node does.
  bool dropsNothing() const { return dropout == DropoutMode::On && !dropped; }

  /// The argument of random numbers, its type complete; null where nothing is
  /// drawn.
  mlir::BlockArgument finish();

private:
  /// What a draw reads, and its attributes.
  struct Stream {
    mlir::Value random;
    mlir::IntegerAttr number, samples;
  };
  std::optional<Stream> open(Lowering &l, onnx::NodeOp node,
                             llvm::ArrayRef<int64_t> shape,
                             llvm::StringRef mend);

  DropoutMode dropout;
  mlir::BlockArgument random; // appended for the first draw
  int64_t count = 0;
  bool warned = false, dropped = false;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_RANDOM_H
