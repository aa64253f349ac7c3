// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Depthwise convolutions and their gradients.

#include "Calls.h"

#include "shardonnx/Dialect/NN/IR/NNConvolution.h"
#include "shardonnx/runtime/DepthwisePlan.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

// The buffers by their part in the convolution, whichever is the result.
static std::array<Value, 3> partsOf(DepthwiseConvOp op) {
  return {op.getImage(), op.getKernel(), op.getResult()};
}
static std::array<Value, 3> partsOf(DepthwiseConvImageGradOp op) {
  return {op.getResult(), op.getKernel(), op.getGrad()};
}
static std::array<Value, 3> partsOf(DepthwiseConvKernelGradOp op) {
  return {op.getImage(), op.getResult(), op.getGrad()};
}

template <typename Op> static ShxDepthwiseConv describe(Op op) {
  auto [image, kernel, result] = partsOf(op);
  ArrayRef<int64_t> from = typeOf(image).getShape(),
                    taps = typeOf(kernel).getShape(),
                    places = typeOf(result).getShape();
  ShxDepthwiseConv desc = {};
  desc.batch = from[0];
  desc.channels = from[1];
  int axes = int(taps.size()) - 1, missing = rt::kSpatialAxes - axes;
  for (int axis = 0; axis < rt::kSpatialAxes; ++axis) {
    int i = axis - missing;
    desc.image[axis] = i < 0 ? 1 : from[i + 2];
    desc.kernel[axis] = i < 0 ? 1 : taps[i + 1];
    desc.result[axis] = i < 0 ? 1 : places[i + 2];
    desc.stride[axis] = i < 0 ? 1 : op.getStrides()[i];
    desc.dilation[axis] = i < 0 ? 1 : op.getDilations()[i];
    desc.low[axis] = i < 0 ? 0 : op.getLow()[i];
  }
  desc.imageDtype = dtypeOf(image);
  desc.kernelDtype = dtypeOf(kernel);
  desc.resultDtype = dtypeOf(result);
  return desc;
}

/// A thread's scratch holds a channel: nothing that is computed of its sizes
/// overflows.
static bool isOfReasonableSize(const ShxDepthwiseConv &desc) {
  int64_t elements = 1;
  auto isSmall = [](int64_t number) {
    return number > INT32_MIN && number < INT32_MAX;
  };
  for (int axis = 0; axis < rt::kSpatialAxes; ++axis)
    if (desc.image[axis] < 1 || desc.kernel[axis] < 1 ||
        desc.result[axis] < 1 || desc.stride[axis] < 1 ||
        desc.dilation[axis] < 1 || !isSmall(desc.kernel[axis]) ||
        !isSmall(desc.result[axis]) || !isSmall(desc.stride[axis]) ||
        !isSmall(desc.dilation[axis]) || !isSmall(desc.low[axis]) ||
        llvm::MulOverflow(elements,
                          rt::depthwiseExtent(desc, axis) + desc.stride[axis],
                          elements) ||
        elements > INT32_MAX)
      return false;
  return true;
}

template <typename Op> static LogicalResult verifyConv(Op op) {
  for (Value buffer : partsOf(op))
    if (failed(verifyContiguous(op, "buffer", buffer)))
      return failure();
  auto [image, kernel, result] = partsOf(op);
  size_t axes = size_t(typeOf(kernel).getRank()) - 1;
  if (axes < 1 || axes > rt::kSpatialAxes ||
      typeOf(image).getRank() != int64_t(axes) + 2 ||
      typeOf(result).getRank() != int64_t(axes) + 2 ||
      op.getStrides().size() != axes || op.getDilations().size() != axes ||
      op.getLow().size() != axes ||
      typeOf(image).getShape().take_front(2) !=
          typeOf(result).getShape().take_front(2) ||
      typeOf(kernel).getDimSize(0) != typeOf(image).getDimSize(1))
    return op.emitOpError("has buffers that do not fit each other");
  // A gradient of the kernel alone may have another type.
  bool differs = dtypeOf(kernel) != dtypeOf(image) &&
                 !isa<DepthwiseConvKernelGradOp>(op.getOperation());
  if (differs || dtypeOf(image) != dtypeOf(result))
    return op.emitOpError("needs buffers of one type");
  if (!isOfReasonableSize(describe(op)))
    return op.emitOpError("has no channel of at most 2^31 elements");
  return success();
}

