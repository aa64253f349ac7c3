// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The largest elements of each line.

#include "Calls.h"

#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/runtime/IndexABI.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

LogicalResult TopKOp::verify() {
  MemRefType from = typeOf(getOperand()), values = typeOf(getValues()),
             indices = typeOf(getIndices());
  int64_t axis = getAxis(), rank = from.getRank();
  if (axis < 0 || axis >= rank || rank > SHX_MAX_RANK)
    return emitOpError("has an axis outside of its buffers");
  SmallVector<int64_t> shape(from.getShape());
  shape[axis] = values.getRank() == rank ? values.getDimSize(axis) : 0;
  if (values.getShape() != ArrayRef<int64_t>(shape) ||
      indices.getShape() != ArrayRef<int64_t>(shape) ||
      shape[axis] > from.getDimSize(axis))
    return emitOpError("has buffers that do not fit each other");
  if (values.getElementType() != from.getElementType() ||
      !indices.getElementType().isInteger(64))
    return emitOpError("needs values as its operand and i64 indices");
  return success();
}

SmallVector<CallArgument> TopKOp::getCallArguments() {
  MemRefType from = typeOf(getOperand()), values = typeOf(getValues());
  SmallVector<int64_t> fromStrides = stridesOf(from),
                       valueStrides = stridesOf(values),
                       indexStrides = stridesOf(typeOf(getIndices()));
  int64_t along = getAxis();
  ShxTopK desc = {};
  for (int64_t axis = 0; axis < from.getRank(); ++axis) {
    if (axis == along)
      continue;
    int32_t to = desc.rank++;
    desc.dims[to] = from.getDimSize(axis);
    desc.fromStride[to] = fromStrides[axis];
    desc.valueStride[to] = valueStrides[axis];
    desc.indexStride[to] = indexStrides[axis];
  }
  desc.size = from.getDimSize(along);
  desc.k = values.getDimSize(along);
  desc.fromAxisStride = fromStrides[along];
  desc.valueAxisStride = valueStrides[along];
  desc.indexAxisStride = indexStrides[along];
  desc.dtype = dtypeOf(from.getElementType());
  desc.smallest = getSmallest();
  desc.lastFirst = getLastFirst();
  return callArguments(descriptorOf(desc, "top_k"), getOperand(), getValues(),
                       getIndices());
}

int64_t TopKOp::getScratchBytes(const LibraryModel &) {
  return typeOf(getOperand()).getDimSize(getAxis()) * SHX_TOP_K_SCRATCH;
}

namespace {

struct TopKCall : LibraryCallModel<TopKCall, nn::TopKOp> {
  void emit(nn::TopKOp op, CallEmitter &emitter) const {
    Value operand = emitter.buffer(op.getOperand());
    Value values = emitter.resultBuffer(op.getValues());
    emitter.create<TopKOp>(operand, values,
                           emitter.resultBuffer(op.getIndices()), op.getAxis(),
                           op.getSmallest(), op.getLastFirst());
  }
};

} // namespace

void TopKOp::attachLibraryCalls(MLIRContext &context) {
  nn::TopKOp::attachInterface<TopKCall>(context);
}
