// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Takes named ops apart and writes every reduction in one of the two forms that
// kernels have: over the last axis, kept, or over all axes but the last.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/Reductions.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "llvm/ADT/STLExtras.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_DECOMPOSEPASS
#define GEN_PASS_DEF_NORMALIZEREDUCTIONSPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// Calls `build` with a builder before `op`; what it makes takes its place,
/// unless it has one.
template <typename Fn> static auto buildBefore(Operation *op, Fn build) {
  Operation *before = op->getPrevNode();
  OpBuilder builder(op);
  auto result = build(builder);
  Operation *made = before ? before->getNextNode() : &op->getBlock()->front();
  for (; made != op; made = made->getNextNode())
    if (!placeOf(made))
      inheritPlace(made, op);
  return result;
}

namespace {

struct DecomposePass : nn::impl::DecomposePassBase<DecomposePass> {
  void runOnOperation() override {
    SmallVector<DecomposableOpInterface> ops;
    getOperation().walk([&](DecomposableOpInterface op) {
      if (op.isComposite())
        ops.push_back(op);
    });
    for (DecomposableOpInterface op : ops) {
      auto values = buildBefore(
          op, [&](OpBuilder &builder) { return op.decompose(builder); });
      if (failed(values)) {
        op.emitError("cannot be decomposed");
        return signalPassFailure();
      }
      op->replaceAllUsesWith(*values);
      op->erase();
    }
  }
};

/// One reduction on its way to a kernel's form.
class ReductionBuilder {
public:
  ReductionBuilder(OpBuilder &builder, Operation *op)
      : b(builder, op->getLoc()), op(op) {}

  /// The reduction over `axes` of `value`, without them.
  Value reduce(Value value, SmallVector<int64_t> axes);

private:
  Value overTrailing(Value value, int64_t first);
  Value overLeading(Value value, int64_t end);
  Value overRow(Value value);
  Value makeLast(Value value, int64_t first, int64_t end);

  NNBuilder b;
  Operation *op;
};

} // namespace

static int64_t productOf(ArrayRef<int64_t> sizes) {
  return ShapedType::getNumElements(sizes);
}

/// The same kind of reduction over the last axis, which stays with size 1.
Value ReductionBuilder::overRow(Value value) {
  if (isa<ReduceMeanOp>(op))
    return b.rowMean(value);
  if (isa<ReduceMaxOp>(op))
    return b.rowMax(value);
  return b.rowSum(value);
}

/// Over axes [first, rank). A total is taken in two steps, so that the first
/// has rows to share among threads.
Value ReductionBuilder::overTrailing(Value value, int64_t first) {
  SmallVector<int64_t> shape(shapeOf(value));
  SmallVector<int64_t> kept(shape.begin(), shape.begin() + first);
  int64_t rank = shape.size();
  if (first == 0 && rank > 1 && shape.back() > 1) {
    Value rows = overRow(value);
    SmallVector<int64_t> rest(shape.begin(), shape.end() - 1);
    value = b.reshape(rows, {productOf(rest)});
    return b.reshape(overRow(value), {});
  }
  SmallVector<int64_t> joined(kept);
  joined.push_back(productOf(ArrayRef(shape).drop_front(first)));
  return b.reshape(overRow(b.reshape(value, joined)), kept);
}

/// Over axes [0, end): a sum of columns, the axes behind taken as one.
Value ReductionBuilder::overLeading(Value value, int64_t end) {
  ArrayRef<int64_t> shape = shapeOf(value);
  SmallVector<int64_t> kept(shape.drop_front(end));
  SmallVector<int64_t> joined(shape.take_front(end));
  int64_t count = productOf(joined);
  joined.push_back(productOf(kept));
  value = b.reshape(value, joined);
  Value sum = b.sum(value, llvm::to_vector(llvm::seq<int64_t>(0, end)),
                    /*keepdims=*/false);
  if (isa<ReduceMeanOp>(op))
    sum = b.mul(sum, 1.0 / count);
  return b.reshape(sum, kept);
}

/// Moves axes [first, end) behind all others.
Value ReductionBuilder::makeLast(Value value, int64_t first, int64_t end) {
  SmallVector<int64_t> order;
  int64_t rank = shapeOf(value).size();
  for (int64_t axis = 0; axis < rank; ++axis)
    if (axis < first || axis >= end)
      order.push_back(axis);
  for (int64_t axis = first; axis < end; ++axis)
    order.push_back(axis);
  return b.transpose(value, order);
}

Value ReductionBuilder::reduce(Value value, SmallVector<int64_t> axes) {
  ArrayRef<int64_t> shape = shapeOf(value);
  // Axes of size one only leave the shape.
  SmallVector<int64_t> real, without;
  for (int64_t axis = 0, rank = shape.size(); axis < rank; ++axis) {
    bool reduced = llvm::is_contained(axes, axis);
    if (reduced && shape[axis] == 1)
      continue;
    if (reduced)
      real.push_back(without.size());
    without.push_back(shape[axis]);
  }
  value = b.reshape(value, without);
  if (real.empty())
    return value;
  // One run of neighbouring axes at a time, the last first.
  int64_t end = real.back() + 1, first = real.back();
  real.pop_back();
  while (!real.empty() && real.back() == first - 1)
    first = real.pop_back_val();
  int64_t rank = without.size();
  if (end == rank)
    value = overTrailing(value, first);
  else if (first == 0 && !isa<ReduceMaxOp>(op))
    value = overLeading(value, end);
  else
    value = overTrailing(makeLast(value, first, end), rank - (end - first));
  return reduce(value, real);
}

/// Is the reduction what a kernel does as it stands?
static bool isNormal(Operation *op, ArrayRef<int64_t> axes, bool keepdims) {
  ArrayRef<int64_t> shape = shapeOf(op->getOperand(0));
  int64_t rank = shape.size();
  if (axes.empty() || rank == 0)
    return false;
  bool total = productOf(shape) == shape.back();
  if (axes == ArrayRef<int64_t>(rank - 1) && keepdims && shape.back() != 1)
    return !total || rank == 1;
  bool leading = llvm::equal(axes, llvm::seq<int64_t>(0, rank - 1));
  return leading && !keepdims && isa<ReduceSumOp>(op) &&
         productOf(shape.drop_back()) != 1;
}

namespace {

struct NormalizeReductionsPass
    : nn::impl::NormalizeReductionsPassBase<NormalizeReductionsPass> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (nn::isReduction(op))
        ops.push_back(op);
    });
    for (Operation *op : ops) {
      auto axes = op->getAttrOfType<DenseI64ArrayAttr>("axes").asArrayRef();
      if (isNormal(op, axes, op->hasAttr("keepdims")))
        continue;
      Value value = buildBefore(op, [&](OpBuilder &builder) {
        Value reduced = ReductionBuilder(builder, op)
                            .reduce(op->getOperand(0), llvm::to_vector(axes));
        return NNBuilder(builder, op->getLoc())
            .reshape(reduced, shapeOf(op->getResult(0)));
      });
      op->getResult(0).replaceAllUsesWith(value);
      op->erase();
    }
  }
};

} // namespace