LogicalResult DepthwiseConvOp::verify() { return verifyConv(*this); }
LogicalResult DepthwiseConvImageGradOp::verify() { return verifyConv(*this); }
LogicalResult DepthwiseConvKernelGradOp::verify() { return verifyConv(*this); }

template <typename Op> static ProgramConstant constantOf(Op op) {
  return descriptorOf(describe(op), "depthwise_conv");
}

SmallVector<CallArgument> DepthwiseConvOp::getCallArguments() {
  return callArguments(constantOf(*this), getImage(), getKernel(), getResult());
}
SmallVector<CallArgument> DepthwiseConvImageGradOp::getCallArguments() {
  return callArguments(constantOf(*this), getGrad(), getKernel(), getResult());
}
SmallVector<CallArgument> DepthwiseConvKernelGradOp::getCallArguments() {
  return callArguments(constantOf(*this), getImage(), getGrad(), getResult());
}

template <typename Op> static double flopsOf(Op op) {
  auto [image, kernel, result] = partsOf(op);
  int64_t taps =
      ShapedType::getNumElements(typeOf(kernel).getShape().drop_front());
  return 2.0 * double(typeOf(result).getNumElements()) * double(taps);
}

double DepthwiseConvOp::getExecutedFlops() { return flopsOf(*this); }
double DepthwiseConvImageGradOp::getExecutedFlops() { return flopsOf(*this); }
double DepthwiseConvKernelGradOp::getExecutedFlops() { return flopsOf(*this); }

template <typename Op> static int64_t scratchOf(Op op) {
  return rt::planDepthwise(describe(op)).scratchBytes();
}

int64_t DepthwiseConvOp::getScratchBytes(const LibraryModel &) {
  return scratchOf(*this);
}
int64_t DepthwiseConvImageGradOp::getScratchBytes(const LibraryModel &) {
  return scratchOf(*this);
}
int64_t DepthwiseConvKernelGradOp::getScratchBytes(const LibraryModel &) {
  return scratchOf(*this);
}

namespace {

/// Both operands are read and the result is written where all is row-major.
template <typename Call, typename Op>
struct DepthwiseCall : LibraryCallModel<DepthwiseCall<Call, Op>, Op> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isContiguous();
  }

  void emit(Op op, CallEmitter &emitter) const {
    Value first = emitter.contiguousBuffer(op->getOperand(0));
    Value second = emitter.contiguousBuffer(op->getOperand(1));
    emitter.create<Call>(first, second, emitter.resultBuffer(op.getResult()),
                         op.getStrides(), op.getDilations(), op.getLow());
  }
};

} // namespace

void DepthwiseConvOp::attachLibraryCalls(MLIRContext &context) {
  nn::DepthwiseConvOp::attachInterface<
      DepthwiseCall<DepthwiseConvOp, nn::DepthwiseConvOp>>(context);
}
void DepthwiseConvImageGradOp::attachLibraryCalls(MLIRContext &context) {
  nn::DepthwiseConvImageGradOp::attachInterface<
      DepthwiseCall<DepthwiseConvImageGradOp, nn::DepthwiseConvImageGradOp>>(
      context);
}
void DepthwiseConvKernelGradOp::attachLibraryCalls(MLIRContext &context) {
  nn::DepthwiseConvKernelGradOp::attachInterface<
      DepthwiseCall<DepthwiseConvKernelGradOp, nn::DepthwiseConvKernelGradOp>>(
      context);
}
