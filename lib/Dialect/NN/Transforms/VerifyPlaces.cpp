// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-verify-places: passes copy places from the ops that they replace; one that
// forgets to is an error here and not another program.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "llvm/ADT/DenseSet.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_VERIFYPLACESPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

static LogicalResult verifyPhase(Operation &op) {
  if (phaseOf(&op) == Phase::recompute)
    return success();
  bool backward = isa<LossScaleOp>(op) || readsBackward(&op);
  if (isBackward(&op) == backward)
    return success();
  return op.emitOpError() << (backward ? "reads what backward computes, but "
                                         "is marked as forward"
                                       : "is marked as backward, but reads "
                                         "nothing that backward computes");
}

/// What is computed from parameters must be near them; masks, tables and what
/// is only an input's may stand anywhere.
static LogicalResult verifyUnits(Block &block) {
  llvm::DenseSet<Operation *> fromParameters;
  for (Operation &op : block) {
    bool reads = isa<GetOp>(op);
    for (Value operand : op.getOperands())
      reads |= fromParameters.contains(operand.getDefiningOp());
    if (!reads)
      continue;
    fromParameters.insert(&op);
    if (isa<PlacedOpInterface>(op) && !unitOf(&op))
      return op.emitOpError("computes from parameters, but belongs to no unit");
  }
  return success();
}

namespace {
struct VerifyPlacesPass : nn::impl::VerifyPlacesPassBase<VerifyPlacesPass> {
  LogicalResult verify(func::FuncOp function, bool units) {
    Block &block = function.front();
    for (Operation &op : block)
      if (isa<PlacedOpInterface>(op) && failed(verifyPhase(op)))
        return failure();
    return units ? verifyUnits(block) : success();
  }

  void runOnOperation() override {
    bool units =
        llvm::any_of(getOperation().getOps<ParameterOp>(),
                     [](ParameterOp parameter) { return unitOf(parameter); });
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && failed(verify(function, units)))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace
