// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers normalisations that are not over the last axes: by channels, groups
// of channels, or a norm of vectors along one axis.

#include "Lowering.h"
#include "Rearrange.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"

using namespace mlir;

namespace shardonnx {
namespace {

using nn::ComparePredicate;
using nn::NNBuilder;

/// A value for each channel, as it broadcasts to a tensor with channels on
/// axis 1; f32.
Value byChannel(NNBuilder &b, Value value, int64_t rank) {
  SmallVector<int64_t> shape(std::max<int64_t>(rank - 1, 1), 1);
  shape[0] = shapeOf(value)[0];
  return b.reshape(b.f32(value), shape);
}

bool isFloatOfRank(Value value, size_t rank) {
  return isa<FloatType>(elementTypeOf(value)) && shapeOf(value).size() >= rank;
}

/// The mean over axes, which stay.
Value meanOver(NNBuilder &b, Value value, ArrayRef<int64_t> axes) {
  return nn::ReduceMeanOp::create(b.builder, b.loc, value, axes,
                                  /*keepdims=*/true);
}

/// new·(1 - momentum) + running·momentum
Value movedMean(NNBuilder &b, Value running, Value fresh, double momentum) {
  return b.add(b.mul(b.f32(running), momentum),
               b.mul(b.reshape(fresh, shapeOf(running)), 1 - momentum));
}

LogicalResult lowerBatchNorm(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  if (!isFloatOfRank(operand, 2))
    return l.unsupported(node, "only of floats with channels on axis 1");
  int64_t channels = shapeOf(operand)[1];
  SmallVector<Value> given; // scale, bias, mean, variance
  for (unsigned i = 1; i <= 4; ++i) {
    given.push_back(l.get(node.getInput(i)));
    if (shapeOf(given.back()) != ArrayRef<int64_t>(channels))
      return l.unsupported(node, "its scale has another size than axis 1");
  }
  int64_t rank = static_cast<int64_t>(shapeOf(operand).size());
  NNBuilder b(l.builder, l.loc());
  Value x = b.f32(operand);
  Value mean = byChannel(b, given[2], rank);
  Value variance = byChannel(b, given[3], rank);
  if (node.getInt("training_mode", 0) != 0) {
    SmallVector<int64_t> axes{0};
    llvm::append_range(axes, llvm::seq<int64_t>(2, rank));
    mean = meanOver(b, x, axes);
    Value centred = b.sub(x, mean);
    variance = meanOver(b, b.mul(centred, centred), axes);
    double momentum = node.getFloat("momentum", 0.9);
    for (unsigned i = 1; i < node->getNumResults() && i <= 2; ++i) {
      Value moved =
          movedMean(b, given[i + 1], i == 1 ? mean : variance, momentum);
      l.set(node->getResult(i), b.cast(moved, elementTypeOf(given[i + 1])));
    }
  } else if (node->getNumResults() > 1) {
    return l.unsupported(node, "its statistics are outputs in training alone");
  }
  double epsilon = node.getFloat("epsilon", 1e-5);
  Value rstd = b.unary<nn::RsqrtOp>(b.add(variance, epsilon));
  Value scaled =
      b.mul(b.sub(x, mean), b.mul(rstd, byChannel(b, given[0], rank)));
  Value result = b.add(scaled, byChannel(b, given[1], rank));
  l.set(node->getResult(0), b.cast(result, elementTypeOf(operand)));
  return success();
}

/// Each group of channels of each sample to mean 0 and variance 1, as rows;
/// then a scale and a bias for each channel.
LogicalResult normalizeGroups(Lowering &l, onnx::NodeOp node, int64_t groups) {
  Value operand = l.get(node.getInput(0));
  ArrayRef<int64_t> shape = shapeOf(operand);
  int64_t channels = shape[1], rank = static_cast<int64_t>(shape.size());
  int64_t rows = shape[0] * groups;
  int64_t width = ShapedType::getNumElements(shape) / rows;
  NNBuilder b(l.builder, l.loc());
  Value x = b.f32(b.reshape(operand, {rows, width}));
  Value ones = l.splat(1, b.builder.getF32Type(), {width});
  auto norm =
      nn::LayerNormOp::create(b.builder, b.loc, x, ones, Value(),
                              b.builder.getF32FloatAttr(static_cast<float>(
                                  node.getFloat("epsilon", 1e-5))));
  // Before opset 21 a GroupNormalization has one scale for each group.
  auto perChannel = [&](unsigned input) -> Value {
    Value value = l.get(node.getInput(input));
    if (shapeOf(value) == ArrayRef<int64_t>(groups) && groups != channels)
      value = b.reshape(b.broadcast(b.reshape(value, {groups, 1}),
                                    {groups, channels / groups}),
                        {channels});
    if (shapeOf(value) != ArrayRef<int64_t>(channels))
      return {};
    return byChannel(b, value, rank);
  };
  Value scale = perChannel(1), bias = perChannel(2);
  if (!scale || !bias)
    return l.unsupported(node, "its scale has another size than axis 1");
  Value result = b.reshape(norm.getResult(), shape);
  result = b.add(b.mul(result, scale), bias);
  l.set(node->getResult(0), b.cast(result, elementTypeOf(operand)));
  return success();
}

LogicalResult lowerInstanceNorm(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  if (!isFloatOfRank(operand, 3))
    return l.unsupported(node, "only of floats with channels on axis 1");
  return normalizeGroups(l, node, shapeOf(operand)[1]);
}

LogicalResult lowerGroupNorm(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  int64_t groups = node.getInt("num_groups", 0);
  if (!isFloatOfRank(operand, 2) || groups < 1 ||
      shapeOf(operand)[1] % groups != 0)
    return l.unsupported(node, "its groups do not fit axis 1");
  return normalizeGroups(l, node, groups);
}

/// A vector of norm zero stays as it is.
LogicalResult lowerLpNorm(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  auto axis = normalizeAxis(node.getInt("axis", -1),
                            static_cast<int64_t>(shapeOf(operand).size()));
  int64_t p = node.getInt("p", 2);
  if (!axis || !isFloatOfRank(operand, 1) || (p != 1 && p != 2))
    return l.unsupported(node, "only of floats, with p = 1 or 2");
  NNBuilder b(l.builder, l.loc());
  Value x = b.f32(operand);
  Value norm = b.sum(p == 1 ? b.unary<nn::AbsOp>(x) : b.mul(x, x), {*axis});
  if (p == 2)
    norm = safeSqrt(b, norm);
  Value isZero = b.compare(ComparePredicate::eq, norm, b.constant(0));
  Value result = b.div(x, b.select(isZero, b.constant(1), norm));
  l.set(node->getResult(0), b.cast(result, elementTypeOf(operand)));
  return success();
}

/// (x - mean)/(standard deviation + 1e-9)
LogicalResult lowerMeanVariance(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  SmallVector<int64_t> axes;
  if (!node.getInts("axes", axes))
    axes = {0, 2, 3};
  int64_t rank = static_cast<int64_t>(shapeOf(operand).size());
  for (int64_t &axis : axes) {
    auto positive = normalizeAxis(axis, rank);
    if (!positive || !isFloatOfRank(operand, 1))
      return l.unsupported(node, "only of floats, over axes in range");
    axis = *positive;
  }
  llvm::sort(axes);
  axes.erase(llvm::unique(axes), axes.end());
  NNBuilder b(l.builder, l.loc());
  Value x = b.f32(operand), centred = b.sub(x, meanOver(b, x, axes));
  Value deviation = safeSqrt(b, meanOver(b, b.mul(centred, centred), axes));
  Value result = b.div(centred, b.add(deviation, 1e-9));
  l.set(node->getResult(0), b.cast(result, elementTypeOf(operand)));
  return success();
}

/// One at the first maximum along an axis, zero elsewhere.
LogicalResult lowerHardmax(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  int64_t rank = static_cast<int64_t>(shapeOf(operand).size());
  auto axis = normalizeAxis(node.getInt("axis", -1), rank);
  if (!axis || !isFloatOfRank(operand, 1))
    return l.unsupported(node, "only of floats, its axis in range");
  NNBuilder b(l.builder, l.loc());
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(order[*axis], order.back());
  bool moved = *axis != rank - 1;
  Value x = b.f32(moved ? b.transpose(operand, order) : operand);
  // Places fit a float: a row of 2^24 elements is no vector of probabilities.
  int64_t width = shapeOf(x).back();
  if (width >= (int64_t(1) << 24))
    return l.unsupported(node, "its axis is too long");
  Value isMax = b.compare(ComparePredicate::eq, x, b.rowMax(x));
  Value place = nn::IotaOp::create(
      b.builder, b.loc, RankedTensorType::get({width}, b.builder.getF32Type()),
      0);
  Value last = b.rowMax(b.select(isMax, b.unary<nn::NegOp>(place),
                                 b.constant(-static_cast<double>(width))));
  Value isFirst =
      b.compare(ComparePredicate::eq, place, b.unary<nn::NegOp>(last));
  Value result = b.cast(isFirst, elementTypeOf(operand));
  l.set(node->getResult(0), moved ? b.transpose(result, order) : result);
  return success();
}

} // namespace

void addChannelNormHandlers(HandlerTable &table) {
  table["BatchNormalization"] = lowerBatchNorm;
  table["InstanceNormalization"] = lowerInstanceNorm;
  table["GroupNormalization"] = lowerGroupNorm;
  table["LpNormalization"] = lowerLpNorm;
  table["MeanVarianceNormalization"] = lowerMeanVariance;
  table["Hardmax"] = lowerHardmax;
}

} // namespace shardonnx
