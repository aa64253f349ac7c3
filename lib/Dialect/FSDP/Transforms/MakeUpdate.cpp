// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes @update: the clip, then the optimizer unit by unit.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_MAKEUPDATEPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

struct MakeUpdatePass : public fsdp::impl::MakeUpdatePassBase<MakeUpdatePass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    Location loc = module.getLoc();
    auto function = func::FuncOp::create(builder, loc, kUpdate,
                                         builder.getFunctionType({}, {}));
    builder.setInsertionPointToEnd(function.addEntryBlock());
    ClipGradNormOp::create(builder, loc);
    for (auto unit : module.getOps<UnitOp>())
      if (!unit.getIntervals().empty())
        OptimizerOp::create(builder, loc, unit.getSymName());
    func::ReturnOp::create(builder, loc);
  }
};

} // namespace
