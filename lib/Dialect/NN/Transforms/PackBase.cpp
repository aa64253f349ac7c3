// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-pack-base: what bitsandbytes does to the modules of a model that it
// loads, done to parameters and their readers. It stands behind
// nn-assign-dtypes, so that what is decoded has the type that its product
// reads.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/NN/IR/Adapters.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/PackedParameters.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_PACKBASEPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

namespace {

struct PackBasePass : nn::impl::PackBasePassBase<PackBasePass> {
  using PackBasePassBase::PackBasePassBase;

  void pack(ParameterOp parameter, ArrayRef<GetOp> gets);
  void decode(OpOperand &use, Value words, RankedTensorType type, bool linear);

  void runOnOperation() override {
    if (packing.empty())
      return;
    llvm::MapVector<StringAttr, SmallVector<GetOp>> readers;
    getOperation().walk([&](GetOp get) {
      readers[get.getParameterAttr().getAttr()].push_back(get);
    });
    for (auto &[name, gets] : readers) {
      auto parameter = getOperation().lookupSymbol<ParameterOp>(name);
      if (parameter->hasAttr(kBaseAttr) && !parameter.getTrainable())
        pack(parameter, gets);
    }
  }
};

} // namespace

/// Whether the products that multiply rows with the weight multiply with its
/// transpose, as an nn.Linear does; none where they are not of one kind.
static std::optional<bool> isLinear(ArrayRef<GetOp> gets) {
  std::optional<bool> linear;
  for (GetOp get : gets)
    for (OpOperand &use : get->getUses()) {
      auto product = dyn_cast<MatmulOp>(use.getOwner());
      if (!product || product.getRhs() != get.getResult())
        continue;
      if (linear.value_or(product.getTransposeRhs()) !=
          product.getTransposeRhs())
        return std::nullopt;
      linear = product.getTransposeRhs();
    }
  return linear;
}

/// Each reader decodes for itself, right before it reads.
void PackBasePass::decode(OpOperand &use, Value words, RankedTensorType type,
                          bool linear) {
  Operation *reader = use.getOwner();
  PlaceListener listener(placeOf(reader));
  OpBuilder builder(reader->getContext(), &listener);
  builder.setInsertionPoint(reader);
  Value decoded = UnpackOp::create(builder, reader->getLoc(), type, words,
                                   builder.getStringAttr(packing));
  auto product = dyn_cast<MatmulOp>(reader);
  if (!linear && product && &use == &product.getRhsMutable())
    product.setTransposeRhs(true);
  else if (!linear)
    decoded = NNBuilder(builder, reader->getLoc()).transpose(decoded, {1, 0});
  use.set(decoded);
}

void PackBasePass::pack(ParameterOp parameter, ArrayRef<GetOp> gets) {
  std::optional<bool> linear = isLinear(gets);
  if (!linear)
    return;
  StringAttr word = StringAttr::get(&getContext(), packing);
  parameter->setAttr(kPackingAttr, word);
  if (!*linear)
    parameter->setAttr(kPackedTransposedAttr, UnitAttr::get(&getContext()));
  for (GetOp get : gets) {
    OpBuilder builder(get);
    Type element = elementType(get.getResult());
    auto words =
        GetOp::create(builder, get.getLoc(), typeIn(parameter, element),
                      get.getParameterAttr());
    words.setPlaceAttr(get.getPlaceAttr());
    for (OpOperand &use : llvm::make_early_inc_range(get->getUses()))
      decode(use, words, packedShape(parameter).clone(element), *linear);
    get.erase();
  }
}
