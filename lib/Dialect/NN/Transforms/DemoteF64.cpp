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

/// A number that f32 does not hold, but for the largest f64, which masks have
/// for minus infinity.
bool isLarge(const APFloat &value) {
  const llvm::fltSemantics &f32 = APFloat::IEEEsingle();
  APFloat narrow = value;
  bool inexact;
  narrow.convert(f32, APFloat::rmNearestTiesToEven, &inexact);
  return value.isFinite() && !narrow.isFinite() && !value.isLargest();
}

/// The nearest f32 that is not zero, one or infinite where the number is not:
/// 1 - 1e-12 bounds a probability, the smallest f64 what a logarithm reads, the
/// largest what is compared with it.
APFloat nearestF32(const APFloat &value) {
  const llvm::fltSemantics &f32 = APFloat::IEEEsingle();
  APFloat narrow = value;
  bool inexact;
  narrow.convert(f32, APFloat::rmNearestTiesToEven, &inexact);
  if (!inexact || !value.isFinite())
    return narrow;
  if (!narrow.isFinite())
    return APFloat::getLargest(f32, value.isNegative());
  if (narrow.isZero() || narrow.isDenormal())
    return APFloat::getSmallestNormalized(f32, value.isNegative());
  APFloat one(f32, 1);
  if (value.isNegative())
    one.changeSign();
  if (narrow.bitwiseIsEqual(one)) {
    APFloat back = narrow;
    back.convert(value.getSemantics(), APFloat::rmNearestTiesToEven, &inexact);
    narrow.next(/*nextDown=*/value < back);
  }
  return narrow;
}

/// Ops for which a number above all of f32 is a bound, or that hand it on.
bool takesBounds(Operation *op) {
  return isa<nn::CompareOp, nn::MaxOp, nn::MinOp, nn::SelectOp, nn::BroadcastOp,
             nn::ReshapeOp>(op);
}

bool hasLarge(nn::ConstantOp op) {
  auto elements = dyn_cast<DenseElementsAttr>(op.getValue());
  return elements && elements.getElementType().isF64() &&
         llvm::any_of(elements.getValues<APFloat>(), isLarge);
}

struct DemoteF64Pass : nn::impl::DemoteF64PassBase<DemoteF64Pass> {
  void runOnOperation() override {
    if (failed(checkNumbers()))
      return signalPassFailure();
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
  /// As a factor it would be another number.
  LogicalResult checkNumbers() {
    auto checked = getOperation().walk([](nn::ConstantOp op) {
      if (!hasLarge(op))
        return WalkResult::advance();
      for (Operation *user : op->getUsers())
        if (!takesBounds(user)) {
          user->emitError("computes with a float64 number that float32 does "
                          "not hold; let the module use float32");
          return WalkResult::interrupt();
        }
      return WalkResult::advance();
    });
    return failure(checked.wasInterrupted());
  }

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

  static bool ofIntegers(Operation *op) {
    auto cast = dyn_cast<nn::CastOp>(op);
    return cast && nn::elementType(cast.getOperand()).isInteger();
  }

  void warn() const {
    if (computed.empty())
      return;
    InFlightDiagnostic warning = emitWarning(computed.front()->getLoc());
    warning << "is float64 in the graph and computed in float32";
    if (computed.size() > 1)
      warning << ", as " << computed.size() - 1 << " more are";
    if (llvm::any_of(computed, ofIntegers))
      warning << "; integers beyond 16777216 are rounded";
  }

  llvm::SmallVector<nn::CastOp> widening; // of f32, to what is f32 now
  llvm::SmallVector<Operation *> computed;
};

} // namespace
