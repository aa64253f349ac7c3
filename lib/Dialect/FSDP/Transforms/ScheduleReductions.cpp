// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits each reduction into grad_acquire, start and wait, with a bound on the
// gradient buffers that exist at once.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_SCHEDULEREDUCTIONSPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

struct Reduction {
  Operation *op; // reduce_scatter or all_reduce
  FlatSymbolRefAttr unit;
  Operation *firstWriter;
};

template <typename OpT>
void collect(Block &body, SmallVectorImpl<Reduction> &reductions) {
  for (auto op : body.getOps<OpT>()) {
    Operation *first = op;
    for (Value gradient : op.getGradients()) {
      Operation *writer = firstWriter(gradient, op);
      if (writer->isBeforeInBlock(first))
        first = writer;
    }
    reductions.push_back({op, op.getUnitAttr(), first});
  }
}

// Returns the units whose reductions are still open at the end.
SmallVector<FlatSymbolRefAttr> schedule(Block &body, unsigned buffers) {
  SmallVector<Reduction> byStart, byAcquire, open;
  collect<ReduceScatterOp>(body, byStart);
  collect<AllReduceOp>(body, byStart);
  llvm::sort(byStart, [](const Reduction &a, const Reduction &b) {
    return a.op->isBeforeInBlock(b.op);
  });
  byAcquire = byStart;
  llvm::stable_sort(byAcquire, [](const Reduction &a, const Reduction &b) {
    return a.firstWriter->isBeforeInBlock(b.firstWriter);
  });
  size_t started = 0;
  for (const Reduction &reduction : byAcquire) {
    while (started != byStart.size() &&
           byStart[started].op->isBeforeInBlock(reduction.firstWriter))
      open.push_back(byStart[started++]);
    OpBuilder builder(reduction.firstWriter);
    for (; open.size() >= buffers; open.erase(open.begin()))
      ReduceWaitOp::create(builder, open.front().op->getLoc(),
                           open.front().unit);
    GradAcquireOp::create(builder, reduction.op->getLoc(), reduction.unit);
  }
  open.append(byStart.begin() + started, byStart.end());
  for (const Reduction &reduction : byStart) {
    OpBuilder builder(reduction.op);
    ReduceStartOp::create(builder, reduction.op->getLoc(), TypeRange(),
                          reduction.op->getOperands(),
                          reduction.op->getAttrs());
    reduction.op->erase();
  }
  SmallVector<FlatSymbolRefAttr> units;
  for (const Reduction &reduction : open)
    units.push_back(reduction.unit);
  return units;
}

// Awaits in @update what the step left open, in the order of the starts.
void awaitInUpdate(func::FuncOp update, ArrayRef<FlatSymbolRefAttr> units) {
  OpBuilder builder = OpBuilder::atBlockBegin(&update.getBody().front());
  for (FlatSymbolRefAttr unit : units)
    ReduceWaitOp::create(builder, update.getLoc(), unit);
}

struct ScheduleReductionsPass
    : public fsdp::impl::ScheduleReductionsPassBase<ScheduleReductionsPass> {
  using ScheduleReductionsPassBase::ScheduleReductionsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (gradientBuffers == 0) {
      module.emitError("gradient-buffers must be at least 1");
      return signalPassFailure();
    }
    // Nothing is awaited before another unit's buffer: each has its own.
    unsigned buffers = unsharded ? UINT_MAX : unsigned(gradientBuffers);
    if (unsharded)
      module->setAttr(kUnshardedAccumulationAttr, UnitAttr::get(&getContext()));
    auto update = module.lookupSymbol<func::FuncOp>(kUpdate);
    for (func::FuncOp function : stepFunctions(module)) {
      SmallVector<FlatSymbolRefAttr> open =
          schedule(function.getBody().front(), buffers);
      if (!open.empty() && !update) {
        function.emitError("reduces gradients, but there is no @update to "
                           "await them");
        return signalPassFailure();
      }
      if (!open.empty())
        awaitInUpdate(update, open);
    }
  }
};

} // namespace
