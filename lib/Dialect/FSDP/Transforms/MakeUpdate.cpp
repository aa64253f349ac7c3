// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes @update: the clip, then the optimizer unit by unit. Muon's matrices are
// begun some units ahead, so that a rank that owns few of one unit has others'
// to make orthogonal meanwhile.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/runtime/Layout.h"

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
    SmallVector<UnitOp> withMatrices;
    for (auto unit : module.getOps<UnitOp>())
      if (unit.getMatrixLength() > 0)
        withMatrices.push_back(unit);
    size_t started = 0;
    auto start = [&] {
      if (started < withMatrices.size())
        MuonStartOp::create(builder, loc, withMatrices[started++].getSymName());
    };
    for (int64_t i = 0; i < kMuonWindow; ++i)
      start();
    for (auto unit : module.getOps<UnitOp>()) {
      if (unit.getIntervals().empty())
        continue;
      bool hasMatrices = unit.getMatrixLength() > 0;
      if (hasMatrices)
        MuonFinishOp::create(builder, loc, unit.getSymName());
      OptimizerOp::create(builder, loc, unit.getSymName());
      if (hasMatrices)
        start();
    }
    WalkResult steps =
        module.walk([](nn::F8WeightStepOp) { return WalkResult::interrupt(); });
    if (steps.wasInterrupted())
      WeightStepsOp::create(builder, loc);
    func::ReturnOp::create(builder, loc);
  }
};

} // namespace
