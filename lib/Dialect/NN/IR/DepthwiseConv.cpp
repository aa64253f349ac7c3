// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// depthwise_conv and its gradients: shape rule, verifiers, FLOPs.

#include "DefineOps.h"
#include "Evaluate.h"
#include "mlir/IR/DialectImplementation.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNConvolution.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

#define GET_OP_CLASSES
#include "shardonnx/Dialect/NN/IR/NNConvolutionOps.cpp.inc"

void nn::registerConvolutionOps(NNDialect &dialect) {
  registerAll<
#define GET_OP_LIST
#include "shardonnx/Dialect/NN/IR/NNConvolutionOps.cpp.inc"
      >(dialect);
}

/// The result's shape, or nothing where the operands or attributes do not fit.
/// `Op` is one of the ops, or an adaptor of one.
template <typename Op>
static std::optional<SmallVector<int64_t>>
placesOf(ArrayRef<int64_t> image, ArrayRef<int64_t> kernel, Op op) {
  constexpr int64_t kMost = int64_t(1) << 31; // nothing below overflows
  constexpr size_t kMostAxes = 3;
  size_t axes = kernel.size() - 1;
  ArrayRef<int64_t> strides = op.getStrides(), dilations = op.getDilations(),
                    low = op.getLow(), high = op.getHigh();
  if (image.size() != axes + 2 || axes < 1 || axes > kMostAxes ||
      image[1] != kernel[0] || strides.size() != axes ||
      dilations.size() != axes || low.size() != axes || high.size() != axes)
    return std::nullopt;
  SmallVector<int64_t> shape(image.take_front(2));
  for (size_t i = 0; i < axes; ++i) {
    int64_t in = image[i + 2], size = kernel[i + 1];
    if (strides[i] < 1 || dilations[i] < 1 || strides[i] >= kMost ||
        dilations[i] >= kMost || low[i] <= -kMost || low[i] >= kMost ||
        high[i] <= -kMost || high[i] >= kMost || in >= kMost || size < 1 ||
        size >= kMost)
      return std::nullopt;
    int64_t room = in + low[i] + high[i] - dilations[i] * (size - 1) - 1;
    if (room < 0)
      return std::nullopt;
    shape.push_back(room / strides[i] + 1);
  }
  return shape;
}

NN_INFER(DepthwiseConvOp) {
  Adaptor adaptor(operands, attributes, properties, regions);
  auto image = tensorType(operands[0]), kernel = tensorType(operands[1]);
  auto shape = kernel.getRank() > 0
                   ? placesOf(image.getShape(), kernel.getShape(), adaptor)
                   : std::nullopt;
  if (!shape || image.getElementType() != kernel.getElementType())
    return misfit(loc, "image ", image, " does not fit kernel ", kernel,
                  " and these windows");
  inferred.push_back(image.clone(*shape));
  return success();
}

template <typename Op>
static LogicalResult verifyGrad(Op op, Value image, Value kernel, Value grad) {
  auto places = shapeOf(kernel).empty()
                    ? std::nullopt
                    : placesOf(shapeOf(image), shapeOf(kernel), op);
  if (!places || ArrayRef<int64_t>(*places) != shapeOf(grad) ||
      elementType(op.getOperand(0)) != elementType(op.getOperand(1)))
    return op.emitOpError()
           << "has no convolution of " << image.getType() << " with "
           << kernel.getType() << " and result " << grad.getType();
  return success();
}

LogicalResult DepthwiseConvImageGradOp::verify() {
  return verifyGrad(*this, getResult(), getKernel(), getGrad());
}
LogicalResult DepthwiseConvKernelGradOp::verify() {
  return verifyGrad(*this, getImage(), getResult(), getGrad());
}

/// Each place has a sum of as many products as a channel's kernel has elements.
static int64_t flopsOf(Value places, Value kernel) {
  return 2 * tensorType(places).getNumElements() *
         ShapedType::getNumElements(shapeOf(kernel).drop_front());
}

