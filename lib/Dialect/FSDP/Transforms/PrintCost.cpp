// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints the cost model's view of a module.

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Cost/Cost.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shardonnx;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_PRINTCOSTPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

struct PrintCostPass : public fsdp::impl::PrintCostPassBase<PrintCostPass> {
  using PrintCostPassBase::PrintCostPassBase;

  void runOnOperation() override {
    if (ranks == 0 || replicas == 0 || ranks % replicas != 0) {
      getOperation().emitError()
          << unsigned(replicas) << " replicas do not divide " << unsigned(ranks)
          << " ranks";
      return signalPassFailure();
    }
    StepCost cost = estimateStep(getOperation());
    StepShape shape{Topology(ranks, replicas), microbatches};
    if (json)
      llvm::outs() << llvm::formatv("{0:2}\n", toJSON(cost, shape));
    else
      print(cost, shape, llvm::outs());
    markAllAnalysesPreserved();
  }
};

} // namespace
