// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the runtime's library calls ask of their buffers (ABI.h), as verifiers:
// a layout that a call cannot take never reaches the lowering.

#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/runtime/ABI.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

Value exec::accumulatedInto(Operation *op) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<GemmOp, GemmEpilogueOp>(
          [](auto op) { return op.getAccumulate() ? op.getResult() : Value(); })
      .Case([](EmbeddingGradOp op) {
        return op.getAccumulate() ? op.getTableGrad() : Value();
      })
      .Case([](LinearCrossEntropyOp op) {
        return op.getAccumulate() ? op.getWeightGrad() : Value();
      })
      .Case([](CopyOp op) {
        return op.getAccumulate() ? op.getTarget() : Value();
      })
      .Default([](Operation *) { return Value(); });
}

static MemRefType typeOf(Value value) {
  return cast<MemRefType>(value.getType());
}

static LogicalResult verifyContiguous(Operation *op, StringRef what,
                                      Value value) {
  if (value && !isContiguous(typeOf(value)))
    return op->emitOpError() << what << " must be contiguous";
  return success();
}

// A stride counts only along an axis of more than one element.
static bool hasUnitStride(MemRefType type, int64_t axis) {
  return type.getDimSize(axis) == 1 || stridesOf(type)[axis] == 1;
}

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

static LogicalResult verifyHeads(Operation *op, ValueRange values) {
  for (Value value : values) {
    MemRefType type = typeOf(value);
    if (type.getRank() != 4 || !hasUnitStride(type, 3))
      return op->emitOpError("needs [batch, seq, heads, headDim] operands "
                             "with contiguous heads");
  }
  return success();
}

template <typename AttentionLike>
static LogicalResult verifyAttention(AttentionLike op) {
  if (failed(verifyHeads(
          op, {op.getQuery(), op.getKey(), op.getValue(), op.getResult()})) ||
      failed(verifyContiguous(op, "lse", op.getLse())))
    return failure();
  MemRefType query = typeOf(op.getQuery()), key = typeOf(op.getKey());
  if (query.getDimSize(2) % key.getDimSize(2) != 0)
    return op.emitOpError("heads are not a multiple of the kv heads");
  if (Value mask = op.getMask()) {
    MemRefType type = typeOf(mask);
    // The first key of each query, or something for each key.
    bool first = type.getElementType().isInteger(32);
    int64_t seqK = first ? 1 : key.getDimSize(1);
    if (type.getRank() != 4 || type.getDimSize(3) != seqK ||
        !hasUnitStride(type, 3))
      return op.emitOpError("mask must be [batch, heads, seqQ, seqK] with "
                            "contiguous keys, or i32 [batch, heads, seqQ, 1]");
  }
  return success();
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }

LogicalResult AttentionGradOp::verify() {
  if (failed(verifyHeads(*this, {getResultGrad(), getQueryGrad(), getKeyGrad(),
                                 getValueGrad()})))
    return failure();
  return verifyAttention(*this);
}

// Rows of any distance, each contiguous.
static LogicalResult verifyRows(Operation *op, StringRef what, Value value) {
  MemRefType type = typeOf(value);
  SmallVector<int64_t> strides = stridesOf(type);
  int64_t rank = type.getRank();
  bool rows = rank >= 1 && hasUnitStride(type, rank - 1);
  for (int64_t axis = rank - 3; rows && axis >= 0; --axis)
    rows = type.getDimSize(axis) == 1 ||
           strides[axis] == strides[axis + 1] * type.getDimSize(axis + 1);
  if (!rows)
    return op->emitOpError() << what << " must be rows at one distance";
  return success();
}

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

LogicalResult CrossEntropyOp::verify() {
  if (!getSeed() != !getLogitsGrad())
    return emitOpError("needs a seed exactly when it writes a gradient");
  for (Value value : {getLogits(), getLabels(), getLogitsGrad()})
    if (failed(verifyContiguous(*this, "logits and labels", value)))
      return failure();
  return success();
}

LogicalResult LinearCrossEntropyOp::verify() {
  if (!getSeed() != !getOperandGrad() || !getSeed() != !getWeightGrad())
    return emitOpError("needs a seed exactly when it writes gradients");
  if (getAccumulate() && !getWeightGrad())
    return emitOpError("accumulates, but writes no gradient");
  for (Value value : {getWeight(), getLabels(), getWeightGrad()})
    if (failed(verifyContiguous(*this, "weight and labels", value)))
      return failure();
  if (getOperandGrad() &&
      failed(verifyRows(*this, "operand_grad", getOperandGrad())))
    return failure();
  return verifyRows(*this, "operand", getOperand());
}

LogicalResult CopyOp::verify() {
  MemRefType source = typeOf(getSource()), target = typeOf(getTarget());
  if (source.getShape() != target.getShape())
    return emitOpError("source and target differ in shape");
  if (source.getRank() > SHX_MAX_RANK)
    return emitOpError("has more than ") << SHX_MAX_RANK << " axes";
  if (getAccumulate() && !isa<FloatType>(target.getElementType()))
    return emitOpError("accumulates, but not floats");
  return success();
}

LogicalResult ZeroOp::verify() {
  return verifyContiguous(*this, "target", getTarget());
}

LogicalResult LossOp::verify() {
  MemRefType type = typeOf(getSum());
  if (type.getNumElements() != 1 || !type.getElementType().isF32())
    return emitOpError("sum must be one f32");
  return success();
}
