// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What moves elements. No nn op is one of these calls: fsdp-to-exec makes them
// where views do not do.

#include "Calls.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

LogicalResult CopyOp::verify() {
  MemRefType source = typeOf(getSource()), target = typeOf(getTarget());
  if (source.getShape() != target.getShape())
    return emitOpError("source and target differ in shape");
  if (source.getRank() > SHX_MAX_RANK)
    return emitOpError("has more than ") << SHX_MAX_RANK << " axes";
  if (getAccumulate() && !isa<FloatType>(target.getElementType()))
    return emitOpError("accumulates, but not floats");
  return success();
}

void CopyOp::attachLibraryCalls(MLIRContext &) {}

SmallVector<CallArgument> CopyOp::getCallArguments() {
  MemRefType source = typeOf(getSource()), target = typeOf(getTarget());
  ShxCopy desc = {};
  desc.rank = int32_t(source.getRank());
  llvm::copy(source.getShape(), desc.dims);
  llvm::copy(stridesOf(source), desc.srcStride);
  llvm::copy(stridesOf(target), desc.dstStride);
  desc.srcDtype = dtypeOf(getSource());
  desc.dstDtype = dtypeOf(getTarget());
  desc.accumulate = getAccumulate();
  return callArguments(descriptorOf(desc, "copy"), getSource(), getTarget());
}

Value CopyOp::getAccumulationTarget() {
  return getAccumulate() ? getTarget() : Value();
}

LogicalResult ZeroOp::verify() {
  return verifyContiguous(*this, "target", getTarget());
}

void ZeroOp::attachLibraryCalls(MLIRContext &) {}

SmallVector<CallArgument> ZeroOp::getCallArguments() {
  MemRefType type = typeOf(getTarget());
  return callArguments(getTarget(), type.getNumElements() *
                                        elementBytes(type.getElementType()));
}
