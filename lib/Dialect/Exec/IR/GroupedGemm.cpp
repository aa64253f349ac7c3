// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of rows with the matrices that they choose.

#include "Calls.h"

#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/runtime/GroupedPlan.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

/// Rows of any distance, each contiguous.
static bool isRows(MemRefType type) {
  return type.getRank() == 2 && hasUnitStride(type, 1);
}

/// `left` [n, a], `right` [n, b], matrices [groups, a, b].
template <typename Op>
static LogicalResult verifyGrouped(Op op, MemRefType left, MemRefType right,
                                   MemRefType matrices) {
  MemRefType indices = typeOf(op.getIndices());
  if (!isRows(left) || !isRows(right) || !isContiguous(matrices) ||
      !isContiguous(indices) || matrices.getRank() != 3)
    return op.emitOpError("needs rows, contiguous matrices and indices");
  if (left.getDimSize(0) != right.getDimSize(0) ||
      indices.getShape() != left.getShape().take_front() ||
      left.getDimSize(1) != matrices.getDimSize(1) ||
      right.getDimSize(1) != matrices.getDimSize(2))
    return op.emitOpError("has buffers that do not fit each other");
  return success();
}

LogicalResult GroupedGemmOp::verify() {
  MemRefType rows = typeOf(getRows()), result = typeOf(getResult());
  if (getTransposed())
    std::swap(rows, result);
  return verifyGrouped(*this, rows, result, typeOf(getMatrices()));
}

LogicalResult GroupedGemmGradOp::verify() {
  return verifyGrouped(*this, typeOf(getLhs()), typeOf(getRhs()),
                       typeOf(getResult()));
}

static ShxGroupedGemm describeGrouped(MemRefType a, MemRefType c,
                                      MemRefType matrices, MemRefType indices) {
  ShxGroupedGemm desc = {};
  desc.rows = a.getDimSize(0);
  desc.groups = matrices.getDimSize(0);
  desc.depth = a.getDimSize(1);
  desc.width = c.getDimSize(1);
  desc.lda = rowDistance(a);
  desc.ldc = rowDistance(c);
  desc.dtypeA = dtypeOf(a.getElementType());
  desc.dtypeMatrix = dtypeOf(matrices.getElementType());
  desc.dtypeC = dtypeOf(c.getElementType());
  desc.indexDtype = dtypeOf(indices.getElementType());
  return desc;
}

static ShxGroupedGemm describe(GroupedGemmOp op) {
  ShxGroupedGemm desc =
      describeGrouped(typeOf(op.getRows()), typeOf(op.getResult()),
                      typeOf(op.getMatrices()), typeOf(op.getIndices()));
  desc.transposed = op.getTransposed();
  return desc;
}

static ShxGroupedGemm describe(GroupedGemmGradOp op) {
  return describeGrouped(typeOf(op.getLhs()), typeOf(op.getRhs()),
                         typeOf(op.getResult()), typeOf(op.getIndices()));
}

static double flopsOf(const ShxGroupedGemm &gemm) {
  return 2.0 * double(gemm.rows) * double(gemm.depth) * double(gemm.width);
}

static int64_t scratchOf(const ShxGroupedGemm &gemm) {
  return rt::groupedScratch(gemm).floats * int64_t(sizeof(float));
}

SmallVector<CallArgument> GroupedGemmOp::getCallArguments() {
  return callArguments(descriptorOf(describe(*this), "grouped_gemm"), getRows(),
                       getMatrices(), getIndices(), getResult(),
                       originOf(*this));
}

double GroupedGemmOp::getExecutedFlops() { return flopsOf(describe(*this)); }
int64_t GroupedGemmOp::getScratchBytes(const LibraryModel &) {
  return scratchOf(describe(*this));
}
bool GroupedGemmOp::runsOnCuda() { return false; }

SmallVector<CallArgument> GroupedGemmGradOp::getCallArguments() {
  return callArguments(descriptorOf(describe(*this), "grouped_gemm"), getLhs(),
                       getRhs(), getIndices(), getResult(), originOf(*this));
}

double GroupedGemmGradOp::getExecutedFlops() {
  return flopsOf(describe(*this));
}
int64_t GroupedGemmGradOp::getScratchBytes(const LibraryModel &) {
  return scratchOf(describe(*this));
}
bool GroupedGemmGradOp::runsOnCuda() { return false; }

namespace {

struct GroupedMatmulCall
    : LibraryCallModel<GroupedMatmulCall, nn::GroupedMatmulOp> {
  void emit(nn::GroupedMatmulOp op, CallEmitter &emitter) const {
    Value rows = emitter.rowsBuffer(op.getRows());
    Value matrices = emitter.contiguousBuffer(op.getMatrices());
    Value indices = emitter.contiguousBuffer(op.getIndices());
    emitter.create<GroupedGemmOp>(rows, matrices, indices,
                                  emitter.resultBuffer(op.getResult()),
                                  op.getTransposed());
  }
};

struct GroupedMatmulGradCall
    : LibraryCallModel<GroupedMatmulGradCall, nn::GroupedMatmulGradOp> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isContiguous();
  }

  void emit(nn::GroupedMatmulGradOp op, CallEmitter &emitter) const {
    Value lhs = emitter.rowsBuffer(op.getLhs());
    Value rhs = emitter.rowsBuffer(op.getRhs());
    Value indices = emitter.contiguousBuffer(op.getIndices());
    emitter.create<GroupedGemmGradOp>(lhs, rhs, indices,
                                      emitter.resultBuffer(op.getResult()));
  }
};

} // namespace

void GroupedGemmOp::attachLibraryCalls(MLIRContext &context) {
  nn::GroupedMatmulOp::attachInterface<GroupedMatmulCall>(context);
}

void GroupedGemmGradOp::attachLibraryCalls(MLIRContext &context) {
  nn::GroupedMatmulGradOp::attachInterface<GroupedMatmulGradCall>(context);
}
