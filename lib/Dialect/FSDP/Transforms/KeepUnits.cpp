// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers `kept` units once a step: behind their optimizer, for all
// microbatches of the next.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_KEEPUNITSPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

AllGatherWaitOp await(OpBuilder &builder, UnitOp unit) {
  return AllGatherWaitOp::create(builder, unit.getLoc(),
                                 GatheredType::get(unit.getContext()),
                                 FlatSymbolRefAttr::get(unit.getSymNameAttr()));
}

// The unit is whole, or about to be, where the function begins.
void keep(UnitOp unit, Block &body) {
  SmallVector<AllGatherOp> gathers;
  for (auto gather : body.getOps<AllGatherOp>())
    if (gather.getUnit() == unit.getSymName())
      gathers.push_back(gather);
  if (gathers.empty())
    return;
  OpBuilder builder(gathers.front());
  AllGatherWaitOp whole = await(builder, unit);
  for (AllGatherOp gather : gathers) {
    for (Operation *user : llvm::make_early_inc_range(gather->getUsers()))
      if (isa<FreeOp>(user))
        user->erase();
    gather.replaceAllUsesWith(whole.getGathered());
    gather.erase();
  }
}

// Every rank has read the unit for the last time before any writes its slice.
void gatherBehindOptimizer(UnitOp unit, Block &update) {
  Operation *written = nullptr;
  for (Operation &op : update)
    if (writes(&op, unit))
      written = &op;
  if (!written)
    return;
  OpBuilder builder = OpBuilder::atBlockBegin(&update);
  AllGatherWaitOp whole = await(builder, unit);
  FreeOp::create(builder, unit.getLoc(), whole);
  builder.setInsertionPointAfter(written);
  AllGatherStartOp::create(builder, unit.getLoc(), unit.getSymName());
}

struct KeepUnitsPass : public fsdp::impl::KeepUnitsPassBase<KeepUnitsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    for (auto unit : module.getOps<UnitOp>()) {
      if (!unit.getKept())
        continue;
      for (func::FuncOp function : stepFunctions(module)) {
        if (function.getName() == kUpdate)
          gatherBehindOptimizer(unit, function.getBody().front());
        else
          keep(unit, function.getBody().front());
      }
    }
  }
};

} // namespace