int64_t DepthwiseConvOp::getFlops() {
  return flopsOf(getResult(), getKernel());
}
int64_t DepthwiseConvImageGradOp::getFlops() {
  return flopsOf(getGrad(), getKernel());
}
int64_t DepthwiseConvKernelGradOp::getFlops() {
  return flopsOf(getGrad(), getResult());
}

NN_VJP(DepthwiseConvOp) {
  NNBuilder b(builder, getLoc());
  Value grad = b.cast(resultGrads[0], elementType(getImage()));
  if (needed[0]) {
    Value image = DepthwiseConvImageGradOp::create(
        builder, getLoc(), tensorType(getImage()), grad, getKernel(),
        getStrides(), getDilations(), getLow(), getHigh());
    operandGrads[0] = b.cast(image, gradientElementType(getImage()));
  }
  if (needed[1]) {
    auto type = tensorType(getKernel()).clone(gradientElementType(getKernel()));
    operandGrads[1] = DepthwiseConvKernelGradOp::create(
        builder, getLoc(), type, getImage(), grad, getStrides(), getDilations(),
        getLow(), getHigh());
  }
  return success();
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

/// Calls `body` with every place, element of the kernel, and element of the
/// image that meet.
template <typename Op, typename Body>
static void forEachTap(Op op, ArrayRef<int64_t> image, ArrayRef<int64_t> kernel,
                       ArrayRef<int64_t> places, Body body) {
  SmallVector<int64_t> from(image.size());
  forEachIndex(places, [&](ArrayRef<int64_t> place) {
    forEachIndex(kernel.drop_front(), [&](ArrayRef<int64_t> tap) {
      from[0] = place[0];
      from[1] = place[1];
      for (size_t i = 0; i < tap.size(); ++i) {
        from[i + 2] = place[i + 2] * op.getStrides()[i] +
                      tap[i] * op.getDilations()[i] - op.getLow()[i];
        if (from[i + 2] < 0 || from[i + 2] >= image[i + 2])
          return;
      }
      SmallVector<int64_t> weight = {place[1]};
      llvm::append_range(weight, tap);
      body(place, weight, ArrayRef<int64_t>(from));
    });
  });
}

/// How many products there are, for the interpreter's limit.
static bool allows(Operation *op, Interpreter &interpreter, Value places,
                   Value kernel) {
  return interpreter.allowsSteps(
      op, {tensorType(places).getNumElements(),
           ShapedType::getNumElements(shapeOf(kernel).drop_front())});
}

NN_EVALUATE(DepthwiseConvOp) {
  if (!allows(*this, interpreter, getResult(), getKernel()))
    return failure();
  Elements image(interpreter.get(getImage())),
      kernel(interpreter.get(getKernel())),
      sums(shapeOf(getResult()), ofFloat(0));
  forEachTap(*this, image.shape, kernel.shape, sums.shape,
             [&](auto place, auto tap, auto from) {
               sums.at(place).f += image.at(from).f * kernel.at(tap).f;
             });
  return interpreter.set(getResult(), std::move(sums.values));
}

NN_EVALUATE(DepthwiseConvImageGradOp) {
  if (!allows(*this, interpreter, getGrad(), getKernel()))
    return failure();
  Elements grad(interpreter.get(getGrad())),
      kernel(interpreter.get(getKernel())),
      sums(shapeOf(getResult()), ofFloat(0));
  forEachTap(*this, sums.shape, kernel.shape, grad.shape,
             [&](auto place, auto tap, auto from) {
               sums.at(from).f += grad.at(place).f * kernel.at(tap).f;
             });
  return interpreter.set(getResult(), std::move(sums.values));
}

NN_EVALUATE(DepthwiseConvKernelGradOp) {
  if (!allows(*this, interpreter, getGrad(), getResult()))
    return failure();
  Elements image(interpreter.get(getImage())), grad(interpreter.get(getGrad())),
      sums(shapeOf(getResult()), ofFloat(0));
  forEachTap(*this, image.shape, sums.shape, grad.shape,
             [&](auto place, auto tap, auto from) {
               sums.at(tap).f += image.at(from).f * grad.at(place).f;
             });
  return interpreter.set(getResult(), std::move(sums.values));
}
