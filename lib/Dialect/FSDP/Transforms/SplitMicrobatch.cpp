// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes @first_microbatch, which writes gradients, and @next_microbatch, which
// adds to them: to the reduced ones, or before they are reduced.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_SPLITMICROBATCHPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

struct SplitMicrobatchPass
    : public fsdp::impl::SplitMicrobatchPassBase<SplitMicrobatchPass> {
  void runOnOperation() override {
    auto first = getOperation().lookupSymbol<func::FuncOp>(kMicrobatch);
    if (!first) {
      getOperation().emitError("has no @microbatch to split");
      return signalPassFailure();
    }
    OpBuilder builder(first);
    builder.setInsertionPointAfter(first);
    auto next = cast<func::FuncOp>(builder.clone(*first));
    first.setName(kFirstMicrobatch);
    next.setName(kNextMicrobatch);
    StringRef how = getOperation()->hasAttr(kUnshardedAccumulationAttr)
                        ? "accumulate_unsharded"
                        : "accumulate";
    for (Operation &op : next.getBody().front())
      if (isa<ReduceStartOp, ReduceScatterOp, AllReduceOp>(op))
        op.setAttr(how, builder.getUnitAttr());
  }
};

} // namespace
