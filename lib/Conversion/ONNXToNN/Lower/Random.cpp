// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers nodes that draw random numbers. Their seeds are the run's (--seed),
// whatever their attribute `seed` says: ONNX leaves open which numbers a seed
// makes.

#include "Random.h"

#include <cmath>
#include <utility>

using namespace mlir;

namespace shardonnx {

void RandomDraws::warnOfIdle(onnx::NodeOp node) {
  if (!std::exchange(warned, true))
    node.emitWarning("Dropout without a training_mode does nothing "
                     "(scaled_dot_product_attention is exported so); "
                     "--dropout=on has it drop, --dropout=off says that it "
                     "should not");
}

std::optional<RandomDraws::Stream> RandomDraws::open(Lowering &l,
                                                     onnx::NodeOp node,
                                                     ArrayRef<int64_t> shape,
                                                     StringRef mend) {
  Block *block = l.builder.getInsertionBlock();
  // Axis 0 of every input of the graph counts samples.
  int64_t samples = 0;
  for (BlockArgument argument : block->getArguments())
    if (samples == 0 && argument != random && !shapeOf(argument).empty())
      samples = shapeOf(argument)[0];
  if (samples == 0 || shape.empty() || shape[0] % samples != 0) {
    (void)l.unsupported(node, "axis 0 of what it draws for does not count "
                              "samples, so ranks cannot draw apart" +
                                  mend);
    return std::nullopt;
  }
  if (!random)
    random = block->addArgument(
        RankedTensorType::get({1}, l.builder.getI64Type()), l.loc);
  return Stream{random, l.builder.getI64IntegerAttr(count++),
                l.builder.getI64IntegerAttr(samples)};
}

Value RandomDraws::drop(Lowering &l, onnx::NodeOp node, Value value,
                        double ratio) {
  std::optional<Stream> stream =
      open(l, node, shapeOf(value), "; --dropout=off leaves dropout out");
  if (!stream)
    return {};
  dropped = true;
  return nn::DropoutOp::create(l.builder, l.loc, value.getType(), value,
                               stream->random, l.builder.getF64FloatAttr(ratio),
                               stream->number, stream->samples);
}

Value RandomDraws::uniform(Lowering &l, onnx::NodeOp node,
                           ArrayRef<int64_t> shape) {
  std::optional<Stream> stream = open(l, node, shape, "");
  if (!stream)
    return {};
  auto type = RankedTensorType::get(shape, l.builder.getF32Type());
  return nn::RandomUniformOp::create(l.builder, l.loc, type, stream->random,
                                     stream->number, stream->samples);
}

BlockArgument RandomDraws::finish() {
  if (random)
    random.setType(RankedTensorType::get(
        {count + 1}, IntegerType::get(random.getContext(), 64)));
  return random;
}

namespace {

/// The type that a node draws: what the import has inferred from its attribute
/// `dtype` and its input.
RankedTensorType drawnType(onnx::NodeOp node) {
  return cast<RankedTensorType>(node->getResult(0).getType());
}

/// `low` + `range` · `value`, as the node's type.
LogicalResult setScaled(Lowering &l, onnx::NodeOp node, Value value,
                        double range, double low) {
  if (range != 1)
    value = l.mul(value, range);
  if (low != 0)
    value = l.add(value, low);
  l.set(node->getResult(0), l.cast(value, drawnType(node).getElementType()));
  return success();
}

/// RandomUniform and RandomUniformLike.
LogicalResult lowerUniform(Lowering &l, onnx::NodeOp node) {
  double low = node.getFloat("low", 0), high = node.getFloat("high", 1);
  Value value = l.draws.uniform(l, node, drawnType(node).getShape());
  if (!value)
    return failure();
  return setScaled(l, node, value, high - low, low);
}

/// RandomNormal and RandomNormalLike, by Box and Muller (1958): of two uniform
/// numbers √(-2·log(1 - u))·cos(2πv), up to 5.8 deviations from the mean.
LogicalResult lowerNormal(Lowering &l, onnx::NodeOp node) {
  ArrayRef<int64_t> shape = drawnType(node).getShape();
  Value u = l.draws.uniform(l, node, shape);
  Value v = u ? l.draws.uniform(l, node, shape) : Value();
  if (!v)
    return failure();
  Value radius =
      l.unary<nn::SqrtOp>(l.mul(l.unary<nn::LogOp>(l.oneMinus(u)), -2.0));
  Value normal = l.mul(radius, l.unary<nn::CosOp>(l.mul(v, 2 * M_PI)));
  return setScaled(l, node, normal, node.getFloat("scale", 1),
                   node.getFloat("mean", 0));
}

/// Ones with the chance that the input gives.
LogicalResult lowerBernoulli(Lowering &l, onnx::NodeOp node) {
  Value chance = l.get(node.getInput(0));
  Value value = l.draws.uniform(l, node, shapeOf(chance));
  if (!value)
    return failure();
  Value one = l.compare(nn::ComparePredicate::lt, value, l.f32(chance));
  l.set(node->getResult(0), l.cast(one, drawnType(node).getElementType()));
  return success();
}

} // namespace

void addRandomHandlers(HandlerTable &table) {
  table["Bernoulli"] = lowerBernoulli;
  table["RandomNormal"] = table["RandomNormalLike"] = lowerNormal;
  table["RandomUniform"] = table["RandomUniformLike"] = lowerUniform;
}

} // namespace shardonnx
