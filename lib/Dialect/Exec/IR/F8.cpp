// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrices of 8 bits: cast, and multiplied (CUDA).

#include "Calls.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

/// What the library wants of addresses and distances of rows.
static constexpr int64_t kAlignment = 16;

static int64_t elementCount(MemRefType type) {
  return ShapedType::getNumElements(type.getShape());
}

/// A matrix of contiguous rows that begin on multiples of 16 bytes.
static LogicalResult verifyMatrix(Operation *op, StringRef what, Value value) {
  MemRefType type = typeOf(value);
  if (type.getRank() == 2 && hasUnitStride(type, 1) &&
      rowDistance(type) * elementBytes(type.getElementType()) % kAlignment == 0)
    return success();
  return op->emitOpError() << what << " is no matrix of contiguous rows on "
                           << "multiples of " << kAlignment << " bytes";
}

static bool isAligned(const Layout &layout, Type element) {
  int64_t bytes = elementBytes(element);
  return layout.isUnit(1) && layout.strides.front() * bytes % kAlignment == 0 &&
         layout.offset * bytes % kAlignment == 0;
}

/// The operand where it lies if the calls take it there, else a copy.
static Value matrixOf(CallEmitter &emitter, Value operand) {
  Storage storage = emitter.storageOf(operand);
  if (!isAligned(storage.layout, nn::elementType(operand)))
    storage = emitter.copyOf(storage);
  return emitter.bufferOf(storage);
}

//===----------------------------------------------------------------------===//
// f8_cast
//===----------------------------------------------------------------------===//

LogicalResult F8CastOp::verify() {
  if (!getRows() && !getColumns())
    return emitOpError("writes nothing");
  if (failed(verifyMatrix(*this, "source", getSource())))
    return failure();
  ArrayRef<int64_t> shape = typeOf(getSource()).getShape();
  if (shape[0] % kAlignment != 0 || shape[1] % kAlignment != 0)
    return emitOpError("source has sizes that are no multiples of ")
           << kAlignment;
  auto verifyResult = [&](StringRef what, Value value, int64_t rows,
                          int64_t columns) -> LogicalResult {
    if (!value)
      return success();
    if (failed(verifyMatrix(*this, what, value)))
      return failure();
    if (typeOf(value).getShape() != ArrayRef<int64_t>({rows, columns}))
      return emitOpError() << what << " do not fit the source";
    return success();
  };
  if (failed(verifyResult("rows", getRows(), shape[0], shape[1])) ||
      failed(verifyResult("columns", getColumns(), shape[1], shape[0])))
    return failure();
  return verifyContiguous(*this, "step", getStep());
}

SmallVector<CallArgument> F8CastOp::getCallArguments() {
  MemRefType source = typeOf(getSource()), step = typeOf(getStep());
  ShxF8Cast desc = {};
  desc.rows = source.getDimSize(0);
  desc.columns = source.getDimSize(1);
  desc.ldx = rowDistance(source);
  if (getRows())
    desc.ldRows = rowDistance(typeOf(getRows()));
  if (getColumns())
    desc.ldColumns = rowDistance(typeOf(getColumns()));
  desc.rowStep = step.getDimSize(0) != 1;
  desc.columnStep = step.getDimSize(1) != 1;
  desc.dtypeX = dtypeOf(getSource());
  desc.dtype = dtypeOf(getRows() ? getRows() : getColumns());
  return callArguments(descriptorOf(desc, "f8_cast"), getSource(), getStep(),
                       getRows(), getColumns());
}

namespace {

struct CastMatrixCall : LibraryCallModel<CastMatrixCall, nn::F8CastMatrixOp> {
  bool canWrite(Operation *op, unsigned result, const Layout &layout) const {
    return isAligned(layout, nn::elementType(op->getResult(result)));
  }

  void emit(nn::F8CastMatrixOp op, CallEmitter &emitter) const {
    auto target = [&](Value result) {
      return result.use_empty() ? Value() : emitter.resultBuffer(result);
    };
    Value source = matrixOf(emitter, op.getOperand());
    Value step = emitter.contiguousBuffer(op.getStep());
    Value rows = target(op.getRows()), columns = target(op.getColumns());
    emitter.create<F8CastOp>(source, step, rows, columns);
  }
};

} // namespace

void F8CastOp::attachLibraryCalls(MLIRContext &context) {
  nn::F8CastMatrixOp::attachInterface<CastMatrixCall>(context);
}

//===----------------------------------------------------------------------===//
// f8_gemm
//===----------------------------------------------------------------------===//

