// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-remove-empty: kernels and calls need not know of tensors without elements,
// which graphs that are only run may have.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNConvolution.h"
#include "shardonnx/Differentiate/Passes.h"

namespace shardonnx {
#define GEN_PASS_DEF_REMOVEEMPTYPASS
#include "shardonnx/Differentiate/Passes.h.inc"
} // namespace shardonnx

using namespace mlir;
using namespace shardonnx;

static bool isEmpty(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() && type.getNumElements() == 0;
}

/// Zeros, or nothing.
static Value filler(OpBuilder &builder, Location loc, RankedTensorType type) {
  nn::NNBuilder b(builder, loc);
  if (type.getNumElements() == 0)
    return nn::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(type, ArrayRef<Attribute>()));
  return b.broadcast(b.constant(0, type.getElementType()), type.getShape());
}

/// Is what the op makes of nothing a sum?
static bool sumsUp(Operation *op) {
  return isa<nn::ReduceSumOp, nn::MatmulOp, nn::PadOp, nn::EmbeddingGradOp,
             nn::DepthwiseConvOp, nn::DepthwiseConvKernelGradOp>(op);
}

static void shorten(nn::ConcatOp op) {
  SmallVector<Value> parts;
  for (Value input : op.getInputs())
    if (!isEmpty(input))
      parts.push_back(input);
  Value whole = parts.front();
  if (parts.size() > 1) {
    OpBuilder builder(op);
    whole = nn::ConcatOp::create(builder, op.getLoc(), parts, op.getAxis());
  }
  op.replaceAllUsesWith(whole);
  op.erase();
}

static LogicalResult removeEmpty(Operation *op) {
  if (isa<nn::ConstantOp>(op) || op->hasTrait<OpTrait::IsTerminator>() ||
      llvm::none_of(llvm::concat<Value>(llvm::to_vector(op->getOperands()),
                                        llvm::to_vector(op->getResults())),
                    isEmpty))
    return success();
  if (auto concat = dyn_cast<nn::ConcatOp>(op); concat && !isEmpty(concat)) {
    shorten(concat);
    return success();
  }
  if (!llvm::all_of(op->getResults(), isEmpty) && !sumsUp(op))
    return op->emitError("'") << op->getName()
                              << "' reads a tensor of no elements, of which "
                                 "it makes some";
  OpBuilder builder(op);
  for (Value result : op->getResults())
    result.replaceAllUsesWith(
        filler(builder, op->getLoc(), nn::tensorType(result)));
  op->erase();
  return success();
}

namespace {
struct RemoveEmptyPass : shardonnx::impl::RemoveEmptyPassBase<RemoveEmptyPass> {
  void runOnOperation() override {
    for (Operation &op : llvm::make_early_inc_range(getOperation().front()))
      if (failed(removeEmpty(&op)))
        return signalPassFailure();
    nn::markBackward(getOperation().front());
  }
};
} // namespace
