// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products, with and without an epilogue.

#include "Calls.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

static_assert(int(nn::Epilogue::bias) == SHX_EPILOGUE_BIAS &&
              int(nn::Epilogue::gelu_bias) == SHX_EPILOGUE_GELU_BIAS &&
              int(nn::Epilogue::dgelu) == SHX_EPILOGUE_DGELU &&
              int(nn::Epilogue::bgrad) == SHX_EPILOGUE_BGRAD);

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

static LogicalResult verifyMatrix(Operation *op, StringRef what,
                                  MemRefType type, bool mayTranspose) {
  int64_t rank = type.getRank();
  if (rank < 2)
    return op->emitOpError() << what << " must have at least two axes";
  if (hasUnitStride(type, rank - 1) ||
      (mayTranspose && hasUnitStride(type, rank - 2)))
    return success();
  return op->emitOpError() << what << " must be contiguous along a matrix axis";
}

template <typename Product> static LogicalResult verifyProduct(Product op) {
  MemRefType lhs = typeOf(op.getLhs()), rhs = typeOf(op.getRhs()),
             result = typeOf(op.getResult());
  if (failed(verifyMatrix(op, "lhs", lhs, true)) ||
      failed(verifyMatrix(op, "rhs", rhs, true)) ||
      failed(verifyMatrix(op, "result", result, false)))
    return failure();
  int64_t rank = result.getRank();
  if (lhs.getRank() > rank || rhs.getRank() > rank ||
      rank - 2 > SHX_MAX_BATCH_DIMS)
    return op.emitOpError("has operands of too many axes");
  auto dim = [](MemRefType type, int64_t fromEnd) {
    return type.getDimSize(type.getRank() - fromEnd);
  };
  if (dim(lhs, 2) != dim(result, 2) || dim(rhs, 1) != dim(result, 1) ||
      dim(lhs, 1) != dim(rhs, 2))
    return op.emitOpError("shapes do not multiply");
  for (int64_t axis = 3; axis <= rank; ++axis)
    for (MemRefType operand : {lhs, rhs})
      if (axis <= operand.getRank() && dim(operand, axis) != 1 &&
          dim(operand, axis) != dim(result, axis))
        return op.emitOpError("leading axes do not broadcast");
  return success();
}

LogicalResult GemmOp::verify() { return verifyProduct(*this); }

// Is the bias another one for every row, as a residual stream is?
static bool addsMatrix(GemmEpilogueOp op) {
  return op.getEpilogue() == nn::Epilogue::bias && op.getSide() &&
         op.getSide().getType() == op.getResult().getType();
}

LogicalResult GemmEpilogueOp::verify() {
  if (failed(verifyProduct(*this)))
    return failure();
  MemRefType result = typeOf(getResult());
  if (result.getRank() != 2)
    return emitOpError("has a product of two axes, not ") << result;
  auto row =
      MemRefType::get(result.getShape().take_back(), result.getElementType());
  nn::Epilogue epilogue = getEpilogue();
  bool isBGrad = epilogue == nn::Epilogue::bgrad,
       isGelu = epilogue == nn::Epilogue::gelu_bias;
  Type side, extra; // that the epilogue has
  if (!isBGrad)
    side = epilogue == nn::Epilogue::dgelu ? result : row;
  if (isGelu && getExtra())
    extra = result;
  else if (isBGrad)
    extra = row;
  if (addsMatrix(*this))
    side = result;
  auto typeOrNone = [](Value value) {
    return value ? value.getType() : Type();
  };
  if (typeOrNone(getSide()) != side)
    return emitOpError("side is not what the epilogue reads");
  if (typeOrNone(getExtra()) != extra)
    return emitOpError("extra is not what the epilogue writes");
  if (getAccumulate() && !isBGrad)
    return emitOpError("accumulates what its epilogue computes");
  return success();
}

//===----------------------------------------------------------------------===//
// The calls
//===----------------------------------------------------------------------===//

// Which way a matrix is stored, and the distance of its stored rows.
static void describeMatrix(MemRefType type, int32_t &transposed, int64_t &ld) {
  int64_t rank = type.getRank();
  int64_t rows = type.getDimSize(rank - 2), columns = type.getDimSize(rank - 1);
  SmallVector<int64_t> strides = stridesOf(type);
  int64_t rowStride = strides[rank - 2], columnStride = strides[rank - 1];
  transposed = !(columns == 1 || columnStride == 1) ||
               (rows != 1 && rowStride < columns);
  if (transposed)
    ld = columns == 1 ? rows : columnStride;
  else
    ld = rows == 1 ? columns : rowStride;
}

