// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions over axes: shape rule and gradients.

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// The operand's shape with the reduced axes as 1.
static SmallVector<int64_t> keptShape(RankedTensorType type,
                                      ArrayRef<int64_t> axes) {
  SmallVector<int64_t> shape(type.getShape());
  for (int64_t axis : axes)
    shape[axis] = 1;
  return shape;
}

static LogicalResult inferReduce(std::optional<Location> loc,
                                 RankedTensorType type, ArrayRef<int64_t> axes,
                                 bool keepdims,
                                 SmallVectorImpl<Type> &inferred) {
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis < 0 || axis >= type.getRank() || (i > 0 && axes[i - 1] >= axis))
      return emitOptionalError(loc, "axes [", axes,
                               "] are not sorted, distinct axes of ", type);
  SmallVector<int64_t> shape;
  for (auto [axis, size] : llvm::enumerate(type.getShape())) {
    bool reduced = llvm::is_contained(axes, static_cast<int64_t>(axis));
    if (!reduced)
      shape.push_back(size);
    else if (keepdims)
      shape.push_back(1);
  }
  inferred.push_back(type.clone(shape));
  return success();
}

#define NN_REDUCE_INFER(OP)                                                    \
  LogicalResult OP::inferReturnTypes(                                          \
      MLIRContext *context, std::optional<Location> loc, ValueRange operands,  \
      DictionaryAttr attributes, OpaqueProperties properties,                  \
      RegionRange regions, SmallVectorImpl<Type> &inferred) {                  \
    Adaptor adaptor(operands, attributes, properties, regions);                \
    return inferReduce(loc, tensorType(operands[0]), adaptor.getAxes(),        \
                       adaptor.getKeepdims(), inferred);                       \
  }
NN_REDUCE_INFER(ReduceSumOp)
NN_REDUCE_INFER(ReduceMeanOp)
NN_REDUCE_INFER(ReduceMaxOp)

/// How many elements become one.
static double reducedCount(RankedTensorType type, ArrayRef<int64_t> axes) {
  double count = 1;
  for (int64_t axis : axes)
    count *= type.getDimSize(axis);
  return count;
}

LogicalResult ReduceSumOp::buildVjp(OpBuilder &builder, ValueRange resultGrads,
                                    const llvm::SmallBitVector &needed,
                                    MutableArrayRef<Value> operandGrads) {
  NNBuilder b(builder, getLoc());
  auto type = tensorType(getOperand());
  Value g = b.reshape(resultGrads[0], keptShape(type, getAxes()));
  operandGrads[0] = b.broadcast(g, type.getShape());
  return success();
}

LogicalResult ReduceMeanOp::buildVjp(OpBuilder &builder, ValueRange resultGrads,
                                     const llvm::SmallBitVector &needed,
                                     MutableArrayRef<Value> operandGrads) {
  NNBuilder b(builder, getLoc());
  auto type = tensorType(getOperand());
  Value g = b.reshape(resultGrads[0], keptShape(type, getAxes()));
  Value share = b.mul(b.f32(g), 1.0 / reducedCount(type, getAxes()));
  operandGrads[0] = b.broadcast(b.cast(share, elementType(g)), type.getShape());
  return success();
}

LogicalResult ReduceMaxOp::buildVjp(OpBuilder &builder, ValueRange resultGrads,
                                    const llvm::SmallBitVector &needed,
                                    MutableArrayRef<Value> operandGrads) {
  NNBuilder b(builder, getLoc());
  auto type = tensorType(getOperand());
  SmallVector<int64_t> kept = keptShape(type, getAxes());
  Value g = b.f32(b.reshape(resultGrads[0], kept));
  Value isMax = b.f32(b.compare(ComparePredicate::eq, getOperand(),
                                b.reshape(getResult(), kept)));
  Value share = b.div(g, b.sum(isMax, getAxes()));
  operandGrads[0] = b.cast(b.mul(isMax, share), elementType(getOperand()));
  return success();
}
