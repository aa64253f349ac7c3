// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Splits each all_gather into a start, some units ahead of need, and a wait.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_SCHEDULEGATHERSPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

// Where the compute of a unit begins, in forward or in backward; `gather` is
// null when the unit is still gathered there.
struct UnitBegin {
  Operation *where;
  AllGatherOp gather;
};

class GatherScheduler {
public:
  explicit GatherScheduler(func::FuncOp function)
      : body(function.getBody().front()), order(function) {}

  void run(unsigned forwardPrefetch, unsigned backwardPrefetch);

private:
  void collect(AllGatherOp gather);
  void start(MutableArrayRef<UnitBegin> begins, unsigned prefetch);

  Block &body;
  StepOrder order;
  SmallVector<UnitBegin> forward, backward;
};

// The first reader of the gathered unit, in forward or in backward.
Operation *firstReader(AllGatherOp gather, const StepOrder &order,
                       bool inBackward) {
  Operation *first = nullptr;
  for (Operation *view : gather->getUsers())
    for (Operation *user : view->getUsers())
      if (order.inBackward(user) == inBackward &&
          (!first || user->isBeforeInBlock(first)))
        first = user;
  return first;
}

// The first op of the unit's backward: it may work before it reads parameters.
Operation *firstOfBackward(AllGatherOp gather, Block &body,
                           const StepOrder &order) {
  for (Operation &op : body)
    if (order.inBackward(&op) && unitOf(&op) == gather.getUnitAttr())
      return &op;
  return firstReader(gather, order, /*inBackward=*/true);
}

void GatherScheduler::collect(AllGatherOp gather) {
  if (firstReader(gather, order, /*inBackward=*/false)) {
    forward.push_back({gather, gather});
    // A unit that stays gathered begins its backward without a gather.
    if (firstReader(gather, order, /*inBackward=*/true))
      backward.push_back({firstOfBackward(gather, body, order), nullptr});
  } else {
    backward.push_back({gather, gather});
  }
}

// The gather of a unit starts where the compute of the unit `prefetch` before
// it begins, behind that unit's own wait.
void GatherScheduler::start(MutableArrayRef<UnitBegin> begins,
                            unsigned prefetch) {
  OpBuilder builder(body.getParentOp()->getContext());
  for (size_t i = 0; i != begins.size(); ++i) {
    if (!begins[i].gather)
      continue;
    Operation *ahead = begins[i < prefetch ? 0 : i - prefetch].where;
    bool behindWait = isa<AllGatherOp>(ahead) && ahead != begins[i].where;
    // Starts that share a place keep the order of their waits.
    while (behindWait && isa<AllGatherStartOp>(ahead->getNextNode()))
      ahead = ahead->getNextNode();
    if (behindWait)
      builder.setInsertionPointAfter(ahead);
    else
      builder.setInsertionPoint(ahead);
    AllGatherOp gather = begins[i].gather;
    AllGatherStartOp::create(builder, gather.getLoc(), gather.getUnitAttr());
  }
}

void GatherScheduler::run(unsigned forwardPrefetch, unsigned backwardPrefetch) {
  SmallVector<AllGatherOp> gathers;
  llvm::append_range(gathers, body.getOps<AllGatherOp>());
  if (gathers.empty())
    return;
  for (AllGatherOp gather : gathers)
    collect(gather);
  llvm::stable_sort(backward, [](const UnitBegin &a, const UnitBegin &b) {
    return a.where->isBeforeInBlock(b.where);
  });
  start(forward, forwardPrefetch);
  start(backward, backwardPrefetch);
  for (AllGatherOp gather : gathers) {
    OpBuilder builder(gather);
    auto wait = AllGatherWaitOp::create(builder, gather.getLoc(),
                                        gather.getType(), gather.getUnitAttr());
    gather.replaceAllUsesWith(wait.getGathered());
    gather.erase();
  }
  // Nothing to overlap with before it: the first one goes to the entry.
  for (auto start : body.getOps<AllGatherStartOp>()) {
    start->moveBefore(&body, body.begin());
    break;
  }
}

struct ScheduleGathersPass
    : public fsdp::impl::ScheduleGathersPassBase<ScheduleGathersPass> {
  using ScheduleGathersPassBase::ScheduleGathersPassBase;

  void runOnOperation() override {
    for (func::FuncOp function : stepFunctions(getOperation()))
      GatherScheduler(function).run(forwardPrefetch, backwardPrefetch);
  }
};

} // namespace