template <typename Product> static ShxGemm describeProduct(Product op) {
  MemRefType lhs = typeOf(op.getLhs()), rhs = typeOf(op.getRhs()),
             result = typeOf(op.getResult());
  int64_t rank = result.getRank();
  ShxGemm desc = {};
  desc.m = result.getDimSize(rank - 2);
  desc.n = result.getDimSize(rank - 1);
  desc.k = lhs.getDimSize(lhs.getRank() - 1);
  describeMatrix(lhs, desc.transA, desc.lda);
  describeMatrix(rhs, desc.transB, desc.ldb);
  int32_t resultTransposed = 0;
  describeMatrix(result, resultTransposed, desc.ldc);
  desc.dtypeA = dtypeOf(op.getLhs());
  desc.dtypeB = dtypeOf(op.getRhs());
  desc.dtypeC = dtypeOf(op.getResult());
  desc.batchRank = int32_t(rank - 2);
  for (int64_t i = 0; i < rank - 2; ++i) {
    desc.batch[i] = result.getDimSize(i);
    desc.batchStrideA[i] = batchStride(lhs, rank - i);
    desc.batchStrideB[i] = batchStride(rhs, rank - i);
    desc.batchStrideC[i] = batchStride(result, rank - i);
  }
  desc.flags = gemmFlags(op);
  desc.accumulate = op.getAccumulate();
  return desc;
}

static ShxGemm describe(GemmOp op) { return describeProduct(op); }

static ShxGemm describe(GemmEpilogueOp op) {
  ShxGemm desc = describeProduct(op);
  desc.epilogue = static_cast<int32_t>(op.getEpilogue());
  return desc;
}

static double flopsOf(const ShxGemm &gemm) {
  double batch = 1;
  for (int32_t i = 0; i < gemm.batchRank; ++i)
    batch *= double(gemm.batch[i]);
  return 2.0 * double(gemm.m) * double(gemm.n) * double(gemm.k) * batch;
}

SmallVector<CallArgument> GemmOp::getCallArguments() {
  return callArguments(descriptorOf(describe(*this), "gemm"), getLhs(),
                       getRhs(), getResult(), getWorkspace());
}

Value GemmOp::getAccumulationTarget() {
  return getAccumulate() ? getResult() : Value();
}

int64_t GemmOp::getWorkspaceBytes(const LibraryModel &libraries) {
  return libraries.gemm(describe(*this));
}

double GemmOp::getExecutedFlops() { return flopsOf(describe(*this)); }

SmallVector<CallArgument> GemmEpilogueOp::getCallArguments() {
  bool isVector = (getEpilogue() == nn::Epilogue::bias && !addsMatrix(*this)) ||
                  getEpilogue() == nn::Epilogue::gelu_bias;
  bool isBGrad = getEpilogue() == nn::Epilogue::bgrad;
  Value bias = isVector ? getSide() : isBGrad ? getExtra() : Value();
  Value aux = isVector ? getExtra() : getSide();
  return callArguments(descriptorOf(describe(*this), "gemm"), getLhs(),
                       getRhs(), getResult(), bias, aux, getWorkspace());
}

Value GemmEpilogueOp::getAccumulationTarget() {
  return getAccumulate() ? getResult() : Value();
}

int64_t GemmEpilogueOp::getWorkspaceBytes(const LibraryModel &libraries) {
  return libraries.gemm(describe(*this));
}

double GemmEpilogueOp::getExecutedFlops() { return flopsOf(describe(*this)); }

//===----------------------------------------------------------------------===//
// From nn
//===----------------------------------------------------------------------===//

// Can a GEMM walk the matrix, as stored or transposed?
static bool isMatrix(const Layout &layout) {
  int64_t rank = layout.rank();
  auto stored = [&](int64_t row, int64_t column) {
    int64_t rows = layout.shape[row], columns = layout.shape[column];
    return (columns == 1 || layout.strides[column] == 1) &&
           (rows == 1 || layout.strides[row] >= columns);
  };
  return stored(rank - 2, rank - 1) || stored(rank - 1, rank - 2);
}

static Storage matrixOf(CallEmitter &emitter, Value value, bool transposed) {
  Storage storage = emitter.storageOf(value);
  if (!isMatrix(storage.layout))
    storage = emitter.contiguous(value);
  if (transposed)
    storage.layout = storage.layout.swapLastTwo();
  return storage;
}

