// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-assign-dtypes: mixed precision on the forward graph. One sweep in order:
// what an op's operands are decides what it computes in.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_ASSIGNDTYPESPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

static bool isLow(Value value, Type low) { return elementType(value) == low; }

static bool isF32(Value value) { return elementType(value).isF32(); }

/// A copy of `value` in another element type, right before `user`.
static Value castBefore(Operation *user, Value value, Type type) {
  OpBuilder builder(user);
  Value result = NNBuilder(builder, user->getLoc()).cast(value, type);
  if (Attribute unit = user->getAttr(kUnitAttr); unit && result != value)
    result.getDefiningOp()->setAttr(kUnitAttr, unit);
  return result;
}

/// Sets the operands that are `from` to casts of them to `to`.
static void castOperands(Operation *op, Type from, Type to) {
  for (OpOperand &operand : op->getOpOperands())
    if (elementType(operand.get()) == from)
      operand.set(castBefore(op, operand.get(), to));
}

static void setElementType(Value value, Type type) {
  value.setType(tensorType(value).clone(type));
}

/// Operands that a library call or a norm reads in the low type; the others
/// (tables, masks, statistics) stay.
static unsigned numLowOperands(Operation *op) {
  if (isa<MatmulOp, LayerNormOp, RmsNormOp, LinearCrossEntropyOp>(op))
    return op->getNumOperands();
  if (isa<AttentionOp>(op))
    return 3;
  return 1;
}

/// An op whose first result follows its first operands' type, and whose other
/// results are f32 always.
static bool isNamedOp(Operation *op) {
  return isa<MatmulOp, LayerNormOp, RmsNormOp, SoftmaxOp, LogSoftmaxOp,
             AttentionOp, RotaryOp, EmbeddingOp, LinearCrossEntropyOp>(op);
}

/// Losses compute in f32 from any type.
static bool isLoss(Operation *op) {
  return isa<CrossEntropyOp, LinearCrossEntropyOp, MseOp, LossOp>(op);
}

static void assignNamed(Operation *op, Type low) {
  for (OpOperand &operand : op->getOpOperands().take_front(numLowOperands(op)))
    if (isF32(operand.get()))
      operand.set(castBefore(op, operand.get(), low));
  if (!isLoss(op))
    setElementType(op->getResult(0), low);
}

/// An elementwise op of a low and an f32 operand computes in f32 and is
/// rounded, as PyTorch does with a scalar; one of low operands alone is low.
static void assignElementwise(Operation *op, Type low) {
  Value result = op->getResult(0);
  bool mixed = llvm::any_of(op->getOperands(), isF32);
  if (!mixed) {
    if (isF32(result))
      setElementType(result, low);
    return;
  }
  castOperands(op, low, Float32Type::get(op->getContext()));
  if (!isF32(result))
    return;
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  auto rounded = CastOp::create(builder, op->getLoc(),
                                tensorType(result).clone(low), result);
  if (Attribute unit = op->getAttr(kUnitAttr))
    rounded->setAttr(kUnitAttr, unit);
  result.replaceAllUsesExcept(rounded, rounded);
}

/// Moves and reductions: the operands' type. Joined tensors must agree.
static void assignShapeOp(Operation *op, Type low) {
  castOperands(op, Float32Type::get(op->getContext()), low);
  for (Value result : op->getResults())
    if (isF32(result))
      setElementType(result, low);
}

static void assignOp(Operation *op, Type low) {
  if (auto get = dyn_cast<GetOp>(op)) {
    if (isF32(get.getResult()))
      setElementType(get.getResult(), low);
    return;
  }
  bool touched = llvm::any_of(op->getOperands(),
                              [&](Value value) { return isLow(value, low); });
  if (!touched || isa<CastOp>(op))
    return;
  if (isNamedOp(op))
    assignNamed(op, low);
  else if (isLoss(op))
    return;
  else if (isa<ElementwiseOpInterface>(op))
    assignElementwise(op, low);
  else
    assignShapeOp(op, low);
}

/// Float arguments enter in the low type (MixedPrecisionPolicy's
/// cast_forward_inputs). What a loss is compared with is no input of a module.
static void castInputs(func::FuncOp function, Type low) {
  OpBuilder builder(function.getBody());
  for (BlockArgument argument : function.getArguments()) {
    auto kind = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                      kKindAttr);
    if (!isF32(argument) || argument.use_empty() ||
        (kind && kind.getValue() == "labels"))
      continue;
    auto cast = CastOp::create(builder, argument.getLoc(),
                               tensorType(argument).clone(low), argument);
    argument.replaceAllUsesExcept(cast, cast);
  }
}

/// Casts the float outputs that are left, and corrects the function's type.
static void castOutputs(func::FuncOp function, Type output) {
  Operation *terminator = function.getBody().front().getTerminator();
  if (output)
    for (OpOperand &operand : terminator->getOpOperands())
      if (isa<FloatType>(elementType(operand.get())))
        operand.set(castBefore(terminator, operand.get(), output));
  function.setFunctionType(
      FunctionType::get(function.getContext(), function.getArgumentTypes(),
                        TypeRange(terminator->getOperandTypes())));
}

namespace {
struct AssignDtypesPass : nn::impl::AssignDtypesPassBase<AssignDtypesPass> {
  using AssignDtypesPassBase::AssignDtypesPassBase;

  FailureOr<Type> parse(StringRef option, StringRef name) {
    MLIRContext *context = &getContext();
    Type type = llvm::StringSwitch<Type>(name)
                    .Case("f32", Float32Type::get(context))
                    .Case("bf16", BFloat16Type::get(context))
                    .Case("f16", Float16Type::get(context))
                    .Default(nullptr);
    if (type)
      return type;
    return getOperation().emitError("--")
           << option << '=' << name << " is unknown; it is f32, bf16 or f16";
  }

  void runOnOperation() override {
    FailureOr<Type> param = parse("param-dtype", paramDtype);
    FailureOr<Type> reduce = parse("reduce-dtype", reduceDtype);
    FailureOr<Type> output = outputDtype.empty()
                                 ? FailureOr<Type>(Type())
                                 : parse("output-dtype", outputDtype);
    if (failed(param) || failed(reduce) || failed(output))
      return signalPassFailure();
    getOperation()->setAttr(kReduceDtypeAttr, TypeAttr::get(*reduce));
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      Block &block = function.getBody().front();
      if (!param->isF32()) {
        castInputs(function, *param);
        for (Operation &op : llvm::make_early_inc_range(block))
          assignOp(&op, *param);
      }
      castOutputs(function, *output);
    }
  }
};
} // namespace
