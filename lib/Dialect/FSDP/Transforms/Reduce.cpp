// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reduces each unit's gradients after the last of them.

#include "Step.h"
#include "shardonnx/Dialect/FSDP/IR/FSDP.h"
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

namespace shardonnx::fsdp {
#define GEN_PASS_DEF_REDUCEPASS
#include "shardonnx/Dialect/FSDP/Transforms/Passes.h.inc"
} // namespace shardonnx::fsdp

namespace {

// The gradients of a unit in the order of its intervals, in reduce_dtype.
SmallVector<Value>
collectGradients(UnitOp unit,
                 const llvm::DenseMap<StringAttr, nn::GradOp> &grads) {
  SmallVector<Value> gradients;
  for (auto interval : unit.getIntervals().getAsRange<IntervalAttr>()) {
    nn::GradOp grad = grads.lookup(interval.getParameter().getAttr());
    Value value = grad.getValue();
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getElementType() != unit.getReduceDtype()) {
      OpBuilder builder(grad);
      builder.setInsertionPointAfterValue(value);
      value = nn::CastOp::create(builder, grad.getLoc(),
                                 type.clone(unit.getReduceDtype()), value);
      nn::inheritPlace(value.getDefiningOp(), grad);
      nn::setUnit(value.getDefiningOp(),
                  FlatSymbolRefAttr::get(unit.getSymNameAttr()));
    }
    gradients.push_back(value);
  }
  return gradients;
}

// After the op that makes the last gradient; arguments are there from the
// start.
void setInsertionPointAfterAll(OpBuilder &builder, ArrayRef<Value> values,
                               Block *body) {
  Operation *last = nullptr;
  for (Value value : values)
    if (Operation *def = value.getDefiningOp())
      if (!last || last->isBeforeInBlock(def))
        last = def;
  if (last)
    builder.setInsertionPointAfter(last);
  else
    builder.setInsertionPointToStart(body);
}

void reduce(UnitOp unit, Block *body,
            const llvm::DenseMap<StringAttr, nn::GradOp> &grads) {
  SmallVector<Value> gradients = collectGradients(unit, grads);
  SmallVector<Attribute> names;
  for (auto interval : unit.getIntervals().getAsRange<IntervalAttr>())
    names.push_back(interval.getParameter());
  OpBuilder builder(unit.getContext());
  setInsertionPointAfterAll(builder, gradients, body);
  StringRef name = unit.getSymName();
  ArrayAttr parameters = builder.getArrayAttr(names);
  if (unit.getLayout() == Layout::sharded)
    ReduceScatterOp::create(builder, unit.getLoc(), name, parameters, gradients,
                            /*accumulate=*/false,
                            /*accumulate_unsharded=*/false);
  else
    AllReduceOp::create(builder, unit.getLoc(), name, parameters, gradients,
                        /*accumulate=*/false, /*accumulate_unsharded=*/false);
}

struct ReducePass : public fsdp::impl::ReducePassBase<ReducePass> {
  void runOnOperation() override {
    for (func::FuncOp function : stepFunctions(getOperation()))
      if (failed(runOn(function)))
        return signalPassFailure();
  }

  LogicalResult runOn(func::FuncOp function) {
    Block &body = function.getBody().front();
    llvm::DenseMap<StringAttr, nn::GradOp> grads;
    for (auto grad : body.getOps<nn::GradOp>())
      if (!grads.insert({grad.getParameterAttr().getAttr(), grad}).second)
        return grad.emitOpError()
               << "is the second gradient of " << grad.getParameterAttr();
    if (grads.empty())
      return success();
    for (auto unit : getOperation().getOps<UnitOp>()) {
      if (unit.getIntervals().empty())
        continue;
      for (auto interval : unit.getIntervals().getAsRange<IntervalAttr>())
        if (!grads.contains(interval.getParameter().getAttr()))
          return unit.emitOpError() << "trains " << interval.getParameter()
                                    << ", which gets no gradient";
      reduce(unit, &body, grads);
    }
    for (auto [name, grad] : grads)
      grad.erase();
    return success();
  }
};

} // namespace