// [..., m, k]·[k, n]: all rows of lhs are rows of one product.
static void flattenRows(Storage &lhs, const Storage &rhs, Storage &result) {
  if (rhs.layout.rank() != 2 || lhs.layout.rank() <= 2)
    return;
  int64_t k = lhs.layout.shape.back(), n = result.layout.shape.back();
  int64_t rows = lhs.layout.numElements() / k;
  auto flatLhs = lhs.layout.reshape({rows, k});
  auto flatResult = result.layout.reshape({rows, n});
  if (!flatLhs || !flatResult || !isMatrix(*flatLhs) || !isMatrix(*flatResult))
    return;
  lhs.layout = *flatLhs;
  result.layout = *flatResult;
}

namespace {

struct MatmulCall : LibraryCallModel<MatmulCall, nn::MatmulOp> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isUnit(1) || layout.isUnit(2);
  }
  bool canAccumulate(Operation *, unsigned) const { return true; }

  void emit(nn::MatmulOp op, CallEmitter &emitter) const {
    Storage lhs = matrixOf(emitter, op.getLhs(), op.getTransposeLhs());
    Storage rhs = matrixOf(emitter, op.getRhs(), op.getTransposeRhs());
    Storage result = emitter.resultStorage(op.getResult());
    flattenRows(lhs, rhs, result);
    if (!result.layout.isUnit(1)) {
      // The transposed result is rhsᵀ·lhsᵀ.
      std::swap(lhs, rhs);
      for (Storage *storage : {&lhs, &rhs, &result})
        storage->layout = storage->layout.swapLastTwo();
    }
    Value a = emitter.bufferOf(lhs), b = emitter.bufferOf(rhs);
    Value c = emitter.bufferOf(result);
    emitter.create<GemmOp>(a, b, c, Value(), emitter.options.tf32,
                           emitter.options.deterministic,
                           emitter.accumulates(op.getResult()));
  }
};

struct EpilogueCall : LibraryCallModel<EpilogueCall, nn::MatmulEpilogueOp> {
  // A pre-activation is laid out as the result.
  bool canWrite(Operation *op, unsigned result, const Layout &layout) const {
    auto product = cast<nn::MatmulEpilogueOp>(op);
    nn::Epilogue epilogue = product.getEpilogue();
    // So is a bias of as many rows.
    bool rows = epilogue == nn::Epilogue::bgrad ||
                (epilogue == nn::Epilogue::bias &&
                 nn::shapeOf(product.getSide()).size() == 1);
    return result == 0 && rows ? layout.isUnit(1) : layout.isContiguous();
  }
  bool canAccumulate(Operation *op, unsigned result) const {
    return cast<nn::MatmulEpilogueOp>(op).getEpilogue() ==
               nn::Epilogue::bgrad &&
           result == 0;
  }

  // The sum begins as the matrix that the product is added to.
  static void add(nn::MatmulEpilogueOp op, Value a, Value b,
                  CallEmitter &emitter) {
    Storage matrix = emitter.storageOf(op.getSide());
    Storage sum = emitter.resultStorage(op.getResult());
    if (matrix.root != sum.root || !(matrix.layout == sum.layout))
      emitter.copy(matrix, sum);
    emitter.create<GemmOp>(a, b, emitter.bufferOf(sum), Value(),
                           emitter.options.tf32, emitter.options.deterministic,
                           /*accumulate=*/true);
  }

  void emit(nn::MatmulEpilogueOp op, CallEmitter &emitter) const {
    Value a =
        emitter.bufferOf(matrixOf(emitter, op.getLhs(), op.getTransposeLhs()));
    Value b =
        emitter.bufferOf(matrixOf(emitter, op.getRhs(), op.getTransposeRhs()));
    if (op.getEpilogue() == nn::Epilogue::bias &&
        emitter.accumulates(op.getResult()))
      return add(op, a, b, emitter);
    Value side, extra;
    if (op.getSide())
      side = emitter.contiguousBuffer(op.getSide());
    // A pre-activation that nobody reads (evaluation) is not written.
    bool unread = op.getEpilogue() == nn::Epilogue::gelu_bias &&
                  op.getExtra().use_empty();
    Value c = emitter.resultBuffer(op.getResult());
    if (op.getExtra() && !unread)
      extra = emitter.resultBuffer(op.getExtra());
    emitter.create<GemmEpilogueOp>(op.getEpilogueAttr(), a, b, side, c, extra,
                                   Value(), emitter.options.tf32,
                                   emitter.options.deterministic,
                                   emitter.accumulates(op.getResult()));
  }
};

} // namespace

void GemmOp::attachLibraryCalls(MLIRContext &context) {
  nn::MatmulOp::attachInterface<MatmulCall>(context);
}

void GemmEpilogueOp::attachLibraryCalls(MLIRContext &context) {
  nn::MatmulEpilogueOp::attachInterface<EpilogueCall>(context);
}
