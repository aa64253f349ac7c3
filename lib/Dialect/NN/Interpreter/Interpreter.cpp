// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The walk over a block, and what the evaluations of ops share.

#include "shardonnx/Dialect/NN/Interpreter/Interpreter.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "shardonnx/Dialect/NN/Interpreter/InterpretableOpInterface.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

#include "shardonnx/Dialect/NN/Interpreter/InterpretableOpInterface.cpp.inc"

namespace shardonnx::nn {

static constexpr llvm::StringLiteral kTooLarge =
    "it is too large to be computed";

Interpreter::Results Interpreter::run(Region &region,
                                      ArrayRef<HostTensor> arguments) {
  if (!region.hasOneBlock() || region.getNumArguments() != arguments.size())
    return refuse(region.getParentOp(),
                  "it is not one block of as many arguments as are given");
  values.clear();
  gradients.clear();
  loss = 0;
  Block &block = region.front();
  for (auto [argument, tensor] : llvm::zip(block.getArguments(), arguments))
    (void)set(argument, tensor);
  if (failed(runBlock(block)))
    return failure();
  SmallVector<HostTensor> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back(get(value));
  return results;
}

Interpreter::Results Interpreter::run(Operation *op,
                                      ArrayRef<HostTensor> operands) {
  auto interpretable = dyn_cast<InterpretableOpInterface>(op);
  if (!interpretable)
    return refuse(op, "it has no reference");
  values.clear();
  for (auto [operand, tensor] : llvm::zip_equal(op->getOperands(), operands))
    (void)set(operand, tensor);
  if (failed(interpretable.evaluate(*this)))
    return failure();
  SmallVector<HostTensor> results;
  for (Value result : op->getResults())
    results.push_back(get(result));
  return results;
}

LogicalResult Interpreter::runBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    auto interpretable = dyn_cast<InterpretableOpInterface>(&op);
    if (!interpretable)
      return refuse(&op, "it has no reference");
    if (failed(interpretable.evaluate(*this)))
      return failure();
  }
  return success();
}

LogicalResult Interpreter::set(Value result, HostTensor tensor) {
  values[result] = std::move(tensor);
  return success();
}

LogicalResult Interpreter::set(Value result, std::vector<Scalar> elements) {
  auto type = cast<RankedTensorType>(result.getType());
  Arithmetic element = arithmetic(result);
  if (int64_t(elements.size()) != type.getNumElements())
    return refuse(result.getDefiningOp(),
                  "it gives another number of elements");
  if (element.isFloat())
    for (Scalar &x : elements)
      x.f = element.round(x.f);
  return set(result, HostTensor::dense(type.getShape(), type.getElementType(),
                                       std::move(elements)));
}

LogicalResult
Interpreter::map(Operation *op,
                 llvm::function_ref<Scalar(ArrayRef<Scalar>)> function) {
  SmallVector<HostTensor> operands;
  for (Value operand : op->getOperands())
    operands.push_back(get(operand));
  Value result = op->getResult(0);
  Type element = cast<RankedTensorType>(result.getType()).getElementType();
  std::optional<HostTensor> tensor =
      HostTensor::map(operands, element, function);
  if (!tensor)
    return refuse(op, kTooLarge);
  return set(result, std::move(*tensor));
}

Arithmetic Interpreter::arithmetic(Value value) const {
  return arithmetic(cast<RankedTensorType>(value.getType()).getElementType());
}

/// Whether the product of `factors` is at most `most`.
static bool isWithin(ArrayRef<int64_t> factors, int64_t most) {
  int64_t product = 1;
  if (llvm::is_contained(factors, 0))
    return true;
  for (int64_t factor : factors)
    if (llvm::MulOverflow(product, factor, product) || product > most)
      return false;
  return true;
}

bool Interpreter::allowsElements(Operation *op, ArrayRef<int64_t> shape) {
  if (isWithin(shape, options.maxElements))
    return true;
  (void)refuse(op, kTooLarge);
  return false;
}

bool Interpreter::allows(Operation *op) {
  return llvm::all_of(op->getOperands(),
                      [&](Value operand) {
                        return allowsElements(op, get(operand).getShape());
                      }) &&
         llvm::all_of(op->getResultTypes(), [&](Type result) {
           return allowsElements(op, cast<RankedTensorType>(result).getShape());
         });
}

bool Interpreter::allowsSteps(Operation *op, ArrayRef<int64_t> steps) {
  if (isWithin(steps, options.maxSteps))
    return allows(op);
  (void)refuse(op, kTooLarge);
  return false;
}

bool Interpreter::allowsReshape(Operation *op, const HostTensor &tensor,
                                ArrayRef<int64_t> shape) {
  if (tensor.reshapeCost(shape) / int64_t(sizeof(Scalar)) <=
      options.maxElements)
    return true;
  (void)refuse(op, kTooLarge);
  return false;
}

LogicalResult Interpreter::refuse(Operation *op, const llvm::Twine &why) {
  reason = (op->getName().getStringRef() + ": " + why).str();
  return failure();
}

} // namespace shardonnx::nn
