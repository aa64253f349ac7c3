// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-demote-f64: no program computes in f64. What the graph computes from data
// in it is computed in f32, and the user is told.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "llvm/ADT/APFloat.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_DEMOTEF64PASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;

namespace {

bool isF64(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped && shaped.getElementType().isF64();
}

Type demoted(Type type) {
  return cast<ShapedType>(type).clone(Float32Type::get(type.getContext()));
}

/// The nearest f32. What is finite stays so: the largest f64 stands for "larger
/// than every number", which the largest f32 says of f32.
APFloat nearestF32(APFloat value) {
  bool isFinite = value.isFinite(), isNegative = value.isNegative(), inexact;
  value.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &inexact);
  if (isFinite && !value.isFinite())
    return APFloat::getLargest(APFloat::IEEEsingle(), isNegative);
  return value;
}

struct DemoteF64Pass : nn::impl::DemoteF64PassBase<DemoteF64Pass> {
  void runOnOperation() override {
    getOperation().walk([&](Operation *op) { visit(op); });
    for (auto function : getOperation().getOps<func::FuncOp>())
      retype(function);
    for (nn::CastOp cast : widening) {
      cast.getResult().replaceAllUsesWith(cast.getOperand());
      cast.erase();
    }
    warn();
  }

private:
  void visit(Operation *op) {
    if (auto constant = dyn_cast<nn::ConstantOp>(op))
      return round(constant);
    if (llvm::none_of(op->getResultTypes(), isF64))
      return;
    for (Value result : op->getResults())
      if (isF64(result.getType()))
        result.setType(demoted(result.getType()));
    auto cast = dyn_cast<nn::CastOp>(op);
    if (cast && nn::elementType(cast.getOperand()).isF32())
      widening.push_back(cast);
    else
      computed.push_back(op);
  }

  static void round(nn::ConstantOp op) {
    auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
    if (!elements || !elements.getElementType().isF64())
      return;
    auto rounded = elements.mapValues(
        Float32Type::get(op.getContext()), [](const APFloat &value) {
          return nearestF32(value).bitcastToAPInt();
        });
    op.setValueAttr(rounded);
    op.getResult().setType(cast<RankedTensorType>(rounded.getType()));
  }

  static void retype(func::FuncOp function) {
    if (function.isExternal())
      return;
    Block &body = function.getBody().front();
    for (BlockArgument argument : body.getArguments())
      if (isF64(argument.getType()))
        argument.setType(demoted(argument.getType()));
    function.setType(
        FunctionType::get(function.getContext(), body.getArgumentTypes(),
                          body.getTerminator()->getOperandTypes()));
  }

  void warn() const {
    if (computed.empty())
      return;
    InFlightDiagnostic warning = emitWarning(computed.front()->getLoc());
    warning << "is float64 in the graph and computed in float32";
    if (computed.size() > 1)
      warning << ", as " << computed.size() - 1 << " more are";
  }

  llvm::SmallVector<nn::CastOp> widening; // of f32, to what is f32 now
  llvm::SmallVector<Operation *> computed;
};

} // namespace
