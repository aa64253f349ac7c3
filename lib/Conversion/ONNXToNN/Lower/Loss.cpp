// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lowers losses inside a graph. The plain cross-entropy is a sum, divided by
// the count of labels, so that the loss pass can find the sum and take means
// over all ranks; with class weights, losses of single labels or
// log-probabilities as a second output, it is elementwise ops on rows of
// classes.

#include "Handlers.h"
#include <limits>

using namespace mlir;

namespace shardonnx {
namespace {

using nn::ComparePredicate;

/// The number of labels other than `ignored`, f32.
Value countLabels(Lowering &l, Value labels, int64_t ignored) {
  Type f32 = l.builder.getF32Type();
  Value skip = l.integer(ignored, elementType(labels));
  Value counts = nn::CompareOp::create(
      l.builder, l.loc,
      RankedTensorType::get(shapeOf(labels), l.builder.getI1Type()),
      nn::ComparePredicate::ne, labels, skip);
  Value ones = nn::SelectOp::create(
      l.builder, l.loc, RankedTensorType::get(shapeOf(labels), f32), counts,
      l.constant(1, f32), l.constant(0, f32));
  return nn::ReduceSumOp::create(
      l.builder, l.loc, RankedTensorType::get({}, f32), ones,
      l.builder.getDenseI64ArrayAttr({0}), UnitAttr());
}

/// A loss of labels among classes, as rows.
struct Classes {
  Value rows;   // [N·d…, C]
  Value labels; // [N·d…], or [N·d…, C] where they are probabilities
  int64_t count;
  /// The order that moves axis 1 of [N, C, d…] to the end, empty where it is
  /// there, and the shape [N, d…, C] with it.
  SmallVector<int64_t> order, shape;
};

/// PyTorch's cross_entropy also takes a probability of each class, which ONNX
/// has no node for: its exporters write the labels' node all the same.
bool takesProbabilities(Lowering &l, onnx::NodeOp node) {
  Value labels = l.get(node.getInput(1));
  return node.getOpType() == "SoftmaxCrossEntropyLoss" && isFloat(labels) &&
         shapeOf(labels) == shapeOf(l.get(node.getInput(0)));
}

/// Null where scores and labels do not fit.
std::optional<Classes> readClasses(Lowering &l, onnx::NodeOp node) {
  Classes c;
  Value scores = l.get(node.getInput(0));
  Value labels = l.get(node.getInput(1));
  ArrayRef<int64_t> shape = shapeOf(scores);
  SmallVector<int64_t> without(shape);
  if (shape.size() >= 2)
    without.erase(without.begin() + 1);
  bool soft = takesProbabilities(l, node);
  if (shape.size() < 2 || !isFloat(scores) ||
      (!soft && (!isa<IntegerType>(elementType(labels)) ||
                 shapeOf(labels) != ArrayRef<int64_t>(without))))
    return l.unsupported(node, "its labels do not fit its scores");
  c.count = shape[1];
  if (shape.size() > 2) {
    c.order = {0};
    for (size_t i = 2; i < shape.size(); ++i)
      c.order.push_back(static_cast<int64_t>(i));
    c.order.push_back(1);
    scores = l.transpose(scores, c.order);
    if (soft)
      labels = l.transpose(labels, c.order);
  }
  c.shape.assign(shapeOf(scores).begin(), shapeOf(scores).end());
  int64_t rows = ShapedType::getNumElements(without);
  c.rows = l.reshape(scores, {rows, c.count});
  c.labels =
      soft ? l.reshape(labels, {rows, c.count}) : l.reshape(labels, {rows});
  return c;
}

/// The mean or sum of the losses, or the losses themselves, from the rows of
/// log-probabilities: -w[label]·logProb[label], 0 where the label is ignored.
Value likelihoodLoss(Lowering &l, onnx::NodeOp node, const Classes &c,
                     Value logProb) {
  StringRef reduction = node.getString("reduction", "mean");
  int64_t rows = shapeOf(c.labels)[0];
  Value labels = l.cast(c.labels, l.builder.getI64Type());
  labels = l.reshape(labels, {rows, 1});
  Value classes = nn::IotaOp::create(
      l.builder, l.loc,
      RankedTensorType::get({c.count}, l.builder.getI64Type()), 0);
  Value zero = l.constant(0);
  Value isLabel = l.compare(ComparePredicate::eq, classes, labels);
  auto atLabel = [&](Value value) {
    return l.rowSum(l.select(isLabel, value, zero));
  };
  Value weight =
      node.getInput(2)
          ? atLabel(l.f32(l.get(node.getInput(2))))
          : l.splat(1,
                    RankedTensorType::get({rows, 1}, l.builder.getF32Type()));
  Value loss = l.unary<nn::NegOp>(atLabel(logProb));
  // One that is no class shows in the loss, as in nn.cross_entropy.
  Value least = l.constant(0, elementType(labels)),
        end = l.integer(c.count, elementType(labels));
  Value known =
      l.binary<nn::AndOp>(l.compare(ComparePredicate::ge, labels, least),
                          l.compare(ComparePredicate::lt, labels, end));
  loss = l.select(known, loss,
                  l.constant(std::numeric_limits<double>::quiet_NaN()));
  // What smoothing takes from the label, all classes share.
  double smoothing = node.getFloat("label_smoothing", 0);
  Value shares;
  if (smoothing != 0) {
    Value all = node.getInput(2)
                    ? l.mul(logProb, l.f32(l.get(node.getInput(2))))
                    : logProb;
    shares = l.mul(l.rowSum(all), -smoothing / static_cast<double>(c.count));
  }
  bool ignores = node.getNodeAttr("ignore_index") != Attribute();
  if (ignores) {
    auto ignored = static_cast<double>(node.getInt("ignore_index", -100));
    Value skip = l.compare(ComparePredicate::eq, labels,
                           l.constant(ignored, elementType(labels)));
    // What is ignored may be infinite: a product with zero would be NaN.
    weight = l.select(skip, zero, weight);
    loss = l.select(skip, zero, loss);
    if (shares)
      shares = l.select(skip, zero, shares);
  }
  loss = l.mul(loss, weight);
  if (shares)
    loss = l.add(l.mul(loss, 1 - smoothing), shares);
  if (reduction == "none")
    return l.reshape(loss, l.getShape(node.getInput(1)));
  Value sum = l.sum(loss, {0, 1}, /*keepdims=*/false);
  if (reduction == "sum")
    return sum;
  if (!ignores && !node.getInput(2))
    return l.mul(sum, 1.0 / static_cast<double>(rows));
  return l.div(sum, l.sum(weight, {0, 1}, /*keepdims=*/false));
}

/// -Σ w·p·logProb over the classes of each row. As in PyTorch weights do not
/// divide the mean, and no row is ignored.
Value probabilityLoss(Lowering &l, onnx::NodeOp node, const Classes &c,
                      Value logProb) {
  StringRef reduction = node.getString("reduction", "mean");
  Value shares = l.f32(c.labels);
  if (double smoothing = node.getFloat("label_smoothing", 0); smoothing != 0)
    shares = l.add(l.mul(shares, 1 - smoothing),
                   smoothing / static_cast<double>(c.count));
  if (node.getInput(2))
    shares = l.mul(shares, l.f32(l.get(node.getInput(2))));
  Value loss = l.unary<nn::NegOp>(l.rowSum(l.mul(shares, logProb)));
  if (reduction == "none") {
    ArrayRef<int64_t> shape(c.shape);
    return l.reshape(loss, shape.drop_back());
  }
  Value sum = l.sum(loss, {0, 1}, /*keepdims=*/false);
  auto rows = static_cast<double>(shapeOf(c.rows)[0]);
  return reduction == "sum" ? sum : l.mul(sum, 1 / rows);
}

/// The plain mean or sum.
Value crossEntropy(Lowering &l, onnx::NodeOp node, const Classes &c) {
  int64_t ignored = node.getInt("ignore_index", -100);
  Type f32 = l.builder.getF32Type();
  Value result = nn::CrossEntropyOp::create(
      l.builder, l.loc, RankedTensorType::get({}, f32), c.rows, c.labels,
      l.builder.getI64IntegerAttr(ignored));
  if (node.getString("reduction", "mean") == "mean")
    result = l.binary<nn::DivOp>(result, countLabels(l, c.labels, ignored));
  return result;
}

LogicalResult lowerCrossEntropy(Lowering &l, onnx::NodeOp node) {
  auto c = readClasses(l, node);
  if (!c)
    return failure();
  Type element = elementType(c->rows);
  bool wantsLogProb =
      node->getNumResults() > 1 && !isa<NoneType>(node->getResult(1).getType());
  bool soft = takesProbabilities(l, node);
  if (!soft && !node.getInput(2) && !wantsLogProb &&
      !node.getNodeAttr("label_smoothing") &&
      node.getString("reduction", "mean") != "none") {
    l.set(node->getResult(0), l.cast(crossEntropy(l, node, *c), element));
    return success();
  }
  Value logProb = l.unary<nn::LogSoftmaxOp>(l.f32(c->rows));
  Value loss = soft ? probabilityLoss(l, node, *c, logProb)
                    : likelihoodLoss(l, node, *c, logProb);
  l.set(node->getResult(0), l.cast(loss, element));
  if (!wantsLogProb)
    return success();
  Value all = l.cast(l.reshape(logProb, c->shape), element);
  if (!c->order.empty()) {
    SmallVector<int64_t> back = {0, static_cast<int64_t>(c->order.size()) - 1};
    for (size_t i = 1; i + 1 < c->order.size(); ++i)
      back.push_back(static_cast<int64_t>(i));
    all = l.transpose(all, back);
  }
  l.set(node->getResult(1), all);
  return success();
}

LogicalResult lowerLikelihoodLoss(Lowering &l, onnx::NodeOp node) {
  auto c = readClasses(l, node);
  if (!c)
    return failure();
  Value loss = likelihoodLoss(l, node, *c, l.f32(c->rows));
  l.set(node->getResult(0), l.cast(loss, elementType(c->rows)));
  return success();
}

} // namespace

void addLossHandlers(HandlerTable &table) {
  table["SoftmaxCrossEntropyLoss"] = lowerCrossEntropy;
  table["NegativeLogLikelihoodLoss"] = lowerLikelihoodLoss;
}

} // namespace shardonnx
