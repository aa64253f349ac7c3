// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// verify-exec: the promises of a memory plan, checked from the planned program
// alone (lifetimes are read off it anew).

#include "shardonnx/Dialect/Exec/Transforms/AxisWaits.h"
#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Dialect/Exec/Transforms/Passes.h"
#include "shardonnx/runtime/Layout.h"

#include "llvm/ADT/DenseSet.h"

#include <deque>

namespace shardonnx::exec {
#define GEN_PASS_DEF_VERIFYEXECPASS
#include "shardonnx/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace shardonnx::exec

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

namespace {

class VerifyExec : public exec::impl::VerifyExecPassBase<VerifyExec> {
public:
  void runOnOperation() override;

private:
  LogicalResult verifySpace(Space space, const Lifetimes &lifetimes);
  static LogicalResult verifyDisjoint(Space space, const Lifetimes &lifetimes);
  LogicalResult verifyPlaced(PlacedGradients placed);
  LogicalResult verifyContents(func::FuncOp function);
};

// What is known of the contents of buffers while walking one function.
class Contents {
public:
  explicit Contents(func::FuncOp function);
  LogicalResult visit(Operation &op);
  LogicalResult finish(func::FuncOp function);

private:
  enum class Params { Unknown, Gathering, Whole, Freed };
  LogicalResult read(Operation &op, Value value);
  LogicalResult write(Operation &op, Value value);
  LogicalResult visitCopy(Operation &op);
  LogicalResult visitEffects(Operation &op);
  LogicalResult followAxes(Operation &op);

