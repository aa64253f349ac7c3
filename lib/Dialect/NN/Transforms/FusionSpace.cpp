// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Iteration spaces of fused groups: which ops have one, and how shapes look
// from a finer one.

#include "FusionGraph.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fusion;

static int64_t productOf(ArrayRef<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

ArrayRef<int64_t> fusion::domainOf(Operation *op) {
  if (nn::isReduction(op) || nn::isTensorStep(op))
    return nn::shapeOf(op->getOperand(0));
  return nn::shapeOf(op->getResult(0));
}

RowSpace fusion::rowSpaceOf(ArrayRef<int64_t> domain) {
  if (domain.empty())
    return {};
  return {productOf(domain.drop_back()), domain.back()};
}

bool fusion::isRowReshape(Operation *op) {
  auto reshape = dyn_cast<nn::ReshapeOp>(op);
  if (!reshape)
    return false;
  ArrayRef<int64_t> from = nn::shapeOf(reshape.getOperand());
  ArrayRef<int64_t> to = nn::shapeOf(reshape.getResult());
  return !from.empty() && !to.empty() && from.back() == to.back();
}

static ArrayRef<int64_t> axesOf(Operation *op) {
  return op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef();
}

bool fusion::isColumnSum(Operation *op) {
  if (!isa<nn::ReduceSumOp>(op) || op->hasAttr("keepdims"))
    return false;
  int64_t rank = nn::shapeOf(op->getOperand(0)).size();
  return rank > 1 && llvm::equal(axesOf(op), llvm::seq<int64_t>(0, rank - 1));
}

bool fusion::isRowOp(Operation *op) {
  if (op->getNumResults() != 1)
    return false;
  if (nn::isReduction(op)) {
    ArrayRef<int64_t> shape = nn::shapeOf(op->getOperand(0));
    return !shape.empty() && op->hasAttr("keepdims") && shape.back() != 1 &&
           axesOf(op) == ArrayRef<int64_t>(shape.size() - 1);
  }
  if (isa<nn::ConstantOp>(op))
    return nn::getSplat(op->getResult(0)).has_value();
  return isa<nn::ElementwiseOpInterface, nn::BroadcastOp, nn::IotaOp>(op) ||
         isRowReshape(op) || nn::isTensorStep(op);
}

bool fusion::isCheap(Operation *op) {
  if (!isRowOp(op) || nn::isReduction(op))
    return false;
  // The key of a row costs less than storing one for each row.
  if (isa<nn::ConstantOp, nn::IotaOp, nn::BroadcastOp, nn::RandomKeyOp>(op))
    return true;
  return isa<nn::ElementwiseOpInterface>(op) &&
         rowSpaceOf(domainOf(op)).rows == 1;
}

bool fusion::readsParameters(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) {
    Operation *producer = operand.getDefiningOp();
    if (!producer)
      return false;
    if (isa<nn::GetOp>(producer))
      return true;
    return (isCheap(producer) || isa<nn::ReshapeOp>(producer)) &&
           readsParameters(producer);
  });
}

FailureOr<Shape> fusion::refineDomains(ArrayRef<ArrayRef<int64_t>> shapes,
                                       int64_t length) {
  // Products of leading axes, read from the right: where axes may be cut.
  SmallVector<int64_t> cuts;
  int64_t rows = 1;
  for (ArrayRef<int64_t> shape : shapes) {
    int64_t product = 1;
    for (int64_t size :
         llvm::reverse(shape.empty() ? shape : shape.drop_back())) {
      product *= size;
      cuts.push_back(product);
    }
    rows = std::max(rows, product);
  }
  cuts.push_back(rows);
  llvm::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  Shape domain{length};
  int64_t done = 1;
  for (int64_t cut : cuts) {
    if (cut % done != 0)
      return failure();
    if (cut != done)
      domain.insert(domain.begin(), cut / done);
    done = cut;
  }
  return domain;
}

/// For each axis of `from` in front of the last, the run [first, end) of axes
/// of `to` that it is; failure if `to` does not refine `from`. A `from` of one
/// row maps every axis to an empty run.
static FailureOr<SmallVector<std::pair<int64_t, int64_t>>>
mapAxes(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  int64_t fromRank = from.size(), toAxis = to.size() - 1;
  SmallVector<std::pair<int64_t, int64_t>> runs(fromRank);
  bool oneRow = rowSpaceOf(from).rows == 1;
  for (int64_t axis = fromRank - 2; axis >= 0; --axis) {
    int64_t end = toAxis, product = 1;
    while (!oneRow && product < from[axis] && toAxis > 0)
      product *= to[--toAxis];
    if (!oneRow && product != from[axis])
      return failure();
    runs[axis] = {toAxis, end};
  }
  // Axes of size 1 that lead are of no axis of `from`.
  if (!oneRow && productOf(to.take_front(toAxis)) != 1)
    return failure();
  if (fromRank > 0)
    runs[fromRank - 1] = {to.size() - 1, to.size()};
  return runs;
}

FailureOr<Shape> fusion::convertShape(ArrayRef<int64_t> shape,
                                      ArrayRef<int64_t> from,
                                      ArrayRef<int64_t> to) {
  if (productOf(shape) == 1) // one element broadcasts to anything
    return Shape(std::min(shape.size(), to.size()), 1);
  auto runs = mapAxes(from, to);
  if (failed(runs))
    return failure();
  Shape result(to.size(), 1);
  size_t lead = from.size() - shape.size();
  for (auto [i, size] : llvm::enumerate(shape)) {
    auto [first, end] = (*runs)[lead + i];
    if (size == 1)
      continue;
    if (size != productOf(to.slice(first, end - first)))
      return failure();
    for (int64_t axis = first; axis < end; ++axis)
      result[axis] = to[axis];
  }
  // Without needless axes in front, so that [C] stays [C].
  size_t keep = std::min(shape.size(), to.size());
  while (result.size() > keep && result.front() == 1)
    result.erase(result.begin());
  return result;
}

std::optional<int64_t> fusion::convertAxis(int64_t axis, ArrayRef<int64_t> from,
                                           ArrayRef<int64_t> to) {
  auto runs = mapAxes(from, to);
  if (failed(runs))
    return std::nullopt;
  auto [first, end] = (*runs)[axis];
  if (end - first != 1)
    return std::nullopt;
  return first;
}

/// One element that is spread over rows, of whatever shape they are.
static bool isSpreadElement(Value value) {
  auto spread = value.getDefiningOp<nn::BroadcastOp>();
  return spread && productOf(nn::shapeOf(spread.getOperand())) == 1;
}

bool fusion::runsOver(Operation *op, ArrayRef<int64_t> domain) {
  ArrayRef<int64_t> own = domainOf(op);
  Shape target(domain.begin(), domain.end());
  if (rowSpaceOf(own).length == 1)
    target.back() = 1;
  auto fits = [&](Value value) {
    return succeeded(convertShape(nn::shapeOf(value), own, target));
  };
  if (isRowReshape(op))
    return succeeded(convertShape(own, own, target)) &&
           (isSpreadElement(op->getOperand(0)) ||
            succeeded(convertShape(nn::shapeOf(op->getOperand(0)),
                                   nn::shapeOf(op->getOperand(0)), target)));
  // Of a sum of columns, the result has no rows.
  return llvm::all_of(op->getOperands(), fits) &&
         (isColumnSum(op) || fits(op->getResult(0)));
}
