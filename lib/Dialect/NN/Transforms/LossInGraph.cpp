// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Recognises the cross-entropy that a graph computes for itself: a quotient of
// nn.cross_entropy and the number of its labels or rows, or the sum alone,
// whose labels are a function argument, as it is or shifted by one.

#include "LossInGraph.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/Interpreter/InterpretableOpInterface.h"
#include "shardonnx/Dialect/NN/Interpreter/Interpreter.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

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

/// The ops that compute `values` of `argument` alone, in their order, or none
/// where these depend on anything else.
static std::optional<SmallVector<Operation *>>
opsOfAlone(ArrayRef<Value> values, BlockArgument argument) {
  SmallVector<Value> work(values);
  llvm::SetVector<Operation *> ops;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (op ? isa<GetOp>(op) : value != argument)
      return std::nullopt;
    if (op && ops.insert(op))
      work.append(op->operand_begin(), op->operand_end());
  }
  SmallVector<Operation *> ordered = ops.takeVector();
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ordered;
}

/// Labels from `next` on, every third of which is ignored.
static HostTensor sampleLabels(BlockArgument labels, int64_t ignored,
                               int64_t classes, int64_t next) {
  RankedTensorType type = tensorType(labels);
  SmallVector<int64_t> values(type.getNumElements());
  for (auto [i, value] : llvm::enumerate(values))
    value = i % 3 == 1 ? ignored : next++ % classes;
  return HostTensor::ints(type.getShape(), values, type.getElementType());
}

/// Elements that countsLabels computes at most, and how many of them take as
/// long as what is done for each op. Vocabularies of today take a tenth.
constexpr int64_t kMostElements = int64_t(1) << 28, kElementsOfOp = 64;

/// True when `count` is the number of labels that `op` does not ignore: that
/// of other labels, or some number more, is another quotient. Each class is a
/// label once; where that would be too many to look at, nothing is claimed.
static bool countsLabels(Value count, CrossEntropyOp op, BlockArgument labels) {
  auto ops = opsOfAlone({count, op.getLabels()}, labels);
  if (!ops || tensorType(count).getNumElements() != 1)
    return false;
  auto ignored = static_cast<int64_t>(op.getIgnoreIndex());
  int64_t classes = shapeOf(op.getLogits()).back();
  int64_t size = std::max<int64_t>(1, tensorType(labels).getNumElements());
  int64_t each = (size + 1) / 2, rounds = (classes + each - 1) / each;
  if (double(rounds) * double(ops->size()) * double(size + kElementsOfOp) >
      double(kMostElements))
    return false;
  for (int64_t next = 0; next < classes; next += each) {
    Interpreter interpreter;
    (void)interpreter.set(labels, sampleLabels(labels, ignored, classes, next));
    for (Operation *one : *ops) {
      auto interpretable = dyn_cast<InterpretableOpInterface>(one);
      if (!interpretable || failed(interpretable.evaluate(interpreter)))
        return false;
    }
    double number =
        llvm::count_if(interpreter.get(op.getLabels()).flattenInts(),
                       [ignored](int64_t label) { return label != ignored; });
    double found =
        interpreter.arithmetic(count).toDouble(interpreter.get(count).front());
    // A quotient of none is nobody's; an epsilon rounds.
    if (number > 0 && !(std::fabs(found - number) <= 1e-5 * number))
      return false;
  }
  return true;
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
  else if (count && countsLabels(count, op, labels))
    reduction = LossInGraph::MeanOfLabels;
  else if (count)
    return std::nullopt;
  return LossInGraph{op, reduction, labels.getArgNumber(), trace.shift};
}
