// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lays the parameters out in units: one fsdp.unit for each `nn.unit`.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/runtime/Layout.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_MAKEUNITSPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

// A unit in the making.
struct Draft {
  SmallVector<nn::ParameterOp> trainable, frozen;
  Type paramDtype, reduceDtype;
};

struct Section {
  SmallVector<Attribute> intervals;
  int64_t length = 0;
};

Section layOut(ArrayRef<nn::ParameterOp> parameters) {
  Section section;
  for (nn::ParameterOp parameter : parameters) {
    int64_t size = cast<ShapedType>(parameter.getType()).getNumElements();
    section.intervals.push_back(
        IntervalAttr::get(parameter.getContext(),
                          FlatSymbolRefAttr::get(parameter.getSymNameAttr()),
                          section.length, size));
    section.length = alignTo(section.length + size, kParameterAlignment);
  }
  return section;
}

class UnitMaker {
public:
  UnitMaker(ModuleOp module, Strategy strategy)
      : module(module), strategy(strategy), symbols(module) {}

  LogicalResult run();

private:
  void collectGradients();
  LogicalResult place(nn::GetOp get);
  LogicalResult emit();

  ModuleOp module;
  Strategy strategy;
  SymbolTable symbols;
  llvm::DenseMap<StringAttr, Type> gradients; // type of each parameter's
  llvm::DenseSet<StringAttr> placed;
  llvm::MapVector<StringAttr, Draft> drafts; // in order of first use
};

void UnitMaker::collectGradients() {
  module.walk([&](nn::GradOp grad) {
    Type type = cast<ShapedType>(grad.getValue().getType()).getElementType();
    Type &known = gradients[grad.getParameterAttr().getAttr()];
    known = widerFloat(known, type);
  });
}

LogicalResult UnitMaker::place(nn::GetOp get) {
  auto parameter = symbols.lookup<nn::ParameterOp>(get.getParameter());
  StringAttr name = parameter.getSymNameAttr();
  FlatSymbolRefAttr unit = unitOf(parameter);
  if (!unit)
    return parameter.emitOpError("has no nn.unit: run nn-assign-units first");
  Type type = cast<ShapedType>(get.getType()).getElementType();
  if (!isa<FloatType>(type))
    return get.emitOpError() << "reads " << get.getParameterAttr() << " as "
                             << type << ": only floats can be sharded";
  Draft &draft = drafts[unit.getAttr()];
  draft.paramDtype = widerFloat(draft.paramDtype, type);
  if (!placed.insert(name).second)
    return success();

  auto gradient = gradients.find(name);
  if (gradient != gradients.end()) {
    draft.trainable.push_back(parameter);
    draft.reduceDtype = widerFloat(draft.reduceDtype, gradient->second);
    return success();
  }
  if (parameter.getTrainable() && !gradients.empty()) {
    parameter.emitWarning() << "'" << name.getValue()
                            << "' does not reach the loss, so it is frozen";
    parameter.setTrainable(false);
  }
  draft.frozen.push_back(parameter);
  return success();
}

LogicalResult UnitMaker::emit() {
  OpBuilder builder(module.getContext());
  Operation *last = nullptr;
  for (auto parameter : module.getOps<nn::ParameterOp>())
    last = parameter;
  if (!last)
    return success();
  builder.setInsertionPointAfter(last);
  auto layout =
      strategy == Strategy::no_shard ? Layout::replicated : Layout::sharded;
  bool reshards =
      strategy == Strategy::full_shard || strategy == Strategy::hybrid_shard;
  llvm::DenseSet<Attribute> chosen;
  if (auto names = module->getAttrOfType<ArrayAttr>(kKeepAttr))
    chosen.insert(names.begin(), names.end());
  for (auto &[name, draft] : drafts) {
    Section trainable = layOut(draft.trainable), frozen = layOut(draft.frozen);
    bool kept = strategy == Strategy::shard_opt ||
                (layout == Layout::sharded && chosen.contains(name));
    bool reshard = reshards && !kept && name.getValue() != kRootUnit;
    auto unit = UnitOp::create(
        builder, module.getLoc(), name.getValue(), layout, draft.paramDtype,
        draft.reduceDtype ? draft.reduceDtype : draft.paramDtype,
        trainable.length, builder.getArrayAttr(trainable.intervals),
        frozen.length, builder.getArrayAttr(frozen.intervals), reshard,
        /*reshard_group=*/0, kept);
    if (symbols.lookup(name))
      return unit.emitOpError() << "has the name of another symbol";
  }
  return success();
}

LogicalResult UnitMaker::run() {
  collectGradients();
  SmallVector<func::FuncOp> functions = stepFunctions(module);
  // The training step decides the order; evaluation uses the same parameters.
  llvm::stable_sort(functions, [](func::FuncOp a, func::FuncOp b) {
    return a.getName() == kMicrobatch && b.getName() != kMicrobatch;
  });
  for (func::FuncOp function : functions)
    for (auto get : function.getBody().front().getOps<nn::GetOp>())
      if (failed(place(get)))
        return failure();
  return emit();
}

struct MakeUnitsPass : public fsdp::impl::MakeUnitsPassBase<MakeUnitsPass> {
  using MakeUnitsPassBase::MakeUnitsPassBase;

  void runOnOperation() override {
    if (failed(UnitMaker(getOperation(), strategy).run()))
      signalPassFailure();
  }
};

} // namespace
