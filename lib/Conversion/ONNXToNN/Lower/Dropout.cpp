// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers Dropout.

#include "Random.h"

using namespace mlir;

namespace shardonnx {

/// By ONNX, Dropout drops where its training_mode is true. PyTorch's exporter
/// leaves training_mode out of what scaled_dot_product_attention drops.
static LogicalResult lowerDropout(Lowering &l, onnx::NodeOp node) {
  const HostTensor *given = l.getConstant(node.getInput(1));
  const HostTensor *training = l.getConstant(node.getInput(2));
  if ((node.getInput(1) && !given) || (node.getInput(2) && !training))
    return l.unsupported(node, "its ratio or training_mode depends on data");
  if (node->getNumResults() > 1 && !node->getResult(1).use_empty())
    return l.unsupported(node, "its mask is read");
  double ratio = given ? given->front().f : 0.5;
  if (ratio < 0 || ratio >= 1)
    return l.unsupported(node, "its ratio is not within [0, 1)");
  bool drops = training && training->front().i != 0;
  if (l.draws.getDropout() != DropoutMode::Graph)
    drops = l.draws.getDropout() == DropoutMode::On;
  else if (!node.getInput(2) && given && ratio > 0)
    l.draws.warnOfIdle(node);
  Value value = l.get(node.getInput(0));
  if (drops && ratio > 0)
    value = l.draws.drop(l, node, value, ratio);
  if (!value)
    return failure();
  l.set(node->getResult(0), value);
  return success();
}

void addDropoutHandlers(HandlerTable &table) {
  table["Dropout"] = lowerDropout;
}

} // namespace shardonnx
