// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recognises the cross-entropy that a graph computes for itself: a quotient of
// nn.cross_entropy and the number of its labels or rows, or the sum alone,
// whose labels are a function argument, as it is or shifted by one.

#include "LossInGraph.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {
/// Follows labels through moves to a function argument. A slice of the last
/// axis that starts at k shifts by k. All other labels must be there, each
/// once, since the data's are counted and not those that the graph has left.
class LabelTrace {
public:
  explicit LabelTrace(CrossEntropyOp op) : ignored(op.getIgnoreIndex()) {}

  /// The argument, or null where some labels are left out, or come twice.
  BlockArgument follow(Value value);

  /// How many elements of the last axis were left out at its start.
  int64_t shift = 0;

private:
  /// Whether the walk may go on to the operand.
  bool enter(SliceOp slice);
  bool enter(ConcatOp concat);
  bool enter(PadOp pad);
  bool enter(ReshapeOp reshape);
  /// Ignored labels that were added behind the others.
  void pass(int64_t added) { missing = std::max<int64_t>(0, missing - added); }

  int64_t ignored;
  /// How many elements of the last axis were left out at its end.
  int64_t missing = 0;
};
} // namespace

bool LabelTrace::enter(SliceOp slice) {
  ArrayRef<int64_t> from = shapeOf(slice.getOperand());
  ArrayRef<int64_t> offsets = slice.getOffsets(), sizes = slice.getSizes();
  shift += offsets.back();
  missing += from.back() - offsets.back() - sizes.back();
  return from.drop_back() == sizes.drop_back();
}

bool LabelTrace::enter(ConcatOp concat) {
  auto last = int64_t(rankOf(concat.getResult())) - 1;
  for (Value added : llvm::drop_begin(concat.getInputs())) {
    if (getSplat(added) != double(ignored))
      return false;
    pass(shapeOf(added).back());
  }
  return int64_t(concat.getAxis()) == last || (shift == 0 && missing == 0);
}

bool LabelTrace::enter(PadOp pad) {
  bool grows = llvm::any_of(pad.getHigh().drop_back(),
                            [](int64_t high) { return high != 0; });
  pass(pad.getHigh().back());
  return ignored == 0 && (!grows || (shift == 0 && missing == 0)) &&
         llvm::all_of(pad.getLow(), [](int64_t low) { return low == 0; });
}

bool LabelTrace::enter(ReshapeOp reshape) {
  return (shift == 0 && missing == 0) ||
         shapeOf(reshape.getOperand()).back() ==
             shapeOf(reshape.getResult()).back();
}

BlockArgument LabelTrace::follow(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    bool entered =
        llvm::TypeSwitch<Operation *, bool>(op)
            .Case<SliceOp, ConcatOp, PadOp, ReshapeOp>(
                [&](auto moved) { return enter(moved); })
            .Default([](Operation *other) { return isa<CastOp>(other); });
    if (!entered)
      return {};
    value = op->getOperand(0);
    if (rankOf(value) == 0)
      return {};
  }
  bool whole = missing == 0 && isa<IntegerType>(elementType(value));
  return whole ? cast<BlockArgument>(value) : BlockArgument();
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
  LabelTrace trace(op);
  BlockArgument labels = trace.follow(op.getLabels());
  if (!labels)
    return std::nullopt;
  auto reduction = LossInGraph::Sum;
  if (count && getSplat(count) == double(shapeOf(op.getLabels())[0]))
    reduction = LossInGraph::MeanOfRows;
  else if (count && countsLabels(count, labels))
    reduction = LossInGraph::MeanOfLabels;
  else if (count)
    return std::nullopt;
  return LossInGraph{op, reduction, labels.getArgNumber(), trace.shift};
}
