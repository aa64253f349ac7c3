// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Refuses a step whose collectives do not pair. Each function is one block, so
// a walk in program order is a proof for every run of it on every rank.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_VERIFYFSDPPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

using UnitSet = llvm::SmallSetVector<Attribute, 8>;

class FunctionVerifier {
public:
  FunctionVerifier(func::FuncOp function, ArrayRef<UnitOp> units)
      : function(function), units(units) {
    for (UnitOp unit : units) {
      auto name = FlatSymbolRefAttr::get(unit.getSymNameAttr());
      if (unit.getKept())
        kept.insert(name);
      if (unit.getEarly())
        early.insert(name);
      if (unit.getIntervals().empty())
        updated.insert(name); // nothing changes it
    }
    if (function.getName() == kFirstMicrobatch)
      started = early;
  }

  LogicalResult run();

  /// Reductions that this function starts and does not await.
  UnitSet openReductions;
  /// Kept units that this function found gathered.
  UnitSet keptHere;

private:
  LogicalResult visit(Operation &op);
  LogicalResult gathered(Operation *op, FlatSymbolRefAttr unit, Value value);
  LogicalResult startedGather(AllGatherStartOp op);
  LogicalResult awaited(AllGatherWaitOp op);
  LogicalResult freed(FreeOp op);
  LogicalResult checkReads(Operation &op);
  LogicalResult reduced(Operation *op, FlatSymbolRefAttr unit,
                        ValueRange gradients, bool asynchronous);
  LogicalResult finish();
  bool isUpdate() { return function.getName() == kUpdate; }

  func::FuncOp function;
  ArrayRef<UnitOp> units;
  UnitSet kept, early; // of the units
  UnitSet updated;     // by their optimizer so far
  UnitSet started;     // gathers not awaited
  llvm::SmallMapVector<Attribute, Operation *, 8> live; // gathered, not freed
  llvm::DenseSet<Value> dead;                           // freed gathers
  llvm::DenseMap<Value, Value> origin; // a view or its alias: its gather
  llvm::DenseMap<Attribute, Operation *> acquired; // grad_acquire not used up
  UnitSet reductions;                              // units reduced so far
};

LogicalResult FunctionVerifier::gathered(Operation *op, FlatSymbolRefAttr unit,
                                         Value value) {
  if (!live.insert({unit, op}).second)
    return op->emitOpError() << "unit " << unit << " is gathered already";
  origin[value] = value;
  return success();
}

LogicalResult FunctionVerifier::startedGather(AllGatherStartOp op) {
  FlatSymbolRefAttr unit = op.getUnitAttr();
  if (live.contains(unit))
    return op.emitOpError() << "unit " << unit << " is gathered already";
  if (!started.insert(unit))
    return op.emitOpError() << "unit " << unit << " was started already";
  if (kept.contains(unit) && !isUpdate())
    return op.emitOpError()
           << "gathers unit " << unit << ", which is kept, outside @update";
  if (kept.contains(unit) && !updated.contains(unit))
    return op.emitOpError() << "gathers unit " << unit
                            << ", which is kept, before its optimizer";
  if (early.contains(unit) && isUpdate() && !updated.contains(unit))
    return op.emitOpError()
           << "gathers unit " << unit << " early, before its optimizer";
  return success();
}

// A kept unit was started by the @update before, and stays.
LogicalResult FunctionVerifier::awaited(AllGatherWaitOp op) {
  FlatSymbolRefAttr unit = op.getUnitAttr();
  if (kept.contains(unit))
    keptHere.insert(unit);
  else if (!started.remove(unit))
    return op.emitOpError() << "no gather of unit " << unit << " was started";
  return gathered(op, unit, op.getGathered());
}

LogicalResult FunctionVerifier::freed(FreeOp op) {
  FlatSymbolRefAttr unit = getGatheredUnit(op.getGathered());
  if (keptHere.contains(unit) && !isUpdate())
    return op.emitOpError()
           << "frees unit " << unit << ", which is kept, outside @update";
  if (!dead.insert(op.getGathered()).second)
    return op.emitOpError()
           << "unit " << getGatheredUnit(op.getGathered()) << " is freed twice";
  live.erase(getGatheredUnit(op.getGathered()));
  return success();
}

