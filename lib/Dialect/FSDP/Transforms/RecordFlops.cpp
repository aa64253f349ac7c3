// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the model FLOPs of each unit on its fsdp.unit, since later levels have
// no matrix products to count.

#include "shardonnx/Cost/Cost.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace shardonnx;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_RECORDFLOPSPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

struct RecordFlopsPass
    : public fsdp::impl::RecordFlopsPassBase<RecordFlopsPass> {
  void runOnOperation() override {
    StepCost cost = estimateStep(getOperation());
    Builder builder(&getContext());
    for (auto [unit, unitCost] :
         llvm::zip_equal(getOperation().getOps<fsdp::UnitOp>(), cost.units))
      if (int64_t flops = unitCost.modelFlops())
        unit->setAttr(fsdp::kFlopsAttr, builder.getI64IntegerAttr(flops));
  }
};

} // namespace
