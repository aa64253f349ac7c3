// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What IndexABI.h's calls ask of their buffers, and their descriptors.

#include "mlir/IR/DialectImplementation.h"
#include "shardonnx/Dialect/Exec/IR/Descriptors.h"
#include "shardonnx/Dialect/Exec/IR/ExecIndex.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/runtime/GroupedPlan.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

#define GET_OP_CLASSES
#include "shardonnx/Dialect/Exec/IR/ExecIndexOps.cpp.inc"

static_assert(int(nn::Scatter::none) == SHX_REDUCE_NONE &&
              int(nn::Scatter::add) == SHX_REDUCE_ADD &&
              int(nn::Scatter::mul) == SHX_REDUCE_MUL &&
              int(nn::Scatter::min) == SHX_REDUCE_MIN &&
              int(nn::Scatter::max) == SHX_REDUCE_MAX);

template <typename... Ops> static void registerAll(ExecDialect &dialect) {
  (RegisteredOperationName::insert<Ops>(dialect), ...);
}

void exec::registerIndexOps(ExecDialect &dialect) {
  registerAll<
#define GET_OP_LIST
#include "shardonnx/Dialect/Exec/IR/ExecIndexOps.cpp.inc"
      >(dialect);
}

static MemRefType typeOf(Value value) {
  return cast<MemRefType>(value.getType());
}

//===----------------------------------------------------------------------===//
// gather_elements, scatter
//===----------------------------------------------------------------------===//

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

ShxIndexing exec::describe(GatherElementsOp op) {
  return describeIndexing(op, typeOf(op.getData()), typeOf(op.getResult()));
}

ShxIndexing exec::describe(ScatterOp op) {
  ShxIndexing desc =
      describeIndexing(op, typeOf(op.getTarget()), typeOf(op.getUpdates()));
  desc.reduction = int32_t(op.getReduction());
  return desc;
}

//===----------------------------------------------------------------------===//
// top_k
//===----------------------------------------------------------------------===//

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

ShxTopK exec::describe(TopKOp op) {
  MemRefType from = typeOf(op.getOperand()), values = typeOf(op.getValues());
  SmallVector<int64_t> fromStrides = stridesOf(from),
                       valueStrides = stridesOf(values),
                       indexStrides = stridesOf(typeOf(op.getIndices()));
  int64_t along = op.getAxis();
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
  desc.smallest = op.getSmallest();
  desc.lastFirst = op.getLastFirst();
  return desc;
}

//===----------------------------------------------------------------------===//
// grouped_gemm
//===----------------------------------------------------------------------===//

/// Rows of any distance, each contiguous.
static bool isRows(MemRefType type) {
  return type.getRank() == 2 &&
         (type.getDimSize(1) == 1 || stridesOf(type)[1] == 1);
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
  auto distance = [](MemRefType type) {
    return type.getDimSize(0) == 1 ? type.getDimSize(1) : stridesOf(type)[0];
  };
  ShxGroupedGemm desc = {};
  desc.rows = a.getDimSize(0);
  desc.groups = matrices.getDimSize(0);
  desc.depth = a.getDimSize(1);
  desc.width = c.getDimSize(1);
  desc.lda = distance(a);
  desc.ldc = distance(c);
  desc.dtypeA = dtypeOf(a.getElementType());
  desc.dtypeMatrix = dtypeOf(matrices.getElementType());
  desc.dtypeC = dtypeOf(c.getElementType());
  desc.indexDtype = dtypeOf(indices.getElementType());
  return desc;
}

ShxGroupedGemm exec::describe(GroupedGemmOp op) {
  ShxGroupedGemm desc =
      describeGrouped(typeOf(op.getRows()), typeOf(op.getResult()),
                      typeOf(op.getMatrices()), typeOf(op.getIndices()));
  desc.transposed = op.getTransposed();
  return desc;
}

ShxGroupedGemm exec::describe(GroupedGemmGradOp op) {
  return describeGrouped(typeOf(op.getLhs()), typeOf(op.getRhs()),
                         typeOf(op.getResult()), typeOf(op.getIndices()));
}

int64_t exec::scratchOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, int64_t>(op)
      .Case<GroupedGemmOp, GroupedGemmGradOp>([](auto op) {
        return rt::groupedScratch(describe(op)).floats * int64_t(sizeof(float));
      })
      .Case([](TopKOp op) { return describe(op).size * SHX_TOP_K_SCRATCH; })
      .Default(int64_t(0));
}
