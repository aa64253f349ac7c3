// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves the gathers that nothing of a step could hide into the update before.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_GATHEREARLYPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

// The starts before the first op that computes.
SmallVector<AllGatherStartOp> firstStarts(func::FuncOp function) {
  SmallVector<AllGatherStartOp> starts;
  for (Operation &op : function.front()) {
    if (auto start = dyn_cast<AllGatherStartOp>(op))
      starts.push_back(start);
    else if (!isa<AllGatherWaitOp, ViewOp>(op) && op.getNumOperands() > 0)
      break;
  }
  return starts;
}

// Where the update has written it; a unit without an optimizer is as it was.
Operation *placeInUpdate(func::FuncOp update, UnitOp unit) {
  Operation *place = nullptr;
  for (Operation &op : update.front())
    if (isa<ClipGradNormOp>(op) || writes(&op, unit))
      place = &op;
  return place;
}

struct GatherEarlyPass
    : public fsdp::impl::GatherEarlyPassBase<GatherEarlyPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto first = module.lookupSymbol<func::FuncOp>(kFirstMicrobatch);
    auto update = module.lookupSymbol<func::FuncOp>(kUpdate);
    if (!first || !update)
      return;
    SymbolTable symbols(module);
    for (AllGatherStartOp start : firstStarts(first)) {
      auto unit = symbols.lookup<UnitOp>(start.getUnit());
      Operation *place = placeInUpdate(update, unit);
      // Of a replicated unit there is nothing to wait for.
      if (!place || unit.getLayout() == Layout::replicated)
        continue;
      unit.setEarly(true);
      start->remove();
      OpBuilder builder(place);
      builder.setInsertionPointAfter(place);
      builder.insert(start);
    }
  }
};

} // namespace
