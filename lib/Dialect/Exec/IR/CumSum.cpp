// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of each line up to its elements.

#include "Calls.h"

#include "shardonnx/Dialect/NN/IR/NNMath.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

LogicalResult CumSumOp::verify() {
  MemRefType from = typeOf(getOperand()), to = typeOf(getResult());
  int64_t axis = getAxis(), rank = from.getRank();
  if (axis < 0 || axis >= rank || rank > SHX_MAX_RANK)
    return emitOpError("has an axis outside of its buffers");
  if (from.getShape() != to.getShape() ||
      from.getElementType() != to.getElementType() ||
      from.getElementType().isInteger(1))
    return emitOpError("needs buffers of one shape, of floats or integers");
  return success();
}

SmallVector<CallArgument> CumSumOp::getCallArguments() {
  MemRefType from = typeOf(getOperand());
  SmallVector<int64_t> fromStrides = stridesOf(from),
                       toStrides = stridesOf(typeOf(getResult()));
  int64_t along = getAxis();
  ShxCumSum desc = {};
  for (int64_t axis = 0; axis < from.getRank(); ++axis) {
    if (axis == along)
      continue;
    int32_t line = desc.rank++;
    desc.dims[line] = from.getDimSize(axis);
    desc.fromStride[line] = fromStrides[axis];
    desc.toStride[line] = toStrides[axis];
  }
  desc.size = from.getDimSize(along);
  desc.fromAxisStride = fromStrides[along];
  desc.toAxisStride = toStrides[along];
  desc.dtype = dtypeOf(getOperand());
  desc.exclusive = getExclusive();
  desc.reverse = getReverse();
  return callArguments(descriptorOf(desc, "cumsum"), getOperand(), getResult());
}

SmallVector<std::pair<Value, Value>> CumSumOp::getInPlacePairs() {
  return {{getOperand(), getResult()}};
}

namespace {

struct CumSumCall : LibraryCallModel<CumSumCall, nn::CumSumOp> {
  bool canWrite(Operation *, unsigned, const Layout &) const { return true; }

  void emit(nn::CumSumOp op, CallEmitter &emitter) const {
    Value operand = emitter.buffer(op.getOperand());
    emitter.create<CumSumOp>(operand, emitter.resultBuffer(op.getResult()),
                             op.getAxis(), op.getExclusive(), op.getReverse());
  }
};

} // namespace

void CumSumOp::attachLibraryCalls(MLIRContext &context) {
  nn::CumSumOp::attachInterface<CumSumCall>(context);
}
