// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ExpertChoice.h.

#include "ExpertChoice.h"

#include "mlir/IR/Matchers.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// On the way from a comparison to a condition: the axis of the indices that
/// stands at each place, or none of them.
namespace {
constexpr int64_t kExperts = -1, kOne = -2;
} // namespace

/// The integers of a constant, a number or a vector; empty if it is another.
static SmallVector<int64_t> numbersOf(Value value) {
  DenseIntElementsAttr attr;
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getOperand();
  if (!matchPattern(value, m_Constant(&attr)) ||
      attr.getNumElements() > (1 << 16))
    return {};
  return llvm::map_to_vector(attr.getValues<APInt>(), [](const APInt &number) {
    return number.getSExtValue();
  });
}

/// Of a reshape that adds and drops axes of size 1.
static bool followReshape(ReshapeOp reshape, SmallVector<int64_t> &places) {
  ArrayRef<int64_t> from = shapeOf(reshape.getOperand()),
                    to = shapeOf(reshape.getResult());
  SmallVector<int64_t> moved;
  size_t next = 0;
  auto skipOnes = [&] {
    for (; next < from.size() && from[next] == 1; ++next)
      if (places[next] == kExperts)
        return false;
    return true;
  };
  for (int64_t size : to) {
    if (size == 1) {
      moved.push_back(kOne);
      continue;
    }
    if (!skipOnes() || next == from.size() || from[next] != size)
      return false;
    moved.push_back(places[next++]);
  }
  places = moved;
  return skipOnes() && next == from.size();
}

/// Reads the steps of a condition, from the comparison on.
static bool follow(Operation *op, SmallVector<int64_t> &places,
                   ArrayRef<int64_t> numbers, std::optional<int64_t> &expert) {
  if (isa<CastOp, CompareOp>(op))
    return true;
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return followReshape(reshape, places);
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    auto moved = llvm::map_to_vector(
        transpose.getPermutation(), [&](int64_t axis) { return places[axis]; });
    places = moved;
    return true;
  }
  if (auto slice = dyn_cast<SliceOp>(op)) {
    ArrayRef<int64_t> from = shapeOf(slice.getOperand());
    for (auto [axis, size] : llvm::enumerate(slice.getSizes())) {
      if (size == from[axis])
        continue;
      if (places[axis] != kExperts || size != 1)
        return false;
      expert = numbers[slice.getOffsets()[axis]];
      places[axis] = kOne;
    }
    return true;
  }
  return false;
}

std::optional<ExpertChoice> nn::matchChoice(Value condition) {
  // What comes last makes rows of it.
  while (isa_and_nonnull<ReshapeOp, BroadcastOp>(condition.getDefiningOp())) {
    Operation *op = condition.getDefiningOp();
    ArrayRef<int64_t> from = shapeOf(op->getOperand(0)),
                      to = shapeOf(condition);
    // An element for each row, as wide as what is chosen.
    if (isa<BroadcastOp>(op) &&
        (from.size() != 2 || to.size() != 2 || from[0] != to[0]))
      return std::nullopt;
    condition = op->getOperand(0);
  }
  SmallVector<Operation *> steps;
  CompareOp compare;
  while (Operation *op = condition.getDefiningOp()) {
    compare = dyn_cast<CompareOp>(op);
    if (compare && compare.getPredicate() == ComparePredicate::eq)
      break;
    // Whether an integer that was made of a condition is not zero.
    if (!isa<CastOp, ReshapeOp, TransposeOp, SliceOp>(op) &&
        !(compare && compare.getPredicate() == ComparePredicate::ne &&
          getSplat(compare.getRhs()) == 0.0))
      return std::nullopt;
    steps.push_back(op);
    condition = op->getOperand(0);
  }
  if (!compare)
    return std::nullopt;
  SmallVector<int64_t> numbers = numbersOf(compare.getRhs());
  ArrayRef<int64_t> shape = shapeOf(compare.getResult());
  if (numbers.empty() || !elementType(compare.getLhs()).isInteger() ||
      rankOf(compare.getLhs()) != int64_t(shape.size()))
    return std::nullopt;
  ExpertChoice choice{compare.getLhs(), {}, 0};
  auto places = llvm::to_vector(llvm::seq<int64_t>(0, int64_t(shape.size())));
  std::optional<int64_t> expert;
  if (numbers.size() == 1) {
    expert = numbers.front();
  } else {
    if (shapeOf(choice.ids).back() != 1 ||
        shape.back() != int64_t(numbers.size()))
      return std::nullopt;
    places.back() = kExperts;
  }
  for (Operation *op : llvm::reverse(steps))
    if (!follow(op, places, numbers, expert))
      return std::nullopt;
  if (!expert)
    return std::nullopt;
  choice.expert = *expert;
  for (int64_t axis : places)
    if (axis >= 0 && shapeOf(choice.ids)[axis] != 1)
      choice.axes.push_back(axis);
  return choice;
}

/// Whether indices are places along an axis that is so long.
static bool arePlacesOf(Value ids, int64_t size) {
  while (auto reshape = ids.getDefiningOp<ReshapeOp>())
    ids = reshape.getOperand();
  auto top = ids.getDefiningOp<TopKOp>();
  return top && ids == top.getIndices() &&
         shapeOf(top.getOperand())[int64_t(top.getAxis())] == size;
}

RowIds nn::rowIds(NNBuilder &b, const ExpertChoice &choice,
                  ArrayRef<int64_t> experts) {
  SmallVector<int64_t> wide, order;
  for (int64_t size : shapeOf(choice.ids))
    if (size != 1)
      wide.push_back(size);
  // Axes among those that are wider than one.
  for (int64_t axis : choice.axes)
    order.push_back(llvm::count_if(
        choice.axes, [&](int64_t other) { return other < axis; }));
  int64_t rows = ShapedType::getNumElements(wide);
  Value ids = choice.ids;
  if (!llvm::is_sorted(order))
    ids = b.transpose(b.reshape(ids, wide), order);
  ids = b.reshape(ids, {rows});
  auto count = int64_t(experts.size());
  if (experts.front() == 0 && experts.back() == count - 1 &&
      arePlacesOf(choice.ids, count))
    return {ids, nullptr};
  Type type = elementType(ids);
  Value place = b.splat(0, tensorType(ids)), some = place;
  for (auto [i, expert] : llvm::enumerate(experts)) {
    Value is = b.cast(
        b.compare(ComparePredicate::eq, ids, b.integer(expert, type)), type);
    some = b.add(some, is);
    if (i > 0)
      place = b.add(place, b.mul(is, b.integer(int64_t(i), type)));
  }
  some = b.compare(ComparePredicate::gt, some, b.integer(0, type));
  return {place, b.reshape(some, {rows, 1})};
}
