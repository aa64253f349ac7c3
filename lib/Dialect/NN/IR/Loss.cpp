// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Losses: shape rules, gradients, FLOPs.

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

#define NN_INFER(OP)                                                           \
  LogicalResult OP::inferReturnTypes(                                          \
      MLIRContext *context, std::optional<Location> loc, ValueRange operands,  \
      DictionaryAttr attributes, OpaqueProperties properties,                  \
      RegionRange regions, SmallVectorImpl<Type> &inferred)
#define NN_VJP(OP)                                                             \
  LogicalResult OP::buildVjp(OpBuilder &builder, ValueRange resultGrads,       \
                             const llvm::SmallBitVector &needed,               \
                             MutableArrayRef<Value> operandGrads)

static Type scalarF32(MLIRContext *context) {
  return RankedTensorType::get({}, Float32Type::get(context));
}

static LogicalResult checkLabels(std::optional<Location> loc, Value rows,
                                 Value labels) {
  auto type = tensorType(rows);
  if (type.getRank() == 2 &&
      shapeOf(labels) == ArrayRef<int64_t>(type.getDimSize(0)))
    return success();
  return emitOptionalError(loc, "needs rows [n, width] and labels [n], not ",
                           type, " and ", labels.getType());
}

//===----------------------------------------------------------------------===//
// cross_entropy
//===----------------------------------------------------------------------===//

NN_INFER(CrossEntropyOp) {
  if (failed(checkLabels(loc, operands[0], operands[1])))
    return failure();
  inferred.push_back(scalarF32(context));
  return success();
}

NN_INFER(CrossEntropyGradOp) {
  if (failed(checkLabels(loc, operands[0], operands[1])))
    return failure();
  inferred.append({scalarF32(context), operands[0].getType()});
  return success();
}

NN_VJP(CrossEntropyOp) {
  if (!needed[0])
    return success();
  operandGrads[0] =
      CrossEntropyGradOp::create(builder, getLoc(), getLogits(), getLabels(),
                                 resultGrads[0], getIgnoreIndexAttr())
          .getLogitsGrad();
  return success();
}

//===----------------------------------------------------------------------===//
// linear_cross_entropy
//===----------------------------------------------------------------------===//

/// operand [rows, width], weight [width, vocab] or its transpose.
static LogicalResult checkLinear(std::optional<Location> loc, Value operand,
                                 Value weight, Value labels, bool transpose) {
  if (failed(checkLabels(loc, operand, labels)))
    return failure();
  auto type = tensorType(weight);
  if (type.getRank() == 2 &&
      type.getDimSize(transpose ? 1 : 0) == shapeOf(operand)[1] &&
      type.getElementType() == elementType(operand))
    return success();
  return emitOptionalError(loc, "operand and weight do not fit each other: ",
                           operand.getType(), " and ", type);
}

NN_INFER(LinearCrossEntropyOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  if (failed(checkLinear(loc, operands[0], operands[1], operands[2],
                         adaptor.getTransposeWeight())))
    return failure();
  inferred.push_back(scalarF32(context));
  return success();
}

// The gradient op computes the sum too: the differentiator lets it stand for
// this one.
NN_VJP(LinearCrossEntropyOp) {
  Type weightGrad =
      tensorType(getWeight()).clone(gradientElementType(getWeight()));
  auto grad = LinearCrossEntropyGradOp::create(
      builder, getLoc(),
      TypeRange{getType(), getOperand().getType(), weightGrad}, getOperand(),
      getWeight(), getLabels(), resultGrads[0], getTransposeWeightAttr(),
      getIgnoreIndexAttr());
  if (needed[0])
    operandGrads[0] = grad.getOperandGrad();
  if (needed[1])
    operandGrads[1] = grad.getWeightGrad();
  return success();
}

int64_t LinearCrossEntropyOp::getFlops() {
  return 2 * shapeOf(getOperand())[0] *
         tensorType(getWeight()).getNumElements();
}

LogicalResult LinearCrossEntropyGradOp::verify() {
  if (failed(checkLinear(getLoc(), getOperand(), getWeight(), getLabels(),
                         getTransposeWeight())))
    return failure();
  if (tensorType(getSum()).getRank() != 0 ||
      getOperandGrad().getType() != getOperand().getType() ||
      shapeOf(getWeightGrad()) != shapeOf(getWeight()))
    return emitOpError("results must be a scalar, the operand's type and the "
                       "weight's shape");
  return success();
}

// Forward and both gradients.
int64_t LinearCrossEntropyGradOp::getFlops() {
  return 6 * shapeOf(getOperand())[0] *
         tensorType(getWeight()).getNumElements();
}

//===----------------------------------------------------------------------===//
// mse
//===----------------------------------------------------------------------===//

NN_INFER(MseOp) {
  if (shapeOf(operands[0]) != shapeOf(operands[1]))
    return emitOptionalError(
        loc, "prediction and target differ in shape: ", operands[0].getType(),
        " and ", operands[1].getType());
  inferred.push_back(scalarF32(context));
  return success();
}

FailureOr<SmallVector<Value>> MseOp::decompose(OpBuilder &builder) {
  NNBuilder b(builder, getLoc());
  Value error = b.sub(b.f32(getPrediction()), b.f32(getTarget()));
  auto axes = llvm::to_vector(
      llvm::seq<int64_t>(0, tensorType(getPrediction()).getRank()));
  return SmallVector<Value>{
      b.sum(b.mul(error, error), axes, /*keepdims=*/false)};
}

NN_VJP(MseOp) {
  NNBuilder b(builder, getLoc());
  Value error = b.sub(b.f32(getPrediction()), b.f32(getTarget()));
  Value g = b.mul(error, b.mul(resultGrads[0], 2.0));
  if (needed[0])
    operandGrads[0] = b.gradientFor(getPrediction(), g);
  if (needed[1])
    operandGrads[1] = b.gradientFor(getTarget(), b.unary<NegOp>(g));
  return success();
}
