// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers normalisations that are not over the last axes: by channels, groups
// of channels, or a norm of vectors along one axis.

#include "Rearrange.h"

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
  return isFloat(value) && shapeOf(value).size() >= rank;
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
  int64_t rank = rankOf(operand);
  Value x = l.f32(operand);
  Value mean = byChannel(l, given[2], rank);
  Value variance = byChannel(l, given[3], rank);
  if (node.getInt("training_mode", 0) != 0) {
    SmallVector<int64_t> axes{0};
    llvm::append_range(axes, llvm::seq<int64_t>(2, rank));
    mean = meanOver(l, x, axes);
    Value centred = l.sub(x, mean);
    variance = meanOver(l, l.mul(centred, centred), axes);
    double momentum = node.getFloat("momentum", 0.9);
    for (unsigned i = 1; i < node->getNumResults() && i <= 2; ++i) {
      Value moved =
          movedMean(l, given[i + 1], i == 1 ? mean : variance, momentum);
      l.set(node->getResult(i), l.cast(moved, elementType(given[i + 1])));
    }
  } else if (node->getNumResults() > 1) {
    return l.unsupported(node, "its statistics are outputs in training alone");
  }
  double epsilon = node.getFloat("epsilon", 1e-5);
  Value rstd = l.unary<nn::RsqrtOp>(l.add(variance, epsilon));
  Value scaled =
      l.mul(l.sub(x, mean), l.mul(rstd, byChannel(l, given[0], rank)));
  Value result = l.add(scaled, byChannel(l, given[1], rank));
  l.set(node->getResult(0), l.cast(result, elementType(operand)));
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
  Value x = l.f32(l.reshape(operand, {rows, width}));
  Value ones = l.constant(1, l.builder.getF32Type(), {width});
  auto norm =
      nn::LayerNormOp::create(l.builder, l.loc, x, ones, Value(),
                              l.builder.getF32FloatAttr(static_cast<float>(
                                  node.getFloat("epsilon", 1e-5))));
  // Before opset 21 a GroupNormalization has one scale for each group.
  auto perChannel = [&](unsigned input) -> Value {
    Value value = l.get(node.getInput(input));
    if (shapeOf(value) == ArrayRef<int64_t>(groups) && groups != channels)
      value = l.reshape(l.broadcast(l.reshape(value, {groups, 1}),
                                    {groups, channels / groups}),
                        {channels});
    if (shapeOf(value) != ArrayRef<int64_t>(channels))
      return {};
    return byChannel(l, value, rank);
  };
  Value scale = perChannel(1), bias = perChannel(2);
  if (!scale || !bias)
    return l.unsupported(node, "its scale has another size than axis 1");
  Value result = l.reshape(norm.getResult(), shape);
  result = l.add(l.mul(result, scale), bias);
  l.set(node->getResult(0), l.cast(result, elementType(operand)));
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
  auto axis = normalizeAxis(node.getInt("axis", -1), rankOf(operand));
  int64_t p = node.getInt("p", 2);
  if (!axis || !isFloatOfRank(operand, 1) || (p != 1 && p != 2))
    return l.unsupported(node, "only of floats, with p = 1 or 2");
  Value x = l.f32(operand);
  Value norm = l.sum(p == 1 ? l.unary<nn::AbsOp>(x) : l.mul(x, x), {*axis});
  if (p == 2)
    norm = safeSqrt(l, norm);
  Value isZero = l.compare(ComparePredicate::eq, norm, l.constant(0));
  Value result = l.div(x, l.select(isZero, l.constant(1), norm));
  l.set(node->getResult(0), l.cast(result, elementType(operand)));
  return success();
}

/// (x - mean)/(standard deviation + 1e-9)
LogicalResult lowerMeanVariance(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  SmallVector<int64_t> axes;
  if (!node.getInts("axes", axes))
    axes = {0, 2, 3};
  int64_t rank = rankOf(operand);
  for (int64_t &axis : axes) {
    auto positive = normalizeAxis(axis, rank);
    if (!positive || !isFloatOfRank(operand, 1))
      return l.unsupported(node, "only of floats, over axes in range");
    axis = *positive;
  }
  llvm::sort(axes);
  axes.erase(llvm::unique(axes), axes.end());
  Value x = l.f32(operand), centred = l.sub(x, meanOver(l, x, axes));
  Value deviation = safeSqrt(l, meanOver(l, l.mul(centred, centred), axes));
  Value result = l.div(centred, l.add(deviation, 1e-9));
  l.set(node->getResult(0), l.cast(result, elementType(operand)));
  return success();
}

/// One at the first maximum along an axis, zero elsewhere.
LogicalResult lowerHardmax(Lowering &l, onnx::NodeOp node) {
  Value operand = l.get(node.getInput(0));
  int64_t rank = rankOf(operand);
  auto axis = normalizeAxis(node.getInt("axis", -1), rank);
  if (!axis || !isFloatOfRank(operand, 1))
    return l.unsupported(node, "only of floats, its axis in range");
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  std::swap(order[*axis], order.back());
  bool moved = *axis != rank - 1;
  Value x = l.f32(moved ? l.transpose(operand, order) : operand);
  // Places fit a float: a row of 2^24 elements is no vector of probabilities.
  int64_t width = shapeOf(x).back();
  if (width >= (int64_t(1) << 24))
    return l.unsupported(node, "its axis is too long");
  Value isMax = l.compare(ComparePredicate::eq, x, l.rowMax(x));
  Value place = nn::IotaOp::create(
      l.builder, l.loc, RankedTensorType::get({width}, l.builder.getF32Type()),
      0);
  Value back = l.unary<nn::NegOp>(place);
  Value places = l.select(isMax, back, l.constant(-static_cast<double>(width)));
  // A NaN is the maximum of its row, as it is torch.argmax's.
  Value isNaN = l.compare(ComparePredicate::ne, x, x);
  Value last = l.rowMax(l.select(isNaN, back, places));
  Value isFirst =
      l.compare(ComparePredicate::eq, place, l.unary<nn::NegOp>(last));
  Value result = l.cast(isFirst, elementType(operand));
  l.set(node->getResult(0), moved ? l.transpose(result, order) : result);
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
