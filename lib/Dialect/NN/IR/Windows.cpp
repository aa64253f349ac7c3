// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// windows and overlap_add, each the other's gradient: shape rule and verifier.

#include "DefineOps.h"
#include "Evaluate.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

/// The shape of the windows of a tensor, or nothing where there are none.
static std::optional<SmallVector<int64_t>>
windowsShape(ArrayRef<int64_t> from, ArrayRef<int64_t> axes,
             ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides,
             ArrayRef<int64_t> dilations) {
  if (sizes.size() != axes.size() || strides.size() != axes.size() ||
      dilations.size() != axes.size())
    return std::nullopt;
  SmallVector<int64_t> shape(from);
  int64_t before = -1; // axes rise
  for (auto [axis, size, stride, dilation] :
       llvm::zip(axes, sizes, strides, dilations)) {
    if (axis <= before || axis >= int64_t(from.size()) || size < 1 ||
        stride < 1 || dilation < 1)
      return std::nullopt;
    before = axis;
    // size·dilation cannot overflow once both are below the axis.
    if (size > from[axis] ||
        (size > 1 && dilation > (from[axis] - 1) / (size - 1)))
      return std::nullopt;
    shape[axis] = (from[axis] - dilation * (size - 1) - 1) / stride + 1;
    shape.push_back(size);
  }
  return shape;
}

NN_INFER(WindowsOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  auto type = tensorType(operands[0]);
  auto shape =
      windowsShape(type.getShape(), adaptor.getAxes(), adaptor.getSizes(),
                   adaptor.getStrides(), adaptor.getDilations());
  if (!shape)
    return misfit(loc, type, " has no windows like these");
  inferred.push_back(type.clone(*shape));
  return success();
}

NN_VJP(WindowsOp) {
  // Where windows overlap, their sum is made in f32.
  NNBuilder b(builder, getLoc());
  auto type = tensorType(getOperand()).clone(builder.getF32Type());
  Value sum =
      OverlapAddOp::create(builder, getLoc(), type, b.f32(resultGrads[0]),
                           getAxes(), getStrides(), getDilations());
  operandGrads[0] = b.cast(sum, gradientElementType(getOperand()));
  return success();
}

LogicalResult OverlapAddOp::verify() {
  ArrayRef<int64_t> windows = shapeOf(getOperand());
  size_t count = getAxes().size();
  auto shape = windows.size() < count
                   ? std::nullopt
                   : windowsShape(shapeOf(getResult()), getAxes(),
                                  windows.take_back(count), getStrides(),
                                  getDilations());
  if (!shape || ArrayRef<int64_t>(*shape) != windows ||
      elementType(getOperand()) != elementType(getResult()))
    return emitOpError() << getOperand().getType() << " are no windows of "
                         << getResult().getType();
  return success();
}

NN_VJP(OverlapAddOp) {
  operandGrads[0] =
      WindowsOp::create(builder, getLoc(), resultGrads[0], getAxes(),
                        shapeOf(getOperand()).take_back(getAxes().size()),
                        getStrides(), getDilations());
  return success();
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

NN_EVALUATE(WindowsOp) {
  return interpreter.set(
      getResult(),
      interpreter.get(getOperand())
          .windows(getAxes(), getSizes(), getStrides(), getDilations()));
}

NN_EVALUATE(OverlapAddOp) {
  if (!interpreter.allows(*this))
    return failure();
  Elements x(interpreter.get(getOperand())),
      sums(shapeOf(getResult()), ofFloat(0));
  size_t rank = sums.shape.size();
  forEachIndex(x.shape, [&](ArrayRef<int64_t> at) {
    SmallVector<int64_t> to(at.take_front(rank));
    for (auto [w, axis] : llvm::enumerate(getAxes()))
      to[axis] = to[axis] * getStrides()[w] + at[rank + w] * getDilations()[w];
    sums.at(to).f += x.at(at).f;
  });
  return interpreter.set(getResult(), std::move(sums.values));
}
