// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recognises the cross-entropy that a graph computes for itself: a quotient of
// nn.cross_entropy and the number of its labels or rows, or the sum alone,
// whose labels are a function argument, as it is or shifted by one.

#include "LossInGraph.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {
/// Where the elements of a label tensor come from.
struct LabelSource {
  BlockArgument argument;
  int64_t shift = 0;
};
} // namespace

/// Follows labels through moves to a function argument. A slice of the last
/// axis that starts at k shifts by k; a joined constant or padding at the end
/// does not.
static std::optional<LabelSource> traceLabels(Value value) {
  LabelSource source;
  while (Operation *op = value.getDefiningOp()) {
    if (auto slice = dyn_cast<SliceOp>(op)) {
      source.shift += slice.getOffsets().back();
    } else if (auto pad = dyn_cast<PadOp>(op)) {
      if (llvm::any_of(pad.getLow(), [](int64_t low) { return low != 0; }))
        return std::nullopt;
    } else if (!isa<ReshapeOp, CastOp, ConcatOp>(op)) {
      return std::nullopt;
    }
    value = op->getOperand(0);
  }
  source.argument = cast<BlockArgument>(value);
  if (!isa<IntegerType>(elementType(value)))
    return std::nullopt;
  return source;
}

/// True when `count` depends on nothing but the labels, so that it can only be
/// their number.
static bool countsLabels(Value count, BlockArgument labels) {
  SmallVector<Value> work = {count};
  bool reached = false;
  llvm::SmallDenseSet<Value> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!seen.insert(value).second)
      continue;
    if (Operation *op = value.getDefiningOp()) {
      if (isa<GetOp>(op))
        return false;
      work.append(op->operand_begin(), op->operand_end());
    } else if (value != labels) {
      return false;
    } else {
      reached = true;
    }
  }
  return reached;
}

/// The value before reshapes and casts between floats.
static Value stripScalarViews(Value value) {
  while (value.getDefiningOp<ReshapeOp>() || value.getDefiningOp<CastOp>())
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

std::optional<LossInGraph> nn::findLossInGraph(Value output) {
  Value value = stripScalarViews(output), count;
  if (auto quotient = value.getDefiningOp<DivOp>()) {
    value = stripScalarViews(quotient.getLhs());
    count = quotient.getRhs();
  }
  auto op = value.getDefiningOp<CrossEntropyOp>();
  if (!op)
    return std::nullopt;
  std::optional<LabelSource> source = traceLabels(op.getLabels());
  if (!source)
    return std::nullopt;
  auto reduction = LossInGraph::Sum;
  if (count && getSplat(count) == double(shapeOf(op.getLabels())[0]))
    reduction = LossInGraph::MeanOfRows;
  else if (count && countsLabels(count, source->argument))
    reduction = LossInGraph::MeanOfLabels;
  else if (count)
    return std::nullopt;
  return LossInGraph{op, reduction, source->argument.getArgNumber(),
                     source->shift};
}
