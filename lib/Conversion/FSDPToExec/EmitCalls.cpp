// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels and library calls: operands in a layout that the call takes, copied
// only where they are not.

#include "Emitter.h"

#include "shardonnx/Dialect/Exec/IR/Descriptors.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shardonnx;

bool Emitter::emitCall(Operation &op) {
  return TypeSwitch<Operation *, bool>(&op)
      .Case<nn::FusedOp, nn::MatmulOp, nn::MatmulEpilogueOp, nn::AttentionOp,
            nn::AttentionGradOp, nn::EmbeddingOp, nn::EmbeddingGradOp,
            nn::CrossEntropyOp, nn::CrossEntropyGradOp,
            nn::LinearCrossEntropyOp, nn::LinearCrossEntropyGradOp,
            nn::ConcatOp, nn::PadOp>([&](auto call) {
        emit(call);
        return true;
      })
      .Default([](Operation *) { return false; });
}

void Emitter::emit(nn::FusedOp op) {
  if (op.getOutputs().size() == 1 && placement.isSum(op.getOutputs()[0])) {
    resultStorage(op.getOutputs()[0]);
    return;
  }
  SmallVector<Value> ins, outs;
  SmallVector<Type> types;
  for (Value input : op.getInputs())
    ins.push_back(bufferOf(storageOf(input)));
  for (Value output : op.getOutputs())
    outs.push_back(resultBuffer(output));
  for (Value buffer : llvm::concat<Value>(ins, outs))
    types.push_back(buffer.getType());
  exec::LaunchOp::create(builder, loc, kernels.kernel(op, types), ins, outs,
                         Value());
}

// A buffer of no meaning but to one call; none for no bytes.
Value Emitter::workspace(int64_t bytes) {
  if (bytes == 0)
    return {};
  return exec::AllocOp::create(builder, loc,
                               MemRefType::get(bytes, builder.getI8Type()));
}

// The call is complete but for its workspace, which depends on it.
template <typename Call> void Emitter::addWorkspace(Call call, int64_t bytes) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(call);
  if (Value space = workspace(bytes))
    call.getWorkspaceMutable().assign(space);
}

//===----------------------------------------------------------------------===//
// Matrix products
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

