// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers Dropout.

#include "Dropout.h"

#include <utility>

using namespace mlir;

namespace shardonnx {

void Dropouts::warnOfIdle(onnx::NodeOp node) {
  if (!std::exchange(warned, true))
    node.emitWarning("Dropout without a training_mode does nothing "
                     "(scaled_dot_product_attention is exported so); "
                     "--dropout=on has it drop, --dropout=off says that it "
                     "should not");
}

Value Dropouts::drop(Lowering &l, onnx::NodeOp node, Value value,
                     double ratio) {
  Block *block = l.builder.getInsertionBlock();
  // Axis 0 of every input of the graph counts samples.
  int64_t samples = 0;
  for (BlockArgument argument : block->getArguments())
    if (samples == 0 && argument != random && !shapeOf(argument).empty())
      samples = shapeOf(argument)[0];
  ArrayRef<int64_t> shape = shapeOf(value);
  if (samples == 0 || shape.empty() || shape[0] % samples != 0)
    return l.unsupported(node, "axis 0 of what it drops from does not count "
                               "samples, so ranks cannot draw their masks "
                               "apart; --dropout=off leaves dropout out");
  if (!random)
    random = block->addArgument(
        RankedTensorType::get({1}, l.builder.getI64Type()), l.loc);
  return nn::DropoutOp::create(l.builder, l.loc, value.getType(), value, random,
                               l.builder.getF64FloatAttr(ratio),
                               l.builder.getI64IntegerAttr(count++),
                               l.builder.getI64IntegerAttr(samples));
}

BlockArgument Dropouts::finish() {
  if (random)
    random.setType(RankedTensorType::get(
        {count + 1}, IntegerType::get(random.getContext(), 64)));
  return random;
}

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
  if (l.dropouts.getMode() != DropoutMode::Graph)
    drops = l.dropouts.getMode() == DropoutMode::On;
  else if (!node.getInput(2) && given && ratio > 0)
    l.dropouts.warnOfIdle(node);
  Value value = l.get(node.getInput(0));
  if (drops && ratio > 0)
    value = l.dropouts.drop(l, node, value, ratio);
  if (!value)
    return failure();
  l.set(node->getResult(0), value);
  return success();
}

void addDropoutHandlers(HandlerTable &table) {
  table["Dropout"] = lowerDropout;
}

} // namespace shardonnx
