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
    // Whole numbers up to 2^24 are exact in f32.
    places =
        IotaOp::create(builder, b.loc,
                       RankedTensorType::get(line, builder.getF32Type()), axis);
  }

  void run() {
    Value x = b.f32(op.getOperand());
    x = op.getSmallest() ? b.unary<NegOp>(x) : x;
    SmallVector<Value> values, indices;
    Value gone = b.constant(-std::numeric_limits<double>::infinity());
    for (int64_t i = 0; i < int64_t(op.getK()); ++i) {
      Value place = largest(x);
      Value chosen = b.compare(ComparePredicate::eq, places, place);
      Value kept = b.select(chosen, op.getOperand(),
                            b.constant(0, elementType(op.getOperand())));
      values.push_back(b.sum(kept, {axis}));
      indices.push_back(place);
      x = b.select(chosen, gone, x);
    }
    op.getValues().replaceAllUsesWith(join(values));
    op.getIndices().replaceAllUsesWith(
        b.cast(join(indices), elementType(op.getIndices())));
  }

private:
  /// The place of the first of the largest elements, or the last one.
  Value largest(Value x) {
    Value peak = ReduceMaxOp::create(b.builder, b.loc, x, axis, true);
    bool last = op.getLastFirst();
    Value order = last ? places : b.unary<NegOp>(places);
    Value ranked = b.select(b.compare(ComparePredicate::eq, x, peak), order,
                            b.constant(last ? -1.0 : -double(size)));
    Value best = ReduceMaxOp::create(b.builder, b.loc, ranked, axis, true);
    Value place = last ? best : b.unary<NegOp>(best);
    // A line of NaN has no largest: any place within it will do.
    Value zero = b.constant(0), end = b.constant(double(size - 1));
    place = MaxOp::create(b.builder, b.loc, place, zero);
    return MinOp::create(b.builder, b.loc, place, end);
  }

  Value join(ArrayRef<Value> parts) {
    if (parts.size() == 1)
      return parts.front();
    return ConcatOp::create(b.builder, b.loc, parts, axis);
  }

  TopKOp op;
  NNBuilder b;
  int64_t axis, size = 0;
  Value places;
};

struct WriteOutTopKPass : nn::impl::WriteOutTopKPassBase<WriteOutTopKPass> {
  void runOnOperation() override {
    // More of them would make a long chain of kernels.
    constexpr int64_t kMostElements = 32;
    constexpr int64_t kExactPlaces = 1 << 24;
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