LogicalResult F8GemmOp::verify() {
  for (auto [what, value] : {std::pair<StringRef, Value>("lhs", getLhs()),
                             {"rhs", getRhs()},
                             {"result", getResult()}}) {
    if (failed(verifyMatrix(*this, what, value)))
      return failure();
  }
  MemRefType lhs = typeOf(getLhs()), rhs = typeOf(getRhs()),
             result = typeOf(getResult());
  if (lhs.getDimSize(1) != rhs.getDimSize(1) ||
      result.getShape() !=
          ArrayRef<int64_t>({lhs.getDimSize(0), rhs.getDimSize(0)}))
    return emitOpError("shapes do not multiply");
  if (getAddend() && getAccumulate())
    return emitOpError("accumulates and adds an addend");
  if (failed(verifyContiguous(*this, "lhs step", getLhsStep())) ||
      failed(verifyContiguous(*this, "rhs step", getRhsStep())))
    return failure();
  return verifyContiguous(*this, "addend", getAddend());
}

static ShxGemm describe(F8GemmOp op) {
  MemRefType lhs = typeOf(op.getLhs()), rhs = typeOf(op.getRhs());
  ShxGemm desc = {};
  desc.m = lhs.getDimSize(0);
  desc.n = rhs.getDimSize(0);
  desc.k = lhs.getDimSize(1);
  desc.lda = rowDistance(lhs);
  desc.ldb = rowDistance(rhs);
  desc.ldc = rowDistance(typeOf(op.getResult()));
  desc.transB = 1;
  desc.dtypeA = dtypeOf(op.getLhs());
  desc.dtypeB = dtypeOf(op.getRhs());
  desc.dtypeC = dtypeOf(op.getResult());
  bool rowSteps = elementCount(typeOf(op.getLhsStep())) != 1 ||
                  elementCount(typeOf(op.getRhsStep())) != 1;
  desc.flags = (op.getFast() ? SHX_GEMM_FAST_SUMS : 0) |
               (op.getDeterministic() ? SHX_GEMM_DETERMINISTIC : 0) |
               (rowSteps ? SHX_GEMM_ROW_STEPS : 0);
  if (op.getAddend() && typeOf(op.getAddend()).getRank() == 1)
    desc.epilogue = SHX_EPILOGUE_BIAS;
  desc.accumulate = op.getAccumulate();
  return desc;
}

SmallVector<CallArgument> F8GemmOp::getCallArguments() {
  return callArguments(descriptorOf(describe(*this), "gemm"), getLhs(),
                       getRhs(), getLhsStep(), getRhsStep(), getResult(),
                       getAddend(), getWorkspace());
}

Value F8GemmOp::getAccumulationTarget() {
  return getAccumulate() ? getResult() : Value();
}

int64_t F8GemmOp::getWorkspaceBytes(const LibraryModel &libraries) {
  return libraries.gemm(describe(*this));
}

double F8GemmOp::getExecutedFlops() {
  MemRefType lhs = typeOf(getLhs());
  return 2.0 * double(elementCount(lhs)) *
         double(typeOf(getRhs()).getDimSize(0));
}

namespace {

struct ProductCall : LibraryCallModel<ProductCall, nn::F8ProductOp> {
  // An addend is laid out as the result.
  bool canWrite(Operation *op, unsigned, const Layout &layout) const {
    auto product = cast<nn::F8ProductOp>(op);
    return isAligned(layout, nn::elementType(product.getResult())) &&
           (!product.getAddend() || layout.isContiguous());
  }
  bool canAccumulate(Operation *op, unsigned) const {
    return !cast<nn::F8ProductOp>(op).getAddend();
  }

  void emit(nn::F8ProductOp op, CallEmitter &emitter) const {
    Value lhs = matrixOf(emitter, op.getLhs()),
          rhs = matrixOf(emitter, op.getRhs());
    Value left = emitter.contiguousBuffer(op.getLhsStep()),
          right = emitter.contiguousBuffer(op.getRhsStep());
    Value addend;
    if (op.getAddend())
      addend = emitter.contiguousBuffer(op.getAddend());
    emitter.create<F8GemmOp>(lhs, rhs, left, right, addend,
                             emitter.resultBuffer(op.getResult()), Value(),
                             op.getFast(), emitter.options.deterministic,
                             emitter.accumulates(op.getResult()));
  }
};

} // namespace

void F8GemmOp::attachLibraryCalls(MLIRContext &context) {
  nn::F8ProductOp::attachInterface<ProductCall>(context);
}
