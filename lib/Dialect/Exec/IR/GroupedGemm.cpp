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

/// Elements of what exec.group_rows writes.
static int64_t routesSize(int64_t rows, int64_t groups) {
  return groups + 1 + rows;
}

/// `left` [n, a], `right` [n, b], matrices [groups, a, b].
template <typename Op>
static LogicalResult verifyGrouped(Op op, MemRefType left, MemRefType right,
                                   MemRefType matrices) {
  MemRefType routes = typeOf(op.getRoutes());
  if (!isRows(left) || !isRows(right) || !isContiguous(matrices) ||
      !isContiguous(routes) || matrices.getRank() != 3)
    return op.emitOpError("needs rows, contiguous matrices and routes");
  if (left.getDimSize(0) != right.getDimSize(0) ||
      !routes.getElementType().isInteger(32) || routes.getRank() != 1 ||
      routes.getDimSize(0) !=
          routesSize(left.getDimSize(0), matrices.getDimSize(0)) ||
      left.getDimSize(1) != matrices.getDimSize(1) ||
      right.getDimSize(1) != matrices.getDimSize(2))
    return op.emitOpError("has buffers that do not fit each other");
  return success();
}

LogicalResult GroupRowsOp::verify() {
  MemRefType indices = typeOf(getIndices()), routes = typeOf(getRoutes());
  if (!isContiguous(indices) || !isContiguous(routes) ||
      indices.getRank() != 1 || routes.getRank() != 1)
    return emitOpError("needs contiguous indices and routes");
  int64_t rows = indices.getDimSize(0), groups = getGroups();
  if (groups < 1 || groups > SHX_MOST_GROUPS || rows > INT32_MAX)
    return emitOpError("has more than ")
           << SHX_MOST_GROUPS << " groups or 2^31 rows";
  if (!routes.getElementType().isInteger(32) ||
      routes.getDimSize(0) != routesSize(rows, groups))
    return emitOpError("has buffers that do not fit each other");
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

static ShxGroupRows describe(GroupRowsOp op) {
  MemRefType indices = typeOf(op.getIndices());
  ShxGroupRows desc = {};
  desc.rows = indices.getDimSize(0);
  desc.groups = int64_t(op.getGroups());
  desc.indexDtype = dtypeOf(indices.getElementType());
  return desc;
}

static ShxGroupedGemm describeGrouped(MemRefType a, MemRefType c,
                                      MemRefType matrices) {
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
  return desc;
}

static ShxGroupedGemm describe(GroupedGemmOp op) {
  ShxGroupedGemm desc = describeGrouped(
      typeOf(op.getRows()), typeOf(op.getResult()), typeOf(op.getMatrices()));
  desc.transposed = op.getTransposed();
  return desc;
}

static ShxGroupedGemm describe(GroupedGemmGradOp op) {
  return describeGrouped(typeOf(op.getLhs()), typeOf(op.getRhs()),
                         typeOf(op.getResult()));
}

static double flopsOf(const ShxGroupedGemm &gemm) {
  return 2.0 * double(gemm.rows) * double(gemm.depth) * double(gemm.width);
}

SmallVector<CallArgument> GroupRowsOp::getCallArguments() {
  return callArguments(descriptorOf(describe(*this), "group_rows"),
                       getIndices(), getRoutes(), originOf(*this));
}

int64_t GroupRowsOp::getScratchBytes(const LibraryModel &) {
  return rt::groupRowsScratch(describe(*this));
}

SmallVector<CallArgument> GroupedGemmOp::getCallArguments() {
  return callArguments(descriptorOf(describe(*this), "grouped_gemm"), getRows(),
                       getMatrices(), getRoutes(), getResult());
}

double GroupedGemmOp::getExecutedFlops() { return flopsOf(describe(*this)); }
int64_t GroupedGemmOp::getScratchBytes(const LibraryModel &) {
  return rt::groupedScratch(describe(*this), /*gradient=*/false).bytes;
}

SmallVector<CallArgument> GroupedGemmGradOp::getCallArguments() {
  return callArguments(descriptorOf(describe(*this), "grouped_gemm"), getLhs(),
                       getRhs(), getRoutes(), getResult());
}

double GroupedGemmGradOp::getExecutedFlops() {
  return flopsOf(describe(*this));
}
int64_t GroupedGemmGradOp::getScratchBytes(const LibraryModel &) {
  return rt::groupedScratch(describe(*this), /*gradient=*/true).bytes;
}

/// The rows in the order of the matrices that they choose: sorted once for all
/// products of the same indices.
static Value routesOf(CallEmitter &emitter, Value indices, int64_t groups) {
  Storage storage = emitter.contiguous(indices);
  Value &routes = emitter.derivedFrom(storage, groups);
  if (!routes) {
    int64_t rows = nn::tensorType(indices).getNumElements();
    routes = AllocOp::create(emitter.builder, emitter.loc,
                             MemRefType::get(routesSize(rows, groups),
                                             emitter.builder.getI32Type()));
    emitter.create<GroupRowsOp>(emitter.bufferOf(storage), routes, groups);
  }
  return routes;
}

namespace {

struct GroupedMatmulCall
    : LibraryCallModel<GroupedMatmulCall, nn::GroupedMatmulOp> {
  void emit(nn::GroupedMatmulOp op, CallEmitter &emitter) const {
    Value rows = emitter.rowsBuffer(op.getRows());
    Value matrices = emitter.contiguousBuffer(op.getMatrices());
    Value routes = routesOf(emitter, op.getIndices(),
                            nn::shapeOf(op.getMatrices()).front());
    emitter.create<GroupedGemmOp>(rows, matrices, routes,
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
    Value routes =
        routesOf(emitter, op.getIndices(), nn::shapeOf(op.getResult()).front());
    emitter.create<GroupedGemmGradOp>(lhs, rhs, routes,
                                      emitter.resultBuffer(op.getResult()));
  }
};

} // namespace

// Made by the products that read it.
void GroupRowsOp::attachLibraryCalls(MLIRContext &) {}

void GroupedGemmOp::attachLibraryCalls(MLIRContext &context) {
  nn::GroupedMatmulOp::attachInterface<GroupedMatmulCall>(context);
}

void GroupedGemmGradOp::attachLibraryCalls(MLIRContext &context) {
  nn::GroupedMatmulGradOp::attachInterface<GroupedMatmulGradCall>(context);
}
