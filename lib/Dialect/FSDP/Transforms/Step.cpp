// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What several passes ask of a step.

#include "Step.h"
#include "shardonnx/Dialect/NN/IR/JoinedParameters.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

// Arithmetic on the loss scale itself may stand anywhere.
static bool yieldsScalars(Operation *op) {
  return llvm::all_of(op->getResultTypes(), [](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    return shaped && shaped.getNumElements() == 1;
  });
}

StepOrder::StepOrder(func::FuncOp function) {
  std::optional<unsigned> start;
  for (Operation &op : function.getBody().front()) {
    positions[&op] = ops.size();
    if (!start && nn::phaseOf(&op) == nn::Phase::backward &&
        !yieldsScalars(&op))
      start = ops.size();
    ops.push_back(&op);
  }
  backward = start.value_or(ops.size());
}

unsigned StepOrder::position(Operation *op) const {
  auto it = positions.find(op);
  assert(it != positions.end() && "op is not of this function");
  return it->second;
}

SmallVector<func::FuncOp> fsdp::stepFunctions(ModuleOp module) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      functions.push_back(function);
  return functions;
}

llvm::DenseMap<StringAttr, UnitOp> fsdp::unitsByParameter(ModuleOp module) {
  llvm::DenseMap<StringAttr, UnitOp> units;
  for (auto unit : module.getOps<UnitOp>())
    for (ArrayAttr section : {unit.getIntervals(), unit.getFrozenIntervals()})
      for (auto interval : section.getAsRange<IntervalAttr>())
        units[interval.getParameter().getAttr()] = unit;
  return units;
}

// Parameters of a unit, before and after it is gathered.
static bool joinsParameters(Operation *op) {
  auto concat = dyn_cast<nn::ConcatOp>(op);
  return concat && llvm::all_of(concat.getInputs(), [](Value input) {
           return isa_and_nonnull<nn::GetOp, ViewOp>(input.getDefiningOp());
         });
}

bool fsdp::isAlias(Operation *op) {
  return isa<nn::ReshapeOp, nn::TransposeOp, nn::SliceOp, nn::BroadcastOp>(
             op) ||
         joinsParameters(op);
}

Operation *fsdp::lastUser(Value value, const StepOrder &order) {
  Operation *last = nullptr;
  auto take = [&](Operation *user) {
    if (user && (!last || order.position(last) < order.position(user)))
      last = user;
  };
  for (Operation *user : value.getUsers()) {
    take(user);
    if (isAlias(user))
      take(lastUser(user->getResult(0), order));
  }
  return last;
}

Operation *fsdp::firstWriter(Value gradient, Operation *reduction) {
  Operation *def = gradient.getDefiningOp();
  if (!def)
    return reduction;
  if (Value whole = nn::wholeOfRows(gradient))
    return firstWriter(whole, reduction);
  Operation *first = def;
  auto size = [](Value value) {
    return cast<ShapedType>(value.getType()).getNumElements();
  };
  if (isa<nn::ReshapeOp, nn::TransposeOp, nn::AddOp>(def) ||
      !summandsOf(def).empty())
    for (Value operand : def->getOperands())
      if (size(operand) == size(gradient))
        if (Operation *writer = firstWriter(operand, reduction);
            writer->isBeforeInBlock(first))
          first = writer;
  return first;
}

bool fsdp::writes(Operation *op, UnitOp unit) {
  if (isa<WeightStepsOp>(op))
    return isa<Float8E4M3FNType>(unit.getParamDtype());
  auto optimizer = dyn_cast<OptimizerOp>(op);
  return optimizer && optimizer.getUnit() == unit.getSymName();
}

Type fsdp::widerFloat(Type a, Type b) {
  if (!a || a == b)
    return b;
  return Float32Type::get(b.getContext());
}