// No op may read what lies in a unit's memory after the unit's free.
LogicalResult FunctionVerifier::checkReads(Operation &op) {
  for (Value operand : op.getOperands()) {
    Value gather = origin.lookup(operand);
    if (!gather)
      continue;
    if (dead.contains(gather))
      return op.emitOpError()
             << "reads unit " << getGatheredUnit(gather) << " after its free";
    if (isa<ViewOp>(op) || isAlias(&op))
      origin[op.getResult(0)] = gather;
  }
  return success();
}

LogicalResult FunctionVerifier::reduced(Operation *op, FlatSymbolRefAttr unit,
                                        ValueRange gradients,
                                        bool asynchronous) {
  if (!reductions.insert(unit))
    return op->emitOpError() << "unit " << unit << " is reduced twice";
  if (!asynchronous)
    return success();
  Operation *acquire = acquired.lookup(unit);
  if (!acquire)
    return op->emitOpError()
           << "unit " << unit << " was not acquired before its reduction";
  acquired.erase(unit);
  openReductions.insert(unit);
  for (Value gradient : gradients) {
    Operation *writer = firstWriter(gradient, op);
    if (writer->isBeforeInBlock(acquire))
      return writer->emitOpError()
             << "writes a gradient of unit " << unit << " before its acquire";
  }
  return success();
}

LogicalResult FunctionVerifier::visit(Operation &op) {
  if (auto free = dyn_cast<FreeOp>(op))
    return freed(free);
  if (failed(checkReads(op)))
    return failure();
  if (auto gather = dyn_cast<AllGatherOp>(op))
    return gathered(gather, gather.getUnitAttr(), gather.getGathered());
  if (auto start = dyn_cast<AllGatherStartOp>(op))
    return startedGather(start);
  if (auto wait = dyn_cast<AllGatherWaitOp>(op))
    return awaited(wait);
  if (auto optimizer = dyn_cast<OptimizerOp>(op)) {
    updated.insert(optimizer.getUnitAttr());
    if (live.contains(optimizer.getUnitAttr()))
      return optimizer.emitOpError()
             << "writes unit " << optimizer.getUnitAttr() << ", which is read";
    return success();
  }
  if (auto acquire = dyn_cast<GradAcquireOp>(op)) {
    if (!acquired.insert({acquire.getUnitAttr(), acquire}).second)
      return acquire.emitOpError()
             << "unit " << acquire.getUnitAttr() << " is acquired already";
    return success();
  }
  if (auto reduce = dyn_cast<ReduceScatterOp>(op))
    return reduced(reduce, reduce.getUnitAttr(), reduce.getGradients(), false);
  if (auto reduce = dyn_cast<AllReduceOp>(op))
    return reduced(reduce, reduce.getUnitAttr(), reduce.getGradients(), false);
  if (auto start = dyn_cast<ReduceStartOp>(op))
    return reduced(start, start.getUnitAttr(), start.getGradients(), true);
  if (auto wait = dyn_cast<ReduceWaitOp>(op))
    if (function.getName() != kUpdate &&
        !openReductions.remove(wait.getUnitAttr()))
      return wait.emitOpError()
             << "no reduction of unit " << wait.getUnitAttr() << " was started";
  return success();
}

LogicalResult FunctionVerifier::finish() {
  for (Attribute unit : started)
    if (!kept.contains(unit) && !(isUpdate() && early.contains(unit)))
      return function.emitError() << "the gather of unit " << unit
                                  << " is started and never awaited";
  for (auto [unit, gather] : live)
    if (!keptHere.contains(unit))
      return gather->emitOpError() << "unit " << unit << " is never freed";
  for (auto [unit, acquire] : acquired)
    return acquire->emitOpError()
           << "unit " << unit << " is acquired and never reduced";
  if (reductions.empty())
    return success();
  for (UnitOp unit : units)
    if (!unit.getIntervals().empty() &&
        !reductions.contains(FlatSymbolRefAttr::get(unit.getSymNameAttr())))
      return function.emitError()
             << "never reduces the gradients of unit @" << unit.getSymName();
  return success();
}

LogicalResult FunctionVerifier::run() {
  for (Operation &op : function.getBody().front())
    if (failed(visit(op)))
      return failure();
  return finish();
}

// Each unit with matrices has its muon_start, muon_finish and optimizer, once
// each and in this order; others have only the last.
class MuonOrder {
public:
  explicit MuonOrder(ArrayRef<UnitOp> units) {
    for (UnitOp unit : units)
      if (unit.getMatrixLength() > 0)
        withMatrices.insert(FlatSymbolRefAttr::get(unit.getSymNameAttr()));
  }

