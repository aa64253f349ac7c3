// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lays the parameters out in units: one fsdp.unit for each that a place names.

#include "Step.h"
#include "UnitRules.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/JoinedParameters.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/PackedParameters.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/runtime/Layout.h"

#include <set>

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
  SmallVector<nn::ParameterOp> matrices; // Muon's, trainable
  SmallVector<nn::ParameterOp> trainable, frozen;
  Type paramDtype, reduceDtype;
};

struct Section {
  SmallVector<Attribute> intervals;
  int64_t length = 0;
};

// Those in `joined` lie right behind the one before them.
Section layOut(ArrayRef<nn::ParameterOp> parameters, Type dtype,
               const llvm::DenseSet<StringAttr> &joined, Section section = {}) {
  for (nn::ParameterOp parameter : parameters) {
    int64_t size = nn::elementsIn(parameter, dtype);
    if (!joined.contains(parameter.getSymNameAttr()))
      section.length = alignTo(section.length, kParameterAlignment);
    section.intervals.push_back(
        IntervalAttr::get(parameter.getContext(),
                          FlatSymbolRefAttr::get(parameter.getSymNameAttr()),
                          section.length, size));
    section.length += size;
  }
  section.length = alignTo(section.length, kParameterAlignment);
  return section;
}

// Whether it is one of those that Muon updates, by where its module stands and
// what reads it.
bool isMatrixOfBlock(nn::ParameterOp parameter, nn::GetOp get) {
  if (cast<ShapedType>(parameter.getType()).getRank() != 2 ||
      llvm::any_of(get->getUsers(),
                   llvm::IsaPred<nn::EmbeddingOp, nn::EmbeddingPartOp>))
    return false;
  StringRef path = modulePathOf(parameter.getSymName());
  if (path.empty())
    return nn::unitOf(parameter).getValue() != kRootUnit;
  return llvm::any_of(llvm::split(path, '.'), [](StringRef part) {
    return !part.empty() && llvm::all_of(part, llvm::isDigit);
  });
}

class UnitMaker {
public:
  UnitMaker(ModuleOp module, Strategy strategy, bool muon)
      : module(module), strategy(strategy), muon(muon), symbols(module) {}

  LogicalResult run();

private:
  void collectGradients();
  LogicalResult place(nn::GetOp get);
  LogicalResult placeWithJoined(nn::GetOp get);
  bool mayJoin(nn::ConcatOp concat);
  struct Gathering {
    bool reshards = false, kept = false;
    int64_t group = 0;
  };
  Layout layoutOf(StringRef unit) const;
  Gathering gatheringOf(StringRef unit);
  LogicalResult emit();

  ModuleOp module;
  Strategy strategy;
  bool muon;
  SymbolTable symbols;
  llvm::DenseMap<StringAttr, Type> gradients; // type of each parameter's
  llvm::DenseSet<StringAttr> placed;
  llvm::DenseSet<StringAttr> joined;         // lie right behind the one before
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
  FlatSymbolRefAttr unit = nn::unitOf(parameter);
  if (!unit)
    return parameter.emitOpError(
        "belongs to no unit: run nn-assign-units first");
  Type type = cast<ShapedType>(get.getType()).getElementType();
  bool packed = nn::packingOf(parameter).has_value();
  if (!isa<FloatType>(type) && !packed)
    return get.emitOpError() << "reads " << get.getParameterAttr() << " as "
                             << type << ": only floats can be sharded";
  Draft &draft = drafts[unit.getAttr()];
  if (!packed)
    draft.paramDtype = widerFloat(draft.paramDtype, type);
  if (!placed.insert(name).second)
    return success();