Storage Emitter::matrix(Value value, bool transposed) {
  Storage storage = storageOf(value);
  if (!isMatrix(storage.layout))
    storage = contiguous(value);
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

void Emitter::emit(nn::MatmulOp op) {
  Storage lhs = matrix(op.getLhs(), op.getTransposeLhs());
  Storage rhs = matrix(op.getRhs(), op.getTransposeRhs());
  Storage result = resultStorage(op.getResult());
  flattenRows(lhs, rhs, result);
  if (!result.layout.isUnit(1)) {
    // The transposed result is rhsᵀ·lhsᵀ.
    std::swap(lhs, rhs);
    for (Storage *storage : {&lhs, &rhs, &result})
      storage->layout = storage->layout.swapLastTwo();
  }
  Value a = bufferOf(lhs), b = bufferOf(rhs), c = bufferOf(result);
  auto gemm =
      exec::GemmOp::create(builder, loc, a, b, c, Value(), calls.tf32,
                           calls.deterministic, placement.adds(op.getResult()));
  addWorkspace(gemm, calls.libraries.gemm(exec::describe(gemm)));
}

// The placement has seen to a layout of the result that the epilogue takes.
void Emitter::emit(nn::MatmulEpilogueOp op) {
  Value a = bufferOf(matrix(op.getLhs(), op.getTransposeLhs()));
  Value b = bufferOf(matrix(op.getRhs(), op.getTransposeRhs()));
  Value side, extra;
  if (op.getSide())
    side = contiguousBuffer(op.getSide());
  // A pre-activation that nobody reads (evaluation) is not written.
  bool unread =
      op.getEpilogue() == nn::Epilogue::gelu_bias && op.getExtra().use_empty();
  Value c = resultBuffer(op.getResult());
  if (op.getExtra() && !unread)
    extra = resultBuffer(op.getExtra());
  auto gemm = exec::GemmEpilogueOp::create(
      builder, loc, op.getEpilogueAttr(), a, b, side, c, extra, Value(),
      calls.tf32, calls.deterministic, placement.adds(op.getResult()));
  addWorkspace(gemm, calls.libraries.gemm(exec::describe(gemm)));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

// The operand where it lies if its last axis is contiguous, else a copy.
Value Emitter::headsBuffer(Value value) {
  Storage storage = storageOf(value);
  return bufferOf(storage.layout.isUnit(1) ? storage : contiguous(value));
}

// The mask as [batch, heads, seqQ, seqK]; only its keys need be there. First
// keys have one element a query.
Value Emitter::maskBuffer(Value mask, Value query, Value key) {
  if (!mask)
    return {};
  int64_t seqK = elementTypeOf(mask).isInteger(32) ? 1 : shapeOf(key)[1];
  Storage storage = storageOf(mask);
  SmallVector<int64_t> keys(storage.layout.shape);
  keys.back() = seqK;
  storage.layout = storage.layout.broadcast(keys);
  if (!storage.layout.isUnit(1))
    storage = copyOf(loc, storage);
  ArrayRef<int64_t> q = shapeOf(query);
  storage.layout = storage.layout.broadcast({q[0], q[2], q[1], seqK});
  return bufferOf(storage);
}

void Emitter::emit(nn::AttentionOp op) {
  Value q = headsBuffer(op.getQuery()), k = headsBuffer(op.getKey());
  Value v = headsBuffer(op.getValue());
  Value mask = maskBuffer(op.getMask(), op.getQuery(), op.getKey());
  Value result = resultBuffer(op.getResult()), lse = resultBuffer(op.getLse());
  auto attention = exec::AttentionOp::create(
      builder, loc, q, k, v, mask, result, lse, Value(), op.getScaleAttr(),
      op.getCausalAttr(), op.getWindowAttr(), op.getSoftcapAttr(), UnitAttr());
  attention.setDeterministic(calls.deterministic);
  addWorkspace(attention, calls.libraries.attention(exec::describe(attention)));
}

void Emitter::emit(nn::AttentionGradOp op) {
  Value q = headsBuffer(op.getQuery()), k = headsBuffer(op.getKey());
  Value v = headsBuffer(op.getValue());
  Value mask = maskBuffer(op.getMask(), op.getQuery(), op.getKey());
  Value result = headsBuffer(op.getResult());
  Value lse = contiguousBuffer(op.getLse());
  Value resultGrad = headsBuffer(op.getResultGrad());
  Value dq = resultBuffer(op.getQueryGrad());
  Value dk = resultBuffer(op.getKeyGrad());
  Value dv = resultBuffer(op.getValueGrad());
  auto grad = exec::AttentionGradOp::create(
      builder, loc, q, k, v, mask, result, lse, resultGrad, dq, dk, dv, Value(),
      op.getScaleAttr(), op.getCausalAttr(), op.getWindowAttr(),
      op.getSoftcapAttr(), UnitAttr());
  grad.setDeterministic(calls.deterministic);
  addWorkspace(grad, calls.libraries.attentionGrad(exec::describe(grad)));
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

void Emitter::emit(nn::EmbeddingOp op) {
  useIds(op.getIds(), shapeOf(op.getTable())[0], /*labels=*/false);
  Value table = contiguousBuffer(op.getTable());
  Value ids = contiguousBuffer(op.getIds());
  exec::EmbeddingOp::create(builder, loc, table, ids,
                            resultBuffer(op.getResult()));
}

void Emitter::emit(nn::EmbeddingGradOp op) {
  Value ids = contiguousBuffer(op.getIds());
  Value resultGrad = contiguousBuffer(op.getResultGrad());
  auto grad = exec::EmbeddingGradOp::create(
      builder, loc, ids, resultGrad, resultBuffer(op.getTableGrad()), Value(),
      placement.adds(op.getTableGrad()));
  addWorkspace(grad, calls.libraries.embeddingGrad(exec::describe(grad)));
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

void Emitter::emit(nn::CrossEntropyOp op) {
  useIds(op.getLabels(), shapeOf(op.getLogits())[1], /*labels=*/true);
  Value logits = contiguousBuffer(op.getLogits());
  Value labels = contiguousBuffer(op.getLabels());
  exec::CrossEntropyOp::create(builder, loc, logits, labels, Value(),
                               resultBuffer(op.getSum()), Value(),
                               op.getIgnoreIndexAttr());
}

void Emitter::emit(nn::CrossEntropyGradOp op) {
  useIds(op.getLabels(), shapeOf(op.getLogits())[1], /*labels=*/true);
  Value logits = contiguousBuffer(op.getLogits());
  Value labels = contiguousBuffer(op.getLabels());
  Value seed = contiguousBuffer(op.getSeed());
  Value sum = resultBuffer(op.getSum());
  exec::CrossEntropyOp::create(builder, loc, logits, labels, seed, sum,
                               resultBuffer(op.getLogitsGrad()),
                               op.getIgnoreIndexAttr());
}

void Emitter::setChunk(exec::LinearCrossEntropyOp op) {
  op.setTf32(calls.tf32);
  op.setDeterministic(calls.deterministic);
  op.setChunkRows(calls.libraries.chunkRows(exec::describe(op)));
  addWorkspace(op, calls.libraries.linearCrossEntropy(exec::describe(op)));
}

void Emitter::emit(nn::LinearCrossEntropyOp op) {
  bool transposed = op.getTransposeWeight();
  useIds(op.getLabels(), shapeOf(op.getWeight())[transposed ? 0 : 1],
         /*labels=*/true);
  Value operand = headsBuffer(op.getOperand());
  Value weight = contiguousBuffer(op.getWeight());
  Value labels = contiguousBuffer(op.getLabels());
  auto call = exec::LinearCrossEntropyOp::create(
      builder, loc, operand, weight, labels, Value(), resultBuffer(op.getSum()),
      Value(), Value(), Value(), builder.getI64IntegerAttr(0),
      op.getTransposeWeightAttr(), op.getIgnoreIndexAttr(), UnitAttr(),
      UnitAttr(), UnitAttr());
  setChunk(call);
}

void Emitter::emit(nn::LinearCrossEntropyGradOp op) {
  bool transposed = op.getTransposeWeight();
  useIds(op.getLabels(), shapeOf(op.getWeight())[transposed ? 0 : 1],
         /*labels=*/true);
  Value operand = headsBuffer(op.getOperand());
  Value weight = contiguousBuffer(op.getWeight());
  Value labels = contiguousBuffer(op.getLabels());
  Value seed = contiguousBuffer(op.getSeed());
  Value sum = resultBuffer(op.getSum());
  Value operandGrad = resultBuffer(op.getOperandGrad());
  Value weightGrad = resultBuffer(op.getWeightGrad());
  auto call = exec::LinearCrossEntropyOp::create(
      builder, loc, operand, weight, labels, seed, sum, operandGrad, weightGrad,
      Value(), builder.getI64IntegerAttr(0), op.getTransposeWeightAttr(),
      op.getIgnoreIndexAttr(), UnitAttr(), UnitAttr(), UnitAttr());
  call.setAccumulate(placement.adds(op.getWeightGrad()));
  setChunk(call);
}

//===----------------------------------------------------------------------===//
// What moves elements
//===----------------------------------------------------------------------===//

void Emitter::emit(nn::ConcatOp op) {
  resultStorage(op.getResult());
  for (auto [index, input] : llvm::enumerate(op.getInputs())) {
    Storage part = placement.partOf(op, index);
    Storage source = storageOf(input);
    if (source.root != part.root || !(source.layout == part.layout))
      copy(loc, source, part);
  }
}

void Emitter::emit(nn::PadOp op) {
  Storage result = resultStorage(op.getResult());
  exec::ZeroOp::create(builder, loc, bufferOf(result));
  Storage inner = result;
  inner.layout = result.layout.slice(op.getLow(), shapeOf(op.getOperand()));
  copy(loc, storageOf(op.getOperand()), inner);
}
