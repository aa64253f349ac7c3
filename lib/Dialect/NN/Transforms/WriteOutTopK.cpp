// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-write-out-top-k: the few largest of a line as reductions, one after the
// other, which GPUs have kernels for. Before gradients, so that these are sums
// of selects too and nothing is scattered.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"

#include <limits>

namespace shardonnx::nn {
#define GEN_PASS_DEF_WRITEOUTTOPKPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {
class Selection {
public:
  Selection(TopKOp op, OpBuilder &builder)
      : op(op), b(builder, op.getLoc()), axis(op.getAxis()) {
    SmallVector<int64_t> line(shapeOf(op.getOperand()).size(), 1);
    line[axis] = size = shapeOf(op.getOperand())[axis];
    places =
        IotaOp::create(builder, b.loc,
                       RankedTensorType::get(line, builder.getF32Type()), axis);
  }

  void run() {
    Value x = b.f32(op.getOperand());
    isNaN = b.compare(ComparePredicate::ne, x, x);
    // A NaN is larger than any number: it comes first among the largest, and
    // last, behind infinity, among the smallest.
    if (op.getSmallest())
      x = b.select(isNaN, least(), b.unary<NegOp>(x));
    SmallVector<Value> values, indices;
    Value taken;
    for (int64_t i = 0; i < int64_t(op.getK()); ++i) {
      Value place = largest(x, taken);
      Value chosen = b.compare(ComparePredicate::eq, places, place);
      Value kept = b.select(chosen, op.getOperand(),
                            b.constant(0, elementType(op.getOperand())));
      values.push_back(b.sum(kept, {axis}));
      indices.push_back(place);
      taken = taken ? b.binary<OrOp>(taken, chosen) : chosen;
    }
    op.getValues().replaceAllUsesWith(join(values));
    op.getIndices().replaceAllUsesWith(
        b.cast(join(indices), elementType(op.getIndices())));
  }

private:
  Value least() { return b.constant(-std::numeric_limits<double>::infinity()); }

  /// The place of the first of the largest elements that are left, or the last
  /// one.
  Value largest(Value x, Value taken) {
    Value left = taken ? b.select(taken, least(), x) : x;
    Value peak = ReduceMaxOp::create(b.builder, b.loc, left, axis, true);
    Value isPeak = b.compare(ComparePredicate::eq, left, peak);
    bool last = op.getLastFirst(), smallest = op.getSmallest();
    Value order = last ? places : b.unary<NegOp>(places);
    // Ranks below those of numbers are of NaN, below these of what is taken.
    double step = 2 * double(size);
    if (smallest)
      order = b.select(isNaN, b.add(order, -step), order);
    else
      isPeak = b.binary<OrOp>(isPeak, isNaN);
    Value none = b.constant(-2 * step);
    Value ranked = b.select(isPeak, order, none);
    if (taken)
      ranked = b.select(taken, none, ranked);
    Value best = ReduceMaxOp::create(b.builder, b.loc, ranked, axis, true);
    if (smallest)
      best = b.select(
          b.compare(ComparePredicate::lt, best, b.constant(-double(size))),
          b.add(best, step), best);
    return last ? best : b.unary<NegOp>(best);
  }

  Value join(ArrayRef<Value> parts) {
    if (parts.size() == 1)
      return parts.front();
    return ConcatOp::create(b.builder, b.loc, parts, axis);
  }

  TopKOp op;
  NNBuilder b;
  int64_t axis, size = 0;
  Value places, isNaN;
};

struct WriteOutTopKPass : nn::impl::WriteOutTopKPassBase<WriteOutTopKPass> {
  void runOnOperation() override {
    // More of them would make a long chain of kernels.
    constexpr int64_t kMostElements = 32;
    // Whole numbers up to 2^24 are exact in f32; ranks go to four times the
    // places.
    constexpr int64_t kExactPlaces = 1 << 22;
    SmallVector<TopKOp> ops;
    getOperation().walk([&](TopKOp op) { ops.push_back(op); });
    for (TopKOp op : ops) {
      if (int64_t(op.getK()) > kMostElements ||
          shapeOf(op.getOperand())[op.getAxis()] > kExactPlaces ||
          !isa<FloatType>(elementType(op.getOperand())))
        continue;
      PlaceListener listener(op.getPlaceAttr());
      OpBuilder builder(op, &listener);
      Selection(op, builder).run();
      op.erase();
    }
  }
};
} // namespace
