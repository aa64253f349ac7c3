// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements read and written at indices.

#include "Calls.h"

#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/runtime/IndexABI.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

static_assert(int(nn::Scatter::none) == SHX_REDUCE_NONE &&
              int(nn::Scatter::add) == SHX_REDUCE_ADD &&
              int(nn::Scatter::mul) == SHX_REDUCE_MUL &&
              int(nn::Scatter::min) == SHX_REDUCE_MIN &&
              int(nn::Scatter::max) == SHX_REDUCE_MAX);

template <typename Op>
static LogicalResult verifyIndexing(Op op, MemRefType data, MemRefType values) {
  MemRefType indices = typeOf(op.getIndices());
  auto shape =
      nn::gatheredShape(data.getShape(), indices.getShape(), op.getDataAxes(),
                        op.getIndexAxes(), op.getIndexedAxes());
  if (!shape || ArrayRef<int64_t>(*shape) != values.getShape())
    return op.emitOpError("has buffers that do not fit its axes");
  if (data.getElementType() != values.getElementType())
    return op.emitOpError("has buffers of different element types");
  if (!indices.getElementType().isInteger(64) &&
      !indices.getElementType().isInteger(32))
    return op.emitOpError("needs i64 or i32 indices");
  for (MemRefType type : {data, indices, values})
    if (type.getRank() > SHX_MAX_RANK)
      return op.emitOpError("has more than ") << SHX_MAX_RANK << " axes";
  return success();
}

LogicalResult GatherElementsOp::verify() {
  return verifyIndexing(*this, typeOf(getData()), typeOf(getResult()));
}

LogicalResult ScatterOp::verify() {
  if (getReduction() < SHX_REDUCE_NONE || getReduction() > SHX_REDUCE_MAX)
    return emitOpError("has an unknown reduction");
  return verifyIndexing(*this, typeOf(getTarget()), typeOf(getUpdates()));
}

template <typename Op>
static ShxIndexing describeIndexing(Op op, MemRefType data, MemRefType values) {
  MemRefType indices = typeOf(op.getIndices());
  SmallVector<int64_t> dataStrides = stridesOf(data),
                       indexStrides = stridesOf(indices),
                       valueStrides = stridesOf(values);
  ShxIndexing desc = {};
  desc.rank = int32_t(values.getRank());
  for (int32_t k = 0; k < desc.rank; ++k) {
    int64_t fromData = op.getDataAxes()[k], fromIndices = op.getIndexAxes()[k];
    desc.dims[k] = values.getDimSize(k);
    desc.valueStride[k] = valueStrides[k];
    desc.dataStride[k] = fromData < 0 ? 0 : dataStrides[fromData];
    desc.indexStride[k] = fromIndices < 0 ? 0 : indexStrides[fromIndices];
  }
  desc.components = int32_t(op.getIndexedAxes().size());
  for (auto [c, axis] : llvm::enumerate(op.getIndexedAxes())) {
    desc.indexedSize[c] = data.getDimSize(axis);
    desc.indexedStride[c] = dataStrides[axis];
  }
  desc.componentStride = indexStrides.back();
  desc.dtype = dtypeOf(data.getElementType());
  desc.indexDtype = dtypeOf(indices.getElementType());
  return desc;
}

std::string GatherElementsOp::getCallee() { return "shx_gather"; }

SmallVector<CallArgument> GatherElementsOp::getCallArguments() {
  ShxIndexing desc =
      describeIndexing(*this, typeOf(getData()), typeOf(getResult()));
  return callArguments(descriptorOf(desc, "indexing"), getData(), getIndices(),
                       getResult(), originOf(*this));
}

SmallVector<CallArgument> ScatterOp::getCallArguments() {
  ShxIndexing desc =
      describeIndexing(*this, typeOf(getTarget()), typeOf(getUpdates()));
  desc.reduction = int32_t(getReduction());
  return callArguments(descriptorOf(desc, "indexing"), getIndices(),
                       getUpdates(), getTarget(), originOf(*this));
}

namespace {

struct GatherCall : LibraryCallModel<GatherCall, nn::GatherOp> {
  bool canWrite(Operation *, unsigned, const Layout &) const { return true; }

  void emit(nn::GatherOp op, CallEmitter &emitter) const {
    Value data = emitter.buffer(op.getData());
    Value indices = emitter.buffer(op.getIndices());
    emitter.create<GatherElementsOp>(
        data, indices, emitter.resultBuffer(op.getResult()), op.getDataAxes(),
        op.getIndexAxes(), op.getIndexedAxes());
  }
};

struct ScatterCall : LibraryCallModel<ScatterCall, nn::ScatterOp> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isContiguous();
  }

  void emit(nn::ScatterOp op, CallEmitter &emitter) const {
    Value indices = emitter.buffer(op.getIndices());
    Value updates = emitter.buffer(op.getUpdates());
    Storage result = emitter.resultStorage(op.getResult());
    if (op.getData())
      emitter.copy(emitter.storageOf(op.getData()), result);
    else
      emitter.fillWithZero(result);
    emitter.create<ScatterOp>(indices, updates, emitter.bufferOf(result),
                              int64_t(op.getReduction()), op.getDataAxes(),
                              op.getIndexAxes(), op.getIndexedAxes());
  }
};

} // namespace

void GatherElementsOp::attachLibraryCalls(MLIRContext &context) {
  nn::GatherOp::attachInterface<GatherCall>(context);
}

void ScatterOp::attachLibraryCalls(MLIRContext &context) {
  nn::ScatterOp::attachInterface<ScatterCall>(context);
}
