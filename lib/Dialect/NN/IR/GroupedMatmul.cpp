// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// grouped_matmul and its gradient: shape rule, verifier, FLOPs.

#include "DefineOps.h"
#include "Evaluate.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

NN_INFER(GroupedMatmulOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  auto rows = tensorType(operands[0]), matrices = tensorType(operands[1]);
  bool transposed = adaptor.getTransposed();
  if (rows.getRank() != 2 || matrices.getRank() != 3 ||
      rows.getDimSize(1) != matrices.getDimSize(transposed ? 2 : 1) ||
      rows.getElementType() != matrices.getElementType() ||
      shapeOf(operands[2]) != ArrayRef<int64_t>(rows.getDimSize(0)))
    return misfit(loc, "rows ", rows, " do not fit matrices ", matrices,
                  " and indices ", operands[2].getType());
  inferred.push_back(rows.clone(
      {rows.getDimSize(0), matrices.getDimSize(transposed ? 1 : 2)}));
  return success();
}

static int64_t productFlops(Value rows, Value result) {
  return 2 * tensorType(rows).getNumElements() * shapeOf(result).back();
}

int64_t GroupedMatmulOp::getFlops() {
  return productFlops(getRows(), getResult());
}

// y = x·W: dx = dy·Wᵀ, and dW is the sum of x ⊗ dy over its rows.
NN_VJP(GroupedMatmulOp) {
  NNBuilder b(builder, getLoc());
  Value gradient = b.cast(resultGrads[0], elementType(getRows()));
  if (needed[0])
    operandGrads[0] =
        GroupedMatmulOp::create(builder, getLoc(), gradient, getMatrices(),
                                getIndices(), !getTransposed());
  if (needed[1]) {
    Value left = getRows(), right = gradient;
    if (getTransposed())
      std::swap(left, right);
    auto type =
        tensorType(getMatrices()).clone(gradientElementType(getMatrices()));
    operandGrads[1] = GroupedMatmulGradOp::create(builder, getLoc(), type, left,
                                                  right, getIndices());
  }
  return success();
}

LogicalResult GroupedMatmulGradOp::verify() {
  ArrayRef<int64_t> left = shapeOf(getLhs()), right = shapeOf(getRhs()),
                    sum = shapeOf(getResult());
  if (left.size() != 2 || right.size() != 2 || sum.size() != 3 ||
      left[0] != right[0] || left[1] != sum[1] || right[1] != sum[2] ||
      shapeOf(getIndices()) != left.take_front() ||
      elementType(getLhs()) != elementType(getRhs()))
    return emitOpError("cannot add products of ")
           << getLhs().getType() << " and " << getRhs().getType() << " at "
           << getIndices().getType() << " to " << getResult().getType();
  return success();
}

int64_t GroupedMatmulGradOp::getFlops() {
  return 2 * tensorType(getLhs()).getNumElements() * shapeOf(getRhs()).back();
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

/// Whether every index names one of the groups.
static bool areGroups(ArrayRef<Scalar> indices, int64_t groups) {
  return llvm::all_of(indices,
                      [&](Scalar x) { return x.i >= 0 && x.i < groups; });
}

NN_EVALUATE(GroupedMatmulOp) {
  ArrayRef<int64_t> factors = shapeOf(getRows()),
                    sumShape = shapeOf(getResult());
  if (!interpreter.allowsSteps(*this, {factors[0], factors[1], sumShape[1]}))
    return failure();
  Elements rows(interpreter.get(getRows())),
      matrices(interpreter.get(getMatrices())), sums(sumShape, ofFloat(0));
  std::vector<Scalar> groups = interpreter.get(getIndices()).flatten();
  if (!areGroups(groups, matrices.shape[0]))
    return interpreter.refuse(*this, "an index is outside of its axis");
  forEachIndex(sums.shape, [&](ArrayRef<int64_t> at) {
    for (int64_t k = 0; k < rows.shape[1]; ++k) {
      SmallVector<int64_t> factor = {groups[at[0]].i, k, at[1]};
      if (getTransposed())
        std::swap(factor[1], factor[2]);
      sums.at(at).f += rows.at({at[0], k}).f * matrices.at(factor).f;
    }
  });
  return interpreter.set(getResult(), std::move(sums.values));
}

NN_EVALUATE(GroupedMatmulGradOp) {
  SmallVector<int64_t> steps = {shapeOf(getLhs())[0], shapeOf(getLhs())[1],
                                shapeOf(getRhs())[1]};
  if (!interpreter.allowsSteps(*this, steps))
    return failure();
  Elements lhs(interpreter.get(getLhs())), rhs(interpreter.get(getRhs())),
      sums(shapeOf(getResult()), ofFloat(0));
  std::vector<Scalar> groups = interpreter.get(getIndices()).flatten();
  if (!areGroups(groups, sums.shape[0]))
    return interpreter.refuse(*this, "an index is outside of its axis");
  forEachIndex(steps, [&](ArrayRef<int64_t> at) {
    sums.at({groups[at[0]].i, at[1], at[2]}).f +=
        lhs.at({at[0], at[1]}).f * rhs.at({at[0], at[2]}).f;
  });
  return interpreter.set(getResult(), std::move(sums.values));
}
