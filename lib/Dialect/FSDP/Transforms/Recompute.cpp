// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides what the backward of each unit computes again. Executes the forward
// of blocks again in their backward, from their inputs, so that nothing inside
// a block is saved; finer choices are nn-recompute's.

#include "shardonnx/Support/Recompute.h"
#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/Support/UsageError.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_RECOMPUTEPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

class Recomputer {
public:
  Recomputer(func::FuncOp function, DictionaryAttr plan)
      : function(function), plan(plan), order(function) {}

  void run();

private:
  bool isBlock(FlatSymbolRefAttr unit) const;
  bool isInside(Value value, FlatSymbolRefAttr unit) const;
  Value recompute(Value value, FlatSymbolRefAttr unit);

  func::FuncOp function;
  DictionaryAttr plan;
  StepOrder order;
  llvm::DenseMap<Attribute, OpBuilder> builders; // of each unit's clones
  llvm::DenseMap<Operation *, Operation *> clones;
};

bool Recomputer::isBlock(FlatSymbolRefAttr unit) const {
  auto mode = unit ? plan.getAs<StringAttr>(unit.getAttr()) : nullptr;
  return mode && mode.getValue() == spell(RecomputeKind::Block);
}

// Made by the unit's own forward, from something: tables and constants that
// read nothing of the step are cheap to keep and read by every block.
bool Recomputer::isInside(Value value, FlatSymbolRefAttr unit) const {
  Operation *def = value.getDefiningOp();
  return def && !order.inBackward(def) && nn::unitOf(def) == unit &&
         isPure(def) && def->getNumOperands() != 0;
}

// The clone of what makes `value`; clones of one unit stand together, in the
// order of need, before the first op of its backward.
Value Recomputer::recompute(Value value, FlatSymbolRefAttr unit) {
  Operation *def = value.getDefiningOp();
  Operation *clone = clones.lookup(def);
  if (!clone) {
    IRMapping mapping;
    for (Value operand : def->getOperands())
      if (isInside(operand, unit))
        mapping.map(operand, recompute(operand, unit));
    clone = builders.at(unit).clone(*def, mapping);
    nn::setPhase(clone, nn::Phase::recompute);
    clones[def] = clone;
  }
  return clone->getResult(cast<OpResult>(value).getResultNumber());
}

void Recomputer::run() {
  SmallVector<Operation *> backward;
  for (Operation &op : function.getBody().front())
    if (order.inBackward(&op))
      backward.push_back(&op);
  for (Operation *op : backward) {
    FlatSymbolRefAttr unit = nn::unitOf(op);
    if (!isBlock(unit))
      continue;
    builders.try_emplace(unit, op);
    for (OpOperand &operand : op->getOpOperands())
      if (isInside(operand.get(), unit))
        operand.set(recompute(operand.get(), unit));
  }
  nn::markBackward(function.getBody().front());
}

// The units other than root, in the order of their first op.
llvm::SetVector<StringAttr> unitsInOrder(ModuleOp module) {
  llvm::SetVector<StringAttr> units;
  for (func::FuncOp function : stepFunctions(module))
    if (function.getName() == kMicrobatch)
      for (Operation &op : function.getBody().front())
        if (FlatSymbolRefAttr unit = nn::unitOf(&op);
            unit && unit.getValue() != kRootUnit)
          units.insert(unit.getAttr());
  return units;
}

struct RecomputePass : public fsdp::impl::RecomputePassBase<RecomputePass> {
  using RecomputePassBase::RecomputePassBase;

  FailureOr<DictionaryAttr> makePlan();
  void runOnOperation() override;
};

FailureOr<DictionaryAttr> RecomputePass::makePlan() {
  std::string error;
  std::optional<Recompute> mode = parseRecompute(recompute, error);
  if (!mode)
    return emitUsageError(getOperation()) << "--recompute: " << error,
           failure();
  if (mode->kind == RecomputeKind::Budget)
    return getOperation().emitError("--recompute: '")
               << recompute << "': a budget comes as a plan in '"
               << kRecomputePlanAttr << "'",
           failure();
  bool some = mode->kind == RecomputeKind::Every;
  StringRef none = spell(RecomputeKind::None);
  StringRef asked = spell(some ? RecomputeKind::Block : mode->kind);
  size_t every = some ? size_t(mode->number) : 1;
  SmallVector<NamedAttribute> plan;
  for (auto [index, unit] : llvm::enumerate(unitsInOrder(getOperation()))) {
    StringRef what = (index + 1) % every == 0 ? asked : none;
    if (auto own = dyn_cast_or_null<StringAttr>(
            nn::unitSetting(getOperation(), unit, nn::kRecomputeKey)))
      what = own.getValue();
    if (what != none)
      plan.push_back({unit, StringAttr::get(&getContext(), what)});
  }
  return DictionaryAttr::get(&getContext(), plan);
}

void RecomputePass::runOnOperation() {
  ModuleOp module = getOperation();
  if (!module->hasAttr(kRecomputePlanAttr)) {
    FailureOr<DictionaryAttr> plan = makePlan();
    if (failed(plan))
      return signalPassFailure();
    if (!plan->empty())
      module->setAttr(kRecomputePlanAttr, *plan);
  }
  auto plan = module->getAttrOfType<DictionaryAttr>(kRecomputePlanAttr);
  if (!plan)
    return;
  for (func::FuncOp function : stepFunctions(module))
    Recomputer(function, plan).run();
}

} // namespace
