// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the Dropout nodes of a graph share: the state that their masks are drawn
// from.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_DROPOUT_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_DROPOUT_H

#include "Handlers.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"

namespace shardonnx {

class Dropouts {
public:
  explicit Dropouts(DropoutMode mode) : mode(mode) {}

  DropoutMode getMode() const { return mode; }
  /// `value` with a share of its elements dropped; null, and the node is
  /// refused, where samples cannot be told apart.
  mlir::Value drop(Lowering &l, onnx::NodeOp node, mlir::Value value,
                   double ratio);
  /// Says once that a Dropout node with a ratio does nothing.
  void warnOfIdle(onnx::NodeOp node);

  /// The argument of random numbers, its type complete; null where nothing is
  /// dropped.
  mlir::BlockArgument finish();

private:
  DropoutMode mode;
  mlir::BlockArgument random; // appended for the first dropout
  int64_t count = 0;
  bool warned = false;
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_DROPOUT_H
