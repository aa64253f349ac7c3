// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-store-codes: weights that are gathered as what products multiply are read
// in 8 bits, not cast to them. It stands behind nn-store-f8, whose casts of
// weights it takes away; of these a transposed copy is what may be left.

#include "Reshapes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_STORECODESPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// Whether casts alone read the value, all by one step of the update.
static bool isCastAlone(Value value, ArrayAttr &step) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    if (isa<ReshapeOp, TransposeOp, ConcatOp>(user))
      return isCastAlone(user->getResult(0), step);
    auto cast = dyn_cast<F8CastMatrixOp>(user);
    auto taken = cast ? weightStepOf(cast.getStep()) : nullptr;
    if (!taken || cast.getFormat() != F8Format::e4m3)
      return false;
    if (!step)
      step = taken.getParameters();
    return step == taken.getParameters();
  });
}

/// Makes the value and all views of it what its casts gave.
static void storeInCodes(Value value) {
  Type f8 = Float8E4M3FNType::get(value.getContext());
  value.setType(tensorType(value).clone(f8));
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    auto cast = dyn_cast<F8CastMatrixOp>(user);
    if (!cast) {
      // One that joins several is met with each.
      if (elementType(user->getResult(0)) != f8)
        storeInCodes(user->getResult(0));
      continue;
    }
    cast.getRows().replaceAllUsesWith(value);
    if (!cast.getColumns().use_empty()) {
      PlaceListener listener(placeOf(cast));
      OpBuilder builder(cast, &listener);
      auto columns = TransposeOp::create(builder, cast.getLoc(), value,
                                         ArrayRef<int64_t>({1, 0}));
      cast.getColumns().replaceAllUsesWith(columns.getResult());
    }
    cast.erase();
  }
}

namespace {

struct StoreCodesPass : nn::impl::StoreCodesPassBase<StoreCodesPass> {
  using StoreCodesPassBase::StoreCodesPassBase;
  void runOnOperation() override;
};

} // namespace

void StoreCodesPass::runOnOperation() {
  llvm::MapVector<Attribute, SmallVector<ParameterOp>> units;
  for (auto parameter : getOperation().getOps<ParameterOp>())
    if (parameter->hasAttr(kInCodesAttr))
      units[unitOf(parameter)].push_back(parameter);
  llvm::DenseMap<Attribute, SmallVector<GetOp>> gets;
  getOperation().walk([&](GetOp get) {
    gets[get.getParameterAttr().getAttr()].push_back(get);
  });
  for (auto &[unit, parameters] : units) {
    auto isCast = [&](ParameterOp parameter) {
      ArrayAttr step;
      return llvm::all_of(gets[parameter.getSymNameAttr()], [&](GetOp get) {
        return isCastAlone(get.getResult(), step);
      });
    };
    if (!llvm::all_of(parameters, isCast))
      continue;
    for (ParameterOp parameter : parameters)
      for (GetOp get : gets[parameter.getSymNameAttr()])
        storeInCodes(get.getResult());
  }
}
