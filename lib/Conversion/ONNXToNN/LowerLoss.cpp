// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers losses inside a graph: as a sum, divided by the count of labels, so
// that the loss pass can find the sum and take means over all ranks.

#include "Lowering.h"

using namespace mlir;

namespace shardonnx {
namespace {

/// The number of labels other than `ignored`, f32.
Value countLabels(Lowering &l, Value labels, int64_t ignored) {
  Type f32 = l.builder.getF32Type();
  Value skip = l.splat(static_cast<double>(ignored), elementTypeOf(labels));
  Value counts = nn::CompareOp::create(
      l.builder, l.loc(),
      RankedTensorType::get(shapeOf(labels), l.builder.getI1Type()),
      nn::ComparePredicate::ne, labels, skip);
  Value ones = nn::SelectOp::create(l.builder, l.loc(),
                                    RankedTensorType::get(shapeOf(labels), f32),
                                    counts, l.splat(1, f32), l.splat(0, f32));
  return nn::ReduceSumOp::create(
      l.builder, l.loc(), RankedTensorType::get({}, f32), ones,
      l.builder.getDenseI64ArrayAttr({0}), UnitAttr());
}

LogicalResult lowerCrossEntropy(Lowering &l, onnx::NodeOp node) {
  StringRef reduction = node.getString("reduction", "mean");
  if (node.getInput(2) || node->getNumResults() != 1 || reduction == "none")
    return l.unsupported(node, "only mean or sum, without class weights");
  Value logits = l.get(node.getInput(0)), labels = l.get(node.getInput(1));
  SmallVector<int64_t> shape(shapeOf(logits));
  // [N, C, d…] has its classes in the middle.
  if (shape.size() > 2) {
    SmallVector<int64_t> permutation = {0};
    for (size_t i = 2; i < shape.size(); ++i)
      permutation.push_back(static_cast<int64_t>(i));
    permutation.push_back(1);
    logits = l.transpose(logits, permutation);
  }
  int64_t classes = shapeOf(logits).back(), rows = 1;
  for (int64_t dim : shapeOf(logits).drop_back())
    rows *= dim;
  logits = l.reshape(logits, {rows, classes});
  labels = l.reshape(labels, {rows});
  int64_t ignored = node.getInt("ignore_index", -100);
  Type f32 = l.builder.getF32Type();
  Value result = nn::CrossEntropyOp::create(
      l.builder, l.loc(), RankedTensorType::get({}, f32), logits, labels,
      l.builder.getI64IntegerAttr(ignored));
  if (reduction == "mean")
    result = l.binary<nn::DivOp>(result, countLabels(l, labels, ignored));
  l.set(node->getResult(0), l.castTo(result, elementTypeOf(logits)));
  return success();
}

} // namespace

void addLossHandlers(HandlerTable &table) {
  table["SoftmaxCrossEntropyLoss"] = lowerCrossEntropy;
}

} // namespace shardonnx
