// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights, decoded.

#include "Calls.h"

#include "shardonnx/runtime/Packing.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

LogicalResult UnpackOp::verify() {
  if (!parseSpelling<Packing>(getPacking()) ||
      typeOf(getResult()).getRank() != 2)
    return emitOpError("decodes a packed weight [rows, columns]");
  if (failed(verifyContiguous(*this, "packed", getPacked())))
    return failure();
  return verifyContiguous(*this, "result", getResult());
}

SmallVector<CallArgument> UnpackOp::getCallArguments() {
  MemRefType result = typeOf(getResult());
  ShxUnpack desc = {};
  desc.rows = result.getDimSize(0);
  desc.columns = result.getDimSize(1);
  desc.packing = int32_t(parseSpelling<Packing>(getPacking()).value());
  desc.dtype = dtypeOf(getResult());
  return callArguments(descriptorOf(desc, "unpack"), getPacked(), getResult());
}

namespace {

struct UnpackCall : LibraryCallModel<UnpackCall, nn::UnpackOp> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isContiguous();
  }

  void emit(nn::UnpackOp op, CallEmitter &emitter) const {
    Value packed = emitter.contiguousBuffer(op.getPacked());
    emitter.create<UnpackOp>(packed, emitter.resultBuffer(op.getResult()),
                             op.getPackingAttr());
  }
};

} // namespace

void UnpackOp::attachLibraryCalls(MLIRContext &context) {
  nn::UnpackOp::attachInterface<UnpackCall>(context);
}