  // Of copies between the rank and its host memory: those that are under way,
  // by the device's buffer, and those that have arrived there.
  llvm::DenseMap<Value, Operation *> copying;
  llvm::DenseSet<Value> onHost;
  llvm::DenseSet<Value> written;
  llvm::DenseMap<StringAttr, Params> params;
  llvm::DenseSet<StringAttr> acquired;
  llvm::DenseSet<int64_t> outputs; // indices of graph inputs
  std::deque<AxisStartOp> started; // without a wait so far
  // Gradients hold what earlier microbatches of the step left.
  bool mustAdd = false;
};

} // namespace

// Kept units are being gathered wherever a function begins, early ones where a
// step does.
Contents::Contents(func::FuncOp function) {
  auto module = function->getParentOfType<ModuleOp>();
  for (auto unit : module.getOps<fsdp::UnitOp>())
    if (unit.getKept() ||
        (unit.getEarly() && function.getName() == fsdp::kFirstMicrobatch))
      params[unit.getSymNameAttr()] = Params::Gathering;
  for (auto input : module.getOps<InputOp>())
    if (input.getKind() == kOutputKind)
      outputs.insert(int64_t(input.getIndex()));
  mustAdd = module->hasAttr(fsdp::kUnshardedAccumulationAttr) &&
            function.getName() == fsdp::kNextMicrobatch;
}

// A copy begins behind what the buffers hold, and its wait ends it.
LogicalResult Contents::visitCopy(Operation &op) {
  if (auto start = dyn_cast<OffloadStartOp>(op)) {
    onHost.erase(rootOf(start.getHost()));
    copying[rootOf(start.getBuffer())] = &op;
  } else if (auto wait = dyn_cast<OffloadWaitOp>(op)) {
    Operation *start = copying.lookup(rootOf(wait.getBuffer()));
    auto begun = dyn_cast_or_null<OffloadStartOp>(start);
    if (!begun || begun.getCopy() != wait.getCopy())
      return op.emitOpError("waits for a copy that nobody has begun");
    onHost.insert(rootOf(begun.getHost()));
    copying.erase(rootOf(wait.getBuffer()));
  } else if (auto start = dyn_cast<ReloadStartOp>(op)) {
    if (!onHost.contains(rootOf(start.getHost())))
      return op.emitOpError("copies back what no offload_wait has left there");
    copying[rootOf(start.getBuffer())] = &op;
  } else if (auto wait = dyn_cast<ReloadWaitOp>(op)) {
    auto begun = dyn_cast_or_null<ReloadStartOp>(
        copying.lookup(rootOf(wait.getBuffer())));
    if (!begun || begun.getCopy() != wait.getCopy())
      return op.emitOpError("waits for a copy that nobody has begun");
    copying.erase(rootOf(wait.getBuffer()));
  }
  return success();
}

LogicalResult Contents::finish(func::FuncOp function) {
  for (auto [buffer, start] : copying)
    return start->emitOpError("begins a copy that nobody waits for");
  auto module = function->getParentOfType<ModuleOp>();
  for (auto unit : module.getOps<fsdp::UnitOp>())
    if (unit.getKept() && params[unit.getSymNameAttr()] == Params::Freed)
      return function.emitError("frees @")
             << unit.getSymName() << ", which is kept, for good";
  if (!started.empty())
    return started.front().emitOpError("is never awaited");
  return success();
}

LogicalResult Contents::followAxes(Operation &op) {
  if (isa<AxisWaitOp>(op)) {
    if (started.empty() || started.front()->getOperands() != op.getOperands())
      return op.emitOpError("is not of the first start without a wait");
    started.pop_front();
    return success();
  }
  for (AxisStartOp start : started)
    if (mustAwait(op, start)) {
      InFlightDiagnostic error =
          op.emitOpError("touches what is exchanged along an axis");
      error.attachNote(start.getLoc()) << "since here, and is not awaited";
      return error;
    }
  if (auto start = dyn_cast<AxisStartOp>(op))
    started.push_back(start);
  return success();
}

LogicalResult Contents::read(Operation &op, Value value) {
  auto buffer = rootOf(value).getDefiningOp<BufferOp>();
  if (!buffer)
    return success();
  if (isa_and_nonnull<ReloadStartOp>(copying.lookup(buffer)))
    return op.emitOpError("reads a buffer that is being copied from the host");
  FlatSymbolRefAttr unit = buffer.getSymbolAttr();
  switch (buffer.getSpace()) {
  case Space::private_:
    if (!written.contains(buffer))
      return op.emitOpError("reads a buffer that nothing has written");
    return success();
  case Space::params: {
    Params state = params.lookup(unit.getAttr());
    if (state == Params::Gathering || state == Params::Freed)
      return op.emitOpError("reads parameters of ")
             << unit
             << (state == Params::Freed ? " after they were freed"
                                        : " before their gather was awaited");
    return success();
  }
  case Space::gradients:
    if (!acquired.contains(unit.getAttr()))
      return op.emitOpError("reads gradients of ")
             << unit << " outside grad_acquire and reduce_start";
    if (!mustAdd && !written.contains(buffer))
      return op.emitOpError("reads gradients of ")
             << unit << " that nothing has written";
    return success();
  default:
    return success();
  }
}

static Value accumulationTargetOf(Operation &op) {
  auto call = dyn_cast<RuntimeCallOpInterface>(op);
  return call ? call.getAccumulationTarget() : Value();
}

LogicalResult Contents::write(Operation &op, Value value) {
  auto buffer = rootOf(value).getDefiningOp<BufferOp>();
  if (!buffer)
    return success();
  if (Operation *start = copying.lookup(buffer))
    return op.emitOpError("writes to a buffer that is being copied ")
           << (isa<OffloadStartOp>(start) ? "to" : "from") << " the host";
  switch (buffer.getSpace()) {
  case Space::private_:
  case Space::host:
    written.insert(buffer);
    return success();
  case Space::gradients:
    if (!acquired.contains(buffer.getSymbolAttr().getAttr()))
      return op.emitOpError("writes gradients of ")
             << buffer.getSymbolAttr()
             << " outside grad_acquire and reduce_start";
    if (mustAdd && accumulationTargetOf(op) != value)
      return op.emitOpError("overwrites gradients of ")
             << buffer.getSymbolAttr() << " of earlier microbatches";
    written.insert(buffer);
    return success();
  case Space::input:
    if (outputs.contains(buffer.getOffset()))
      return success();
    [[fallthrough]];
  default:
    return op.emitOpError("writes to ")
           << stringifySpace(buffer.getSpace()) << ", which is read-only";
  }
}

LogicalResult Contents::visit(Operation &op) {
  if (auto start = dyn_cast<GatherStartOp>(op))
    params[start.getUnitAttr().getAttr()] = Params::Gathering;
  else if (auto wait = dyn_cast<GatherWaitOp>(op))
    params[wait.getUnitAttr().getAttr()] = Params::Whole;
  else if (auto free = dyn_cast<GatherFreeOp>(op))
    params[free.getUnitAttr().getAttr()] = Params::Freed;
  else if (auto reshard = dyn_cast<GatherReshardOp>(op))
    params[reshard.getUnitAttr().getAttr()] = Params::Freed;
  else if (auto acquire = dyn_cast<GradAcquireOp>(op))
    acquired.insert(acquire.getUnitAttr().getAttr());
  else if (auto start = dyn_cast<ReduceStartOp>(op))
    acquired.erase(start.getUnitAttr().getAttr());
  if (failed(followAxes(op)))
    return failure();
  bool waits = isa<OffloadWaitOp, ReloadWaitOp>(op);
  if (waits && failed(visitCopy(op)))
    return failure();
  if (failed(visitEffects(op)))
    return failure();
  return waits ? success() : visitCopy(op);
}

LogicalResult Contents::visitEffects(Operation &op) {
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!effects)
    return success();
  SmallVector<MemoryEffects::EffectInstance> list;
  effects.getEffects(list);
  if (Value target = accumulationTargetOf(op);
      target && failed(read(op, target)))
    return failure();
  for (const auto &effect : list)
    if (effect.getValue() && isa<MemoryEffects::Read>(effect.getEffect()) &&
        failed(read(op, effect.getValue())))
      return failure();
  for (const auto &effect : list)
    if (effect.getValue() && isa<MemoryEffects::Write>(effect.getEffect()) &&
        failed(write(op, effect.getValue())))
      return failure();
  return success();
}

