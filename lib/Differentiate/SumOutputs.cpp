// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-sum-outputs: gives a graph that is only run the loss and the parameters
// that nn-differentiate asks for, so that its gradients come from the passes
// that training uses.

#include "Activity.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Differentiate/Passes.h"

namespace shardonnx {
#define GEN_PASS_DEF_SUMOUTPUTSPASS
#include "shardonnx/Differentiate/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;

/// The argument is read as a parameter; the name is what messages call it.
static void trainArgument(func::FuncOp forward, unsigned index,
                          SymbolTable &symbols) {
  BlockArgument argument = forward.getArgument(index);
  auto type = cast<RankedTensorType>(argument.getType());
  auto name = forward.getArgAttrOfType<StringAttr>(index, nn::kNameAttr);
  OpBuilder builder(forward);
  if (!name)
    name = builder.getStringAttr("argument" + Twine(index));
  auto parameter = nn::ParameterOp::create(
      builder, forward.getLoc(), name,
      TypeAttr::get(type.clone(builder.getF32Type())), builder.getUnitAttr(),
      name, nn::ExternalAttr(), ArrayAttr(), FloatAttr(),
      builder.getI64IntegerAttr(index));
  symbols.insert(parameter);
  builder.setInsertionPointToStart(&forward.front());
  auto get = nn::GetOp::create(builder, argument.getLoc(), type,
                               FlatSymbolRefAttr::get(parameter));
  argument.replaceAllUsesWith(get.getResult());
}

/// The sum over all float results; null without one.
static Value sumResults(func::FuncOp forward, OpBuilder &builder) {
  nn::NNBuilder b(builder, forward.getLoc());
  Value total;
  for (auto [index, value] :
       llvm::enumerate(forward.front().getTerminator()->getOperands())) {
    if (!isa<FloatType>(nn::elementType(value)) ||
        forward.getResultAttr(index, nn::kValueAttr))
      continue;
    auto axes = llvm::to_vector(
        llvm::seq<int64_t>(0, int64_t(nn::shapeOf(value).size())));
    Value sum = b.f32(value);
    if (!axes.empty())
      sum = b.sum(sum, axes, /*keepdims=*/false);
    total = total ? b.add(total, sum) : sum;
  }
  return total;
}

namespace {
struct SumOutputsPass : shardonnx::impl::SumOutputsPassBase<SumOutputsPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    auto forward = symbols.lookup<func::FuncOp>("forward");
    if (!forward) {
      getOperation().emitError("there is no @forward to sum the outputs of");
      return signalPassFailure();
    }
    for (BlockArgument argument : forward.getArguments())
      if (isa<FloatType>(nn::elementType(argument)))
        trainArgument(forward, argument.getArgNumber(), symbols);
    OpBuilder builder(forward.front().getTerminator());
    for (auto parameter : getOperation().getOps<nn::ParameterOp>())
      if (parameter.getTrainable())
        parameter.setWanted(true);
    Value total = sumResults(forward, builder);
    if (!total)
      return;
    total = nn::NNBuilder(builder, forward.getLoc())
                .cast(total, builder.getF32Type());
    auto loss = nn::LossOp::create(
        builder, forward.getLoc(), total, builder.getStringAttr("batches"),
        builder.getI64IntegerAttr(-1), builder.getI64IntegerAttr(0),
        builder.getI64IntegerAttr(1));
    Activity activity(loss, symbols);
    if (!activity.isActive(total))
      loss.erase();
  }
};
} // namespace
