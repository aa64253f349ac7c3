// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exec-overlap-axes: a collective of an axis begins where it stands, and is
// awaited where the first op touches what it touches.

#include "shardonnx/Dialect/Exec/Transforms/AxisWaits.h"
#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Dialect/Exec/Transforms/Passes.h"

#include <deque>

namespace shardonnx::exec {
#define GEN_PASS_DEF_OVERLAPAXESPASS
#include "shardonnx/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace shardonnx::exec

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

namespace {

class Overlapper {
public:
  explicit Overlapper(func::FuncOp function) : body(function.front()) {}
  void run();

private:
  void start(AxisCollectiveOp op);
  void awaitBefore(Operation &op);

  Block &body;
  std::deque<AxisStartOp> started; // in their order, without a wait
};

struct OverlapAxesPass
    : public exec::impl::OverlapAxesPassBase<OverlapAxesPass> {
  void runOnOperation() override {
    for (func::FuncOp function : stepFunctions(getOperation()))
      Overlapper(function).run();
  }
};

} // namespace

// With all that were started before the last one that the op needs.
void Overlapper::awaitBefore(Operation &op) {
  size_t needed = 0;
  for (auto [index, start] : llvm::enumerate(started))
    if (isa<func::ReturnOp>(op) || mustAwait(op, start))
      needed = index + 1;
  OpBuilder builder(&op);
  for (; needed > 0; --needed) {
    AxisStartOp start = started.front();
    started.pop_front();
    AxisWaitOp::create(builder, start.getLoc(), TypeRange(),
                       start->getOperands(), start->getAttrs());
  }
}

void Overlapper::start(AxisCollectiveOp op) {
  OpBuilder builder(op);
  started.push_back(AxisStartOp::create(builder, op.getLoc(), TypeRange(),
                                        op->getOperands(), op->getAttrs()));
  op.erase();
}

void Overlapper::run() {
  for (Operation &op : llvm::make_early_inc_range(body)) {
    if (isa<ViewOp, BufferOp, AllocOp>(op))
      continue;
    if (!started.empty())
      awaitBefore(op);
    if (auto collective = dyn_cast<AxisCollectiveOp>(op);
        collective && collective.sends())
      start(collective);
  }
}