LogicalResult VerifyExec::verifyContents(func::FuncOp function) {
  Contents contents(function);
  for (Operation &op : function.front()) {
    if (isa<AllocOp>(op))
      return op.emitOpError("has no place: run exec-plan-memory first");
    if (failed(contents.visit(op)))
      return failure();
  }
  return contents.finish(function);
}

LogicalResult VerifyExec::verifySpace(Space space, const Lifetimes &lifetimes) {
  int64_t bytes = -1;
  for (SpacePlanOp plan : getOperation().getOps<SpacePlanOp>())
    if (plan.getSpace() == space)
      bytes = plan.getBytes();
  if (bytes < 0)
    return getOperation().emitError("has no exec.space ")
           << stringifySpace(space) << ": run exec-plan-memory first";
  for (auto [owner, item] : llvm::zip(lifetimes.owners, lifetimes.items)) {
    if (item.live.empty())
      continue;
    if (item.offset + item.bytes > bytes)
      return owner->emitOpError("ends at byte ")
             << item.offset + item.bytes << " of the " << stringifySpace(space)
             << " space of " << bytes;
    if (item.offset % kBufferAlignmentBytes != 0)
      return owner->emitOpError("is not aligned to ")
             << kBufferAlignmentBytes << " bytes";
  }
  return verifyDisjoint(space, lifetimes);
}

LogicalResult VerifyExec::verifyDisjoint(Space space,
                                         const Lifetimes &lifetimes) {
  if (auto overlap = findOverlap(lifetimes.items)) {
    InFlightDiagnostic error =
        lifetimes.owners[overlap->second]->emitOpError(
            "overlaps what lives at the same time in the ")
        << stringifySpace(space) << " space";
    error.attachNote(lifetimes.owners[overlap->first]->getLoc()) << "this";
    return error;
  }
  return success();
}

// Gradients beside the private buffers of a step, of the units that have a
// place for them.
LogicalResult VerifyExec::verifyPlaced(PlacedGradients placed) {
  StepLifetimes step = privateLifetimesOfStep(getOperation(), placed);
  Lifetimes known;
  for (auto [index, owner, item] : llvm::enumerate(step.owners, step.items))
    if (index < step.buffers || owner->hasAttr(placeAttr(placed))) {
      known.owners.push_back(owner);
      known.items.push_back(item);
    }
  if (known.items.size() == step.buffers)
    return success();
  return placed == PlacedGradients::Whole
             ? verifyDisjoint(Space::private_, known)
             : verifySpace(Space::private_, known);
}

void VerifyExec::runOnOperation() {
  ModuleOp module = getOperation();
  bool valid = true;
  for (func::FuncOp function : stepFunctions(module)) {
    valid &= succeeded(verifyContents(function));
    Lifetimes own = bufferLifetimes(function, Space::private_);
    valid &= succeeded(verifySpace(Space::private_, own));
    Lifetimes host = bufferLifetimes(function, Space::host);
    if (!host.items.empty())
      valid &= succeeded(verifySpace(Space::host, host));
  }
  valid &= succeeded(verifySpace(Space::params, paramLifetimes(module)));
  valid &= succeeded(verifySpace(Space::gradients, gradientLifetimes(module)));
  if (valid)
    valid &= succeeded(verifyPlaced(PlacedGradients::Whole)) &&
             succeeded(verifyPlaced(PlacedGradients::Slice));
  if (!valid)
    signalPassFailure();
}