  auto gradient = gradients.find(name);
  if (gradient != gradients.end()) {
    bool first = muon && isMatrixOfBlock(parameter, get);
    (first ? draft.matrices : draft.trainable).push_back(parameter);
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

// Whether the parameters can lie in one section without gaps: none of them has
// its place yet, and each but the last fills whole lines.
bool UnitMaker::mayJoin(nn::ConcatOp concat) {
  llvm::SmallDenseSet<StringAttr> names;
  std::set<std::pair<const void *, bool>> sections;
  for (Value input : concat.getInputs()) {
    auto get = input.getDefiningOp<nn::GetOp>();
    StringAttr name = get.getParameterAttr().getAttr();
    auto parameter = symbols.lookup<nn::ParameterOp>(name);
    sections.insert(
        {nn::unitOf(parameter).getAsOpaquePointer(), gradients.contains(name)});
    if (placed.contains(name) || !names.insert(name).second ||
        sections.size() != 1 ||
        (input != concat.getInputs().back() &&
         nn::tensorType(input).getNumElements() % kSliceAlignment != 0))
      return false;
  }
  return true;
}

// Places a parameter where it is first read, and right behind it those that it
// is joined with.
LogicalResult UnitMaker::placeWithJoined(nn::GetOp get) {
  for (Operation *user : get->getUsers()) {
    if (!nn::joinsParameters(user) || !mayJoin(cast<nn::ConcatOp>(user)))
      continue;
    for (Value input : user->getOperands()) {
      auto member = input.getDefiningOp<nn::GetOp>();
      if (failed(place(member)))
        return failure();
      if (input != user->getOperand(0))
        joined.insert(member.getParameterAttr().getAttr());
    }
  }
  return place(get);
}

Layout UnitMaker::layoutOf(StringRef unit) const {
  return strategy == Strategy::NoShard || unit == kIgnoredUnit
             ? Layout::replicated
             : Layout::sharded;
}

// How long the unit stays gathered: as its policy says, else the strategy.
UnitMaker::Gathering UnitMaker::gatheringOf(StringRef unit) {
  Gathering result;
  if (layoutOf(unit) == Layout::replicated)
    return result;
  bool frees =
      strategy == Strategy::FullShard || strategy == Strategy::HybridShard;
  result.reshards = frees && unit != kRootUnit;
  auto chosen = module->getAttrOfType<ArrayAttr>(kKeepAttr);
  result.kept =
      strategy == Strategy::ShardOpt ||
      (chosen &&
       llvm::is_contained(chosen, StringAttr::get(module.getContext(), unit)));
  if (auto setting = dyn_cast_or_null<IntegerAttr>(
          nn::unitSetting(module, unit, nn::kReshardKey))) {
    result.reshards = setting.getInt() != 0;
    result.group = setting.getInt() > 1 ? setting.getInt() : 0;
    result.kept &= !result.reshards;
  }
  if (auto setting = dyn_cast_or_null<BoolAttr>(
          nn::unitSetting(module, unit, nn::kKeptKey)))
    result.kept = setting.getValue();
  if (result.kept)
    return {/*reshards=*/false, /*kept=*/true, /*group=*/0};
  return result;
}

LogicalResult UnitMaker::emit() {
  OpBuilder builder(module.getContext());
  Operation *last = nullptr;
  for (auto parameter : module.getOps<nn::ParameterOp>())
    last = parameter;
  if (!last)
    return success();
  builder.setInsertionPointAfter(last);
  for (auto &[name, draft] : drafts) {
    // Of packed weights alone: any type that their words are a multiple of.
    if (!draft.paramDtype)
      draft.paramDtype = builder.getF32Type();
    Section matrices = layOut(draft.matrices, draft.paramDtype, joined),
            trainable =
                layOut(draft.trainable, draft.paramDtype, joined, matrices),
            frozen = layOut(draft.frozen, draft.paramDtype, joined);
    Gathering gathering = gatheringOf(name);
    auto unit = UnitOp::create(
        builder, module.getLoc(), name.getValue(), layoutOf(name),
        draft.paramDtype,
        draft.reduceDtype ? draft.reduceDtype : draft.paramDtype,
        trainable.length, builder.getArrayAttr(trainable.intervals),
        frozen.length, builder.getArrayAttr(frozen.intervals),
        gathering.reshards, gathering.group, gathering.kept,
        /*early=*/false, matrices.length);
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
      if (failed(placeWithJoined(get)))
        return failure();
  return emit();
}

struct MakeUnitsPass : public fsdp::impl::MakeUnitsPassBase<MakeUnitsPass> {
  using MakeUnitsPassBase::MakeUnitsPassBase;

  void runOnOperation() override {
    if (failed(UnitMaker(getOperation(), strategy, muon).run()))
      signalPassFailure();
  }
};

} // namespace
