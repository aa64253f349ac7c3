// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lookups in a table, and the table's gradient.

#include "Calls.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

LogicalResult EmbeddingOp::verify() {
  if (failed(verifyContiguous(*this, "table", getTable())) ||
      failed(verifyContiguous(*this, "ids", getIds())))
    return failure();
  return verifyRows(*this, "result", getResult());
}

LogicalResult EmbeddingGradOp::verify() {
  if (failed(verifyContiguous(*this, "table_grad", getTableGrad())) ||
      failed(verifyContiguous(*this, "ids", getIds())))
    return failure();
  return verifyRows(*this, "result_grad", getResultGrad());
}

// `rows`: the result or its gradient.
static ShxEmbedding describeTable(Value table, Value ids, Value rows) {
  ShxEmbedding desc = {};
  desc.rows = typeOf(ids).getNumElements();
  desc.vocab = typeOf(table).getDimSize(0);
  desc.width = typeOf(table).getDimSize(1);
  desc.ldOut = rowDistance(typeOf(rows));
  desc.tableDtype = dtypeOf(table);
  desc.outDtype = dtypeOf(rows);
  desc.idDtype = dtypeOf(ids);
  desc.paddingIdx = -1;
  return desc;
}

static ShxEmbedding describe(EmbeddingGradOp op) {
  ShxEmbedding desc =
      describeTable(op.getTableGrad(), op.getIds(), op.getResultGrad());
  desc.accumulate = op.getAccumulate();
  return desc;
}

SmallVector<CallArgument> EmbeddingOp::getCallArguments() {
  return callArguments(
      descriptorOf(describeTable(getTable(), getIds(), getResult()),
                   "embedding"),
      getTable(), getIds(), getResult());
}

// Of the table, the rows that ids name.
Traffic EmbeddingOp::getTraffic() {
  MemRefType table = typeOf(getTable()), rows = typeOf(getResult());
  Traffic traffic = operandTraffic(*this);
  traffic.read +=
      double(elementBytes(table.getElementType())) *
      (double(rows.getNumElements()) - double(table.getNumElements()));
  return traffic;
}

SmallVector<CallArgument> EmbeddingGradOp::getCallArguments() {
  return callArguments(descriptorOf(describe(*this), "embedding"), getIds(),
                       getResultGrad(), getTableGrad(), getWorkspace());
}

Value EmbeddingGradOp::getAccumulationTarget() {
  return getAccumulate() ? getTableGrad() : Value();
}

int64_t EmbeddingGradOp::getWorkspaceBytes(const LibraryModel &libraries) {
  return libraries.embeddingGrad(describe(*this));
}

namespace {

struct EmbeddingCall : LibraryCallModel<EmbeddingCall, nn::EmbeddingOp> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isContiguous();
  }

  void emit(nn::EmbeddingOp op, CallEmitter &emitter) const {
    emitter.useIds(op.getIds(), nn::shapeOf(op.getTable())[0],
                   /*ignored=*/std::nullopt);
    Value table = emitter.contiguousBuffer(op.getTable());
    Value ids = emitter.contiguousBuffer(op.getIds());
    emitter.create<EmbeddingOp>(table, ids,
                                emitter.resultBuffer(op.getResult()));
  }
};

struct EmbeddingGradCall
    : LibraryCallModel<EmbeddingGradCall, nn::EmbeddingGradOp> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isContiguous();
  }
  bool canAccumulate(Operation *, unsigned) const { return true; }

  void emit(nn::EmbeddingGradOp op, CallEmitter &emitter) const {
    Value ids = emitter.contiguousBuffer(op.getIds());
    Value resultGrad = emitter.contiguousBuffer(op.getResultGrad());
    emitter.create<EmbeddingGradOp>(
        ids, resultGrad, emitter.resultBuffer(op.getTableGrad()), Value(),
        emitter.accumulates(op.getTableGrad()));
  }
};

} // namespace

void EmbeddingOp::attachLibraryCalls(MLIRContext &context) {
  nn::EmbeddingOp::attachInterface<EmbeddingCall>(context);
}

void EmbeddingGradOp::attachLibraryCalls(MLIRContext &context) {
  nn::EmbeddingGradOp::attachInterface<EmbeddingGradCall>(context);
}
