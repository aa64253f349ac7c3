// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Positions.h.

#include "Positions.h"

#include "../Attributes/Axes.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace shardonnx {
namespace {

/// `'wpe.weight' has 8 rows`, or of another axis than the first its elements.
std::string describeTable(Value table, int64_t axis, int64_t size) {
  auto get = table.getDefiningOp<onnx::GetOp>();
  std::string name = get ? "'" + get.getName().str() + "'" : "its operand";
  return name + " has " + std::to_string(size) +
         (axis == 0 ? std::string(" rows")
                    : " elements along axis " + std::to_string(axis));
}

std::string describeSequence(int64_t length, int64_t longest) {
  return ": a sequence of " + std::to_string(length) +
         " is longer than the model has positions for; compile with --seq=" +
         std::to_string(longest) +
         " or less, or export the model with a longer table";
}

/// What a Slice asks for that is not there; empty if it is, or if the end is
/// only a large number that stands for all.
std::string describeShort(Lowering &l, onnx::NodeOp slice) {
  constexpr int64_t all = INT32_MAX;
  SmallVector<int64_t> starts, ends, axes, steps;
  if (!l.getInts(slice.getInput(1), starts) ||
      !l.getInts(slice.getInput(2), ends) || starts.size() != ends.size())
    return "";
  axes = llvm::to_vector(llvm::seq<int64_t>(0, starts.size()));
  if (!l.getOptionalInts(slice.getInput(3), axes) ||
      axes.size() != starts.size())
    return "";
  ArrayRef<int64_t> shape = l.getShape(slice.getInput(0));
  for (auto [start, end, given] : llvm::zip(starts, ends, axes)) {
    auto axis = normalizeAxis(given, static_cast<int64_t>(shape.size()));
    if (!axis || start < 0 || end <= shape[*axis] || end >= all)
      continue;
    return describeTable(slice.getInput(0), *axis, shape[*axis]) +
           ", but it takes those from " + std::to_string(start) + " to " +
           std::to_string(end - 1) +
           describeSequence(end - start, shape[*axis] - start);
  }
  return "";
}

/// What integers of the data may be, and how many of them were counted.
struct Range {
  int64_t low, high;
  int64_t counted = 0;
};

constexpr int64_t kLimit = INT32_MAX; // beyond it sums might overflow
constexpr unsigned kDeepest = 32;

std::optional<Range> rangeOf(Lowering &l, Value value, unsigned depth = 0);

std::optional<Range> rangeOfConstant(const HostTensor &constant) {
  SmallVector<int64_t> values = constant.compact().flattenInts();
  if (values.empty())
    return std::nullopt;
  auto [low, high] = std::minmax_element(values.begin(), values.end());
  return Range{*low, *high};
}

/// The sum along an axis of what is 0 or more.
std::optional<Range> rangeOfSum(Lowering &l, onnx::NodeOp node, Range summand) {
  SmallVector<int64_t> axes;
  ArrayRef<int64_t> shape = l.getShape(node.getInput(0));
  if (!l.getInts(node.getInput(1), axes) || axes.size() != 1 ||
      node.getInt("exclusive", 0) != 0 || summand.low < 0)
    return std::nullopt;
  auto axis = normalizeAxis(axes.front(), static_cast<int64_t>(shape.size()));
  if (!axis || shape[*axis] < 1 || shape[*axis] > kLimit)
    return std::nullopt;
  return Range{summand.low, summand.high * shape[*axis], shape[*axis]};
}

std::optional<Range> rangeOfPair(Lowering &l, onnx::NodeOp node,
                                 unsigned depth) {
  std::optional<Range> a = rangeOf(l, node.getInput(0), depth),
                       b = rangeOf(l, node.getInput(1), depth);
  if (!a || !b)
    return std::nullopt;
  int64_t counted = std::max(a->counted, b->counted);
  if (node.getOpType() == "Add")
    return Range{a->low + b->low, a->high + b->high, counted};
  if (node.getOpType() == "Sub")
    return Range{a->low - b->high, a->high - b->low, counted};
  if (a->low < 0 || b->low < 0)
    return std::nullopt;
  return Range{a->low * b->low, a->high * b->high, counted};
}

std::optional<Range> rangeOf(Lowering &l, Value value, unsigned depth) {
  auto node = value.getDefiningOp<onnx::NodeOp>();
  auto type = dyn_cast<ShapedType>(value.getType());
  if (!type || !isa<IntegerType>(type.getElementType()) || depth > kDeepest)
    return std::nullopt;
  std::optional<Range> range;
  StringRef op = node ? node.getOpType() : StringRef();
  if (const HostTensor *constant = l.getConstant(value))
    range = rangeOfConstant(*constant);
  else if (type.getElementType().isInteger(1))
    range = Range{0, 1};
  else if (op == "Add" || op == "Sub" || op == "Mul")
    range = rangeOfPair(l, node, depth + 1);
  else if (op == "Cast" || op == "CastLike" || op == "Identity" ||
           op == "CumSum")
    range = rangeOf(l, node.getInput(0), depth + 1);
  if (range && op == "CumSum")
    range = rangeOfSum(l, node, *range);
  if (range && (range->low < -kLimit || range->high > kLimit))
    return std::nullopt;
  return range;
}

} // namespace

std::string describeCounted(Lowering &l, onnx::NodeOp node, int64_t size) {
  // What is run once may be given shorter samples.
  if (node->getParentOfType<ModuleOp>()->hasAttr(kEvaluateAttr))
    return "";
  std::optional<Range> range = rangeOf(l, node.getInput(1));
  // As many as are counted are positions.
  if (!range || range->counted == 0 || range->high < size ||
      range->high - size >= range->counted)
    return "";
  return describeTable(node.getInput(0), 0, size) + ", but it reads number " +
         std::to_string(range->high) + " where all of a mask counts" +
         describeSequence(range->counted,
                          range->counted - (range->high - size + 1));
}

std::string describeOutside(onnx::NodeOp node, ArrayRef<int64_t> indices,
                            int64_t axis, int64_t size) {
  const int64_t *outside = llvm::find_if(indices, [size](int64_t index) {
    return index < -size || index >= size;
  });
  if (outside == indices.end())
    return "";
  std::string why = describeTable(node.getInput(0), axis, size) +
                    ", but it reads number " + std::to_string(*outside);
  // Those that count up are positions.
  int64_t first = indices.front(), next = first;
  bool counts =
      llvm::all_of(indices, [&next](int64_t index) { return index == next++; });
  if (!counts || indices.size() < 2 || first < 0 || first >= size)
    return why;
  return why +
         describeSequence(static_cast<int64_t>(indices.size()), size - first);
}

Refusal refuseBroadcast(Lowering &l, onnx::NodeOp node) {
  constexpr size_t farthest = 32;
  llvm::SetVector<Operation *> cone;
  cone.insert(node);
  for (size_t i = 0; i < cone.size() && i < farthest; ++i) {
    auto each = dyn_cast<onnx::NodeOp>(cone[i]);
    if (!each)
      continue;
    if (each.getOpType() == "Slice")
      if (std::string why = describeShort(l, each); !why.empty())
        return l.wrong(each, why);
    for (Value input : each.getInputs())
      if (Operation *op = input.getDefiningOp())
        cone.insert(op);
  }
  return l.unsupported(node, "operands do not broadcast");
}

} // namespace shardonnx
