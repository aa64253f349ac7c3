// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-gather-codes: of units that are gathered in 8 bits, those weights that
// only products of 8 bits read are gathered as what these multiply. It stands
// behind nn-f8-products. Norms and biases get a unit of their own, so that the
// weights' has elements of one size.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/NN/IR/JoinedParameters.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/runtime/UpdateTypes.h"
#include "llvm/ADT/MapVector.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_GATHERCODESPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {

struct GatherCodesPass : nn::impl::GatherCodesPassBase<GatherCodesPass> {
  using GatherCodesPassBase::GatherCodesPassBase;

  void setPolicies(ArrayRef<StringAttr> units);
  void runOnOperation() override;
};

} // namespace

/// Whether products alone read the value, rounded by one scale for all of it.
static bool isReadByProducts(Value value) {
  return !value.use_empty() &&
         llvm::all_of(value.getUses(), [](OpOperand &use) {
           Operation *user = use.getOwner();
           if (isa<ReshapeOp, TransposeOp, VaryOp>(user) ||
               joinsParameters(user))
             return isReadByProducts(user->getResult(0));
           if (auto product = dyn_cast<F8MatmulOp>(user))
             return use.get() == product.getRhsSource() &&
                    product.getRecipe() == F8Recipe::tensorwise;
           if (auto round = dyn_cast<F8RoundOp>(user))
             return use.get() == round.getOperand();
           return isa<AbsOp>(user); // for its scale
         });
}

/// Whether it is a weight of bf16 in the step that products alone read.
static bool isOfProducts(ParameterOp parameter, ArrayRef<GetOp> gets) {
  auto type = cast<ShapedType>(parameter.getType());
  return parameter.getTrainable() && type.getRank() == 2 && !gets.empty() &&
         llvm::all_of(gets, [](GetOp get) {
           return elementType(get.getResult()).isBF16() &&
                  isReadByProducts(get.getResult());
         });
}

/// The units' products round what they read; what is small stays gathered.
void GatherCodesPass::setPolicies(ArrayRef<StringAttr> units) {
  ModuleOp module = getOperation();
  Builder b(&getContext());
  NamedAttrList all(module->getAttrOfType<DictionaryAttr>(kUnitPoliciesAttr));
  auto set = [&](StringAttr unit, StringRef key, Attribute value) {
    NamedAttrList own(dyn_cast_or_null<DictionaryAttr>(all.get(unit)));
    own.set(key, value);
    all.set(unit, own.getDictionary(&getContext()));
  };
  for (StringAttr unit : units)
    set(unit, kGatherDtypeKey, b.getStringAttr(spell(GatherDtype::Param)));
  StringAttr small = b.getStringAttr(fsdp::kSmallUnit);
  set(small, kGatherDtypeKey, b.getStringAttr(spell(GatherDtype::F8)));
  set(small, kReshardKey, b.getI64IntegerAttr(0));
  module->setAttr(kUnitPoliciesAttr, all.getDictionary(&getContext()));
}

void GatherCodesPass::runOnOperation() {
  llvm::DenseMap<StringAttr, SmallVector<GetOp>> gets;
  getOperation().walk([&](GetOp get) {
    gets[get.getParameterAttr().getAttr()].push_back(get);
  });
  struct Unit {
    SmallVector<ParameterOp> weights, others;
  };
  llvm::MapVector<StringAttr, Unit> units;
  for (auto parameter : getOperation().getOps<ParameterOp>()) {
    FlatSymbolRefAttr unit = unitOf(parameter);
    if (!unit || unit.getValue() == fsdp::kRootUnit ||
        unit.getValue() == fsdp::kIgnoredUnit)
      continue;
    Unit &its = units[unit.getAttr()];
    bool weight = isOfProducts(parameter, gets[parameter.getSymNameAttr()]);
    (weight ? its.weights : its.others).push_back(parameter);
  }
  GatherDtype asked =
      parseSpelling<GatherDtype>(dtype).value_or(GatherDtype::Param);
  SmallVector<StringAttr> inCodes;
  for (auto &[name, unit] : units) {
    bool small = llvm::all_of(unit.others, [](ParameterOp parameter) {
      return cast<ShapedType>(parameter.getType()).getRank() < 2;
    });
    if (unit.weights.empty() || !small ||
        unitChoice(getOperation(), name, kGatherDtypeKey, asked) !=
            GatherDtype::F8)
      continue;
    inCodes.push_back(name);
    for (ParameterOp weight : unit.weights)
      weight->setAttr(kInCodesAttr, UnitAttr::get(&getContext()));
    for (ParameterOp other : unit.others)
      setUnit(other, FlatSymbolRefAttr::get(&getContext(), fsdp::kSmallUnit));
  }
  if (!inCodes.empty())
    setPolicies(inCodes);
}