  LogicalResult visit(Operation &op) {
    if (auto start = dyn_cast<MuonStartOp>(op)) {
      if (!withMatrices.contains(start.getUnitAttr()))
        return op.emitOpError()
               << "is of unit " << start.getUnitAttr() << ", without matrices";
      if (!started.insert(start.getUnitAttr()))
        return op.emitOpError()
               << "starts unit " << start.getUnitAttr() << " twice";
    } else if (auto finish = dyn_cast<MuonFinishOp>(op)) {
      if (!started.contains(finish.getUnitAttr()) ||
          !finished.insert(finish.getUnitAttr()))
        return op.emitOpError()
               << "has no muon_start of unit " << finish.getUnitAttr()
               << " before it that is open";
    } else if (auto optimizer = dyn_cast<OptimizerOp>(op)) {
      FlatSymbolRefAttr unit = optimizer.getUnitAttr();
      if (withMatrices.contains(unit) && !finished.contains(unit))
        return op.emitOpError()
               << "has no muon_finish of unit " << unit << " before it";
    }
    return success();
  }

private:
  UnitSet withMatrices, started, finished;
};

// @update: what is open is awaited, then the clip, then each optimizer once.
// What the functions before found gathered is gathered again.
LogicalResult verifyUpdate(func::FuncOp update, UnitSet open,
                           const UnitSet &kept, ArrayRef<UnitOp> units) {
  bool clipped = false, stepped = false;
  UnitSet updated, gathered;
  MuonOrder muon(units);
  for (Operation &op : update.getBody().front()) {
    if (failed(muon.visit(op)))
      return failure();
    if (auto wait = dyn_cast<ReduceWaitOp>(op)) {
      if (!open.remove(wait.getUnitAttr()))
        return wait.emitOpError() << "no reduction of unit "
                                  << wait.getUnitAttr() << " is open here";
    } else if (isa<ClipGradNormOp>(op)) {
      if (!open.empty())
        return op.emitOpError() << "reads the gradients of unit "
                                << open.front() << " before its reduce_wait";
      if (clipped)
        return op.emitOpError("stands here twice");
      clipped = true;
    } else if (isa<MuonStartOp, MuonFinishOp, OptimizerOp>(op) && !clipped) {
      return op.emitOpError("stands before the clip");
    } else if (isa<OptimizerOp>(op) && stepped) {
      return op.emitOpError("stands behind the steps of weights");
    } else if (isa<WeightStepsOp>(op)) {
      stepped = true;
    } else if (auto optimizer = dyn_cast<OptimizerOp>(op)) {
      if (!updated.insert(optimizer.getUnitAttr()))
        return op.emitOpError()
               << "updates unit " << optimizer.getUnitAttr() << " twice";
    } else if (auto start = dyn_cast<AllGatherStartOp>(op)) {
      gathered.insert(start.getUnitAttr());
    }
  }
  for (Attribute unit : updated)
    if (kept.contains(unit) && !gathered.contains(unit))
      return update.emitError()
             << "never gathers unit " << unit << ", which is kept";
  for (UnitOp unit : units)
    if (unit.getEarly() &&
        !gathered.contains(FlatSymbolRefAttr::get(unit.getSymNameAttr())))
      return update.emitError()
             << "never gathers unit @" << unit.getSymName() << " early";
  for (UnitOp unit : units)
    if (!unit.getIntervals().empty() &&
        !updated.contains(FlatSymbolRefAttr::get(unit.getSymNameAttr())))
      return update.emitError() << "never updates unit @" << unit.getSymName();
  return success();
}

struct VerifyFSDPPass : public fsdp::impl::VerifyFSDPPassBase<VerifyFSDPPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SmallVector<UnitOp> units;
    llvm::append_range(units, module.getOps<UnitOp>());
    UnitSet open, kept;
    func::FuncOp update;
    for (func::FuncOp function : stepFunctions(module)) {
      FunctionVerifier verifier(function, units);
      if (failed(verifier.run()))
        return signalPassFailure();
      open.insert(verifier.openReductions.begin(),
                  verifier.openReductions.end());
      kept.insert(verifier.keptHere.begin(), verifier.keptHere.end());
      if (function.getName() == kUpdate)
        update = function;
    }
    if (!update && !open.empty()) {
      module.emitError() << "no @update awaits the reduction of unit "
                         << open.front();
      return signalPassFailure();
    }
    if (update && failed(verifyUpdate(update, open, kept, units)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace
