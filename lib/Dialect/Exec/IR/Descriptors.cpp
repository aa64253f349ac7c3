// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Descriptors of library calls. The verifiers have seen to it that each buffer
// has a layout that its call can take.

#include "shardonnx/Dialect/Exec/IR/Descriptors.h"

using namespace mlir;

namespace shardonnx::exec {

static MemRefType typeOf(Value value) {
  return cast<MemRefType>(value.getType());
}

static ShxDType dtypeOf(Value value) {
  return dtypeOf(typeOf(value).getElementType());
}

static void copyDims(ArrayRef<int64_t> from, int64_t *to) {
  llvm::copy(from, to);
}

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

// The stride of a batch axis (counted from the end); 0 where it broadcasts.
static int64_t batchStride(MemRefType type, int64_t fromEnd) {
  int64_t axis = type.getRank() - fromEnd;
  if (axis < 0 || type.getDimSize(axis) == 1)
    return 0;
  return stridesOf(type)[axis];
}

template <typename Call> static int32_t gemmFlags(Call op) {
  return (op.getTf32() ? SHX_GEMM_TF32 : 0) |
         (op.getDeterministic() ? SHX_GEMM_DETERMINISTIC : 0);
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

ShxGemm describe(GemmOp op) { return describeProduct(op); }

ShxGemm describe(GemmEpilogueOp op) {
  ShxGemm desc = describeProduct(op);
  desc.epilogue = static_cast<int32_t>(op.getEpilogue());
  return desc;
}

static_assert(int(nn::Epilogue::bias) == SHX_EPILOGUE_BIAS &&
              int(nn::Epilogue::gelu_bias) == SHX_EPILOGUE_GELU_BIAS &&
              int(nn::Epilogue::dgelu) == SHX_EPILOGUE_DGELU &&
              int(nn::Epilogue::bgrad) == SHX_EPILOGUE_BGRAD);

template <typename AttentionLike>
static ShxAttention describeAttention(AttentionLike op) {
  MemRefType query = typeOf(op.getQuery()), key = typeOf(op.getKey());
  ShxAttention desc = {};
  desc.batch = query.getDimSize(0);
  desc.seqQ = query.getDimSize(1);
  desc.heads = query.getDimSize(2);
  desc.headDim = query.getDimSize(3);
  desc.seqK = key.getDimSize(1);
  desc.kvHeads = key.getDimSize(2);
  auto strides = [](Value value, int64_t *to) {
    copyDims(ArrayRef(stridesOf(typeOf(value))).take_front(3), to);
  };
  strides(op.getQuery(), desc.qStride);
  strides(op.getKey(), desc.kStride);
  strides(op.getValue(), desc.vStride);
  strides(op.getResult(), desc.outStride);
  if (Value mask = op.getMask()) {
    for (int64_t axis = 0; axis < 3; ++axis)
      desc.maskStride[axis] = batchStride(typeOf(mask), 4 - axis);
    desc.maskDtype = dtypeOf(mask);
  }
  desc.scale = op.getScale().convertToFloat();
  desc.softcap = op.getSoftcap().convertToFloat();
  desc.causal = op.getCausal();
  desc.window = op.getWindow();
  desc.dtype = dtypeOf(op.getQuery());
  desc.flags = op.getDeterministic() ? SHX_ATTENTION_DETERMINISTIC : 0;
  return desc;
}

ShxAttention describe(AttentionOp op) { return describeAttention(op); }

ShxAttention describe(AttentionGradOp op) {
  ShxAttention desc = describeAttention(op);
  auto strides = [](Value value, int64_t *to) {
    copyDims(ArrayRef(stridesOf(typeOf(value))).take_front(3), to);
  };
  strides(op.getQueryGrad(), desc.dqStride);
  strides(op.getKeyGrad(), desc.dkStride);
  strides(op.getValueGrad(), desc.dvStride);
  strides(op.getResultGrad(), desc.doutStride);
  return desc;
}

// The distance of rows, all axes but the last being rows.
static int64_t rowDistance(MemRefType type) {
  SmallVector<int64_t> strides = stridesOf(type);
  for (int64_t axis = type.getRank() - 2; axis >= 0; --axis)
    if (type.getDimSize(axis) != 1)
      return strides[axis];
  return type.getDimSize(type.getRank() - 1);
}

ShxEmbedding describe(EmbeddingOp op) {
  MemRefType table = typeOf(op.getTable());
  ShxEmbedding desc = {};
  desc.rows = typeOf(op.getIds()).getNumElements();
  desc.vocab = table.getDimSize(0);
  desc.width = table.getDimSize(1);
  desc.ldOut = rowDistance(typeOf(op.getResult()));
  desc.tableDtype = dtypeOf(op.getTable());
  desc.outDtype = dtypeOf(op.getResult());
  desc.idDtype = dtypeOf(op.getIds());
  desc.paddingIdx = -1;
  return desc;
}

ShxEmbedding describe(EmbeddingGradOp op) {
  MemRefType table = typeOf(op.getTableGrad());
  ShxEmbedding desc = {};
  desc.rows = typeOf(op.getIds()).getNumElements();
  desc.vocab = table.getDimSize(0);
  desc.width = table.getDimSize(1);
  desc.ldOut = rowDistance(typeOf(op.getResultGrad()));
  desc.tableDtype = dtypeOf(op.getTableGrad());
  desc.outDtype = dtypeOf(op.getResultGrad());
  desc.accumulate = op.getAccumulate();
  desc.idDtype = dtypeOf(op.getIds());
  desc.paddingIdx = -1;
  return desc;
}

ShxCrossEntropy describe(CrossEntropyOp op) {
  MemRefType logits = typeOf(op.getLogits());
  ShxCrossEntropy desc = {};
  desc.rows = logits.getDimSize(0);
  desc.classes = logits.getDimSize(1);
  desc.ignoreIndex = op.getIgnoreIndex();
  desc.dtype = dtypeOf(op.getLogits());
  desc.labelDtype = dtypeOf(op.getLabels());
  return desc;
}

ShxLinearCrossEntropy describe(LinearCrossEntropyOp op) {
  MemRefType operand = typeOf(op.getOperand()), weight = typeOf(op.getWeight());
  bool transposed = op.getTransposeWeight();
  ShxLinearCrossEntropy desc = {};
  desc.rows = operand.getDimSize(0);
  desc.width = operand.getDimSize(1);
  desc.vocab = weight.getDimSize(transposed ? 0 : 1);
  desc.chunkRows = op.getChunkRows();
  desc.ignoreIndex = op.getIgnoreIndex();
  desc.ldx = rowDistance(operand);
  desc.transW = transposed;
  desc.dtypeX = dtypeOf(op.getOperand());
  desc.dtypeW = dtypeOf(op.getWeight());
  desc.dtypeDw = desc.dtypeW;
  desc.labelDtype = dtypeOf(op.getLabels());
  if (op.getSeed()) {
    desc.lddx = rowDistance(typeOf(op.getOperandGrad()));
    desc.dtypeDw = dtypeOf(op.getWeightGrad());
    desc.accumulateDw = op.getAccumulate();
  }
  desc.flags = gemmFlags(op);
  return desc;
}

ShxCopy describe(CopyOp op) {
  MemRefType source = typeOf(op.getSource()), target = typeOf(op.getTarget());
  ShxCopy desc = {};
  desc.rank = int32_t(source.getRank());
  copyDims(source.getShape(), desc.dims);
  copyDims(stridesOf(source), desc.srcStride);
  copyDims(stridesOf(target), desc.dstStride);
  desc.srcDtype = dtypeOf(op.getSource());
  desc.dstDtype = dtypeOf(op.getTarget());
  desc.accumulate = op.getAccumulate();
  return desc;
}

} // namespace shardonnx::exec
