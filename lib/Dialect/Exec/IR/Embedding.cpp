// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lookups in a table, and the table's gradient.

#include "SharedVocabulary.h"

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

/// Of the whole table, or of the rows of it that this rank has.
template <typename Op>
static CallArgument descriptorOfTable(Op op, const ShxEmbedding &table) {
  if (!op.getAxis())
    return descriptorOf(table, "embedding");
  ShxEmbeddingPart part = {};
  part.table = table;
  part.axis = int32_t(parseSpelling<MeshAxis>(*op.getAxis()).value());
  part.parts = int32_t(op.getParts());
  part.words = table.vocab * part.parts - int64_t(op.getPadding());
  return descriptorOf(part, "embedding");
}

std::string EmbeddingOp::getCallee() {
  return getAxis() ? "shx_embedding_part" : "shx_embedding";
}

std::string EmbeddingGradOp::getCallee() {
  return getAxis() ? "shx_embedding_part_grad" : "shx_embedding_grad";
}

SmallVector<CallArgument> EmbeddingOp::getCallArguments() {
  return callArguments(
      descriptorOfTable(*this,
                        describeTable(getTable(), getIds(), getResult())),
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
  return callArguments(descriptorOfTable(*this, describe(*this)), getIds(),
                       getResultGrad(), getTableGrad(), getWorkspace());
}

Value EmbeddingGradOp::getAccumulationTarget() {
  return getAccumulate() ? getTableGrad() : Value();
}

int64_t EmbeddingGradOp::getWorkspaceBytes(const LibraryModel &libraries) {
  ShxEmbedding table = describe(*this);
  table.vocab += getAxis() ? 1 : 0; // the rows of other ranks
  return libraries.embeddingGrad(table);
}

namespace {

/// Of nn.embedding, or nn.embedding_part.
template <typename Op>
struct EmbeddingCall : LibraryCallModel<EmbeddingCall<Op>, Op> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isContiguous();
  }

  void emit(Op op, CallEmitter &emitter) const {
    SharedBy shared = sharedBy(op);
    emitter.useIds(op.getIds(), shared.words(nn::shapeOf(op.getTable())[0]),
                   /*ignored=*/std::nullopt);
    Value table = emitter.contiguousBuffer(op.getTable());
    Value ids = emitter.contiguousBuffer(op.getIds());
    emitter.create<EmbeddingOp>(table, ids,
                                emitter.resultBuffer(op.getResult()),
                                shared.axis, shared.parts, shared.padding);
  }
};

template <typename Op>
struct EmbeddingGradCall : LibraryCallModel<EmbeddingGradCall<Op>, Op> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isContiguous();
  }
  bool canAccumulate(Operation *, unsigned) const { return true; }

  void emit(Op op, CallEmitter &emitter) const {
    SharedBy shared = sharedBy(op);
    Value ids = emitter.contiguousBuffer(op.getIds());
    Value resultGrad = emitter.contiguousBuffer(op.getResultGrad());
    emitter.create<EmbeddingGradOp>(
        ids, resultGrad, emitter.resultBuffer(op.getTableGrad()), Value(),
        emitter.accumulates(op.getTableGrad()), shared.axis, shared.parts,
        shared.padding);
  }
};

} // namespace

void EmbeddingOp::attachLibraryCalls(MLIRContext &context) {
  attach<EmbeddingCall, nn::EmbeddingOp, nn::EmbeddingPartOp>(context);
}

void EmbeddingGradOp::attachLibraryCalls(MLIRContext &context) {
  attach<EmbeddingGradCall, nn::EmbeddingGradOp, nn::EmbeddingPartGradOp>(
      context);
}
