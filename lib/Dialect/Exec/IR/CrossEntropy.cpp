// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cross-entropy of logits, and of a product that never is whole.

#include "SharedVocabulary.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

//===----------------------------------------------------------------------===//
// cross_entropy
//===----------------------------------------------------------------------===//

LogicalResult CrossEntropyOp::verify() {
  if (!getSeed() != !getLogitsGrad())
    return emitOpError("needs a seed exactly when it writes a gradient");
  for (Value value : {getLogits(), getLabels(), getLogitsGrad()})
    if (failed(verifyContiguous(*this, "logits and labels", value)))
      return failure();
  return success();
}

SmallVector<CallArgument> CrossEntropyOp::getCallArguments() {
  MemRefType logits = typeOf(getLogits());
  ShxCrossEntropy desc = {};
  desc.rows = logits.getDimSize(0);
  desc.classes = logits.getDimSize(1);
  desc.ignoreIndex = getIgnoreIndex();
  desc.dtype = dtypeOf(getLogits());
  desc.labelDtype = dtypeOf(getLabels());
  return callArguments(descriptorOf(desc, "cross_entropy"), getLogits(),
                       getLabels(), getSeed(), getLoss(), getLogitsGrad());
}

SmallVector<std::pair<Value, Value>> CrossEntropyOp::getInPlacePairs() {
  if (!getLogitsGrad())
    return {};
  return {{getLogits(), getLogitsGrad()}};
}

namespace {

struct CrossEntropyCall
    : LibraryCallModel<CrossEntropyCall, nn::CrossEntropyOp> {
  void emit(nn::CrossEntropyOp op, CallEmitter &emitter) const {
    emitter.useIds(op.getLabels(), nn::shapeOf(op.getLogits())[1],
                   int64_t(op.getIgnoreIndex()));
    Value logits = emitter.contiguousBuffer(op.getLogits());
    Value labels = emitter.contiguousBuffer(op.getLabels());
    emitter.create<CrossEntropyOp>(logits, labels, Value(),
                                   emitter.resultBuffer(op.getSum()), Value(),
                                   op.getIgnoreIndexAttr());
  }
};

struct CrossEntropyGradCall
    : LibraryCallModel<CrossEntropyGradCall, nn::CrossEntropyGradOp> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isContiguous();
  }

  void emit(nn::CrossEntropyGradOp op, CallEmitter &emitter) const {
    emitter.useIds(op.getLabels(), nn::shapeOf(op.getLogits())[1],
                   int64_t(op.getIgnoreIndex()));
    Value logits = emitter.contiguousBuffer(op.getLogits());
    Value labels = emitter.contiguousBuffer(op.getLabels());
    Value seed = emitter.contiguousBuffer(op.getSeed());
    Value sum = emitter.resultBuffer(op.getSum());
    emitter.create<CrossEntropyOp>(logits, labels, seed, sum,
                                   emitter.resultBuffer(op.getLogitsGrad()),
                                   op.getIgnoreIndexAttr());
  }
};

} // namespace

void CrossEntropyOp::attachLibraryCalls(MLIRContext &context) {
  nn::CrossEntropyOp::attachInterface<CrossEntropyCall>(context);
  nn::CrossEntropyGradOp::attachInterface<CrossEntropyGradCall>(context);
}

//===----------------------------------------------------------------------===//
// linear_cross_entropy
//===----------------------------------------------------------------------===//

LogicalResult LinearCrossEntropyOp::verify() {
  if (!getSeed() != !getOperandGrad() || (!getSeed() && getWeightGrad()))
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

ShxLinearCrossEntropy LinearCrossEntropyOp::getDescriptor() {
  MemRefType operand = typeOf(getOperand()), weight = typeOf(getWeight());
  bool transposed = getTransposeWeight();
  ShxLinearCrossEntropy desc = {};
  desc.rows = operand.getDimSize(0);
  desc.width = operand.getDimSize(1);
  desc.vocab = weight.getDimSize(transposed ? 0 : 1);
  desc.chunkRows = getChunkRows();
  desc.ignoreIndex = getIgnoreIndex();
  desc.ldx = rowDistance(operand);
  desc.transW = transposed;
  desc.dtypeX = dtypeOf(getOperand());
  desc.dtypeW = dtypeOf(getWeight());
  // Without a gradient there is nothing to sum in f32 before it is narrowed.
  desc.dtypeDw = SHX_F32;
  desc.labelDtype = dtypeOf(getLabels());
  if (getSeed()) {
    desc.lddx = rowDistance(typeOf(getOperandGrad()));
    desc.accumulateDw = getAccumulate();
  }
  if (getWeightGrad())
    desc.dtypeDw = dtypeOf(getWeightGrad());
  desc.flags = gemmFlags(*this);
  return desc;
}

std::string LinearCrossEntropyOp::getCallee() {
  return getAxis() ? "shx_linear_cross_entropy_part"
                   : "shx_linear_cross_entropy";
}

/// Of all words, or of those that this rank has.
static CallArgument descriptorOfWords(LinearCrossEntropyOp op) {
  ShxLinearCrossEntropyPart part = {};
  part.loss = op.getDescriptor();
  if (!op.getAxis())
    return descriptorOf(part.loss, "cross_entropy");
  part.axis = int32_t(parseSpelling<MeshAxis>(*op.getAxis()).value());
  part.parts = int32_t(op.getParts());
  part.words = part.loss.vocab * part.parts - int64_t(op.getPadding());
  return descriptorOf(part, "cross_entropy");
}

SmallVector<CallArgument> LinearCrossEntropyOp::getCallArguments() {
  return callArguments(descriptorOfWords(*this), getOperand(), getWeight(),
                       getLabels(), getSeed(), getLoss(), getOperandGrad(),
                       getWeightGrad(), getWorkspace());
}

Value LinearCrossEntropyOp::getAccumulationTarget() {
  return getAccumulate() ? getWeightGrad() : Value();
}

int64_t LinearCrossEntropyOp::getWorkspaceBytes(const LibraryModel &libraries) {
  return getWorkspaceBytes(libraries, int64_t(getChunkRows()));
}

int64_t LinearCrossEntropyOp::getWorkspaceBytes(const LibraryModel &libraries,
                                                int64_t chunkRows) {
  ShxLinearCrossEntropy desc = getDescriptor();
  desc.chunkRows = chunkRows;
  int64_t shared =
      getAxis() ? sharedLossBytes(chunkRows, int64_t(getParts())) : 0;
  return libraries.linearCrossEntropy(desc) + shared;
}

double LinearCrossEntropyOp::getExecutedFlops() {
  ShxLinearCrossEntropy desc = getDescriptor();
  double product =
      2.0 * double(desc.rows) * double(desc.width) * double(desc.vocab);
  return product * (1 + (getOperandGrad() ? 1 : 0) + (getWeightGrad() ? 1 : 0));
}

// Chunk by chunk: the weight is read by each product with it and its gradient
// added to; logits are written, read twice for the loss, and become their
// gradient, which two products read.
Traffic LinearCrossEntropyOp::getTraffic() {
  Traffic traffic = operandTraffic(*this);
  ShxLinearCrossEntropy desc = getDescriptor();
  double again = double(llvm::divideCeil(desc.rows, desc.chunkRows)) - 1;
  double logits = double(desc.rows) * double(desc.vocab) *
                  double(elementBytes(typeOf(getOperand()).getElementType()));
  traffic.read += again * bytesOf(getWeight()) + 2 * logits;
  traffic.written += logits;
  if (!getSeed())
    return traffic;
  traffic.read += (again + 1) * bytesOf(getWeight()) + logits;
  traffic.written += logits;
  if (!getWeightGrad())
    return traffic;
  traffic.read +=
      logits + bytesOf(getOperand()) + again * bytesOf(getWeightGrad());
  traffic.written += again * bytesOf(getWeightGrad());
  return traffic;
}

// The chunks are the device's choice, and decide how large the workspace is.
template <typename Loss>
static void emitLinearLoss(Loss op, CallEmitter &emitter) {
  constexpr bool hasGrads =
      std::is_same_v<Loss, nn::LinearCrossEntropyGradOp> ||
      std::is_same_v<Loss, nn::LinearCrossEntropyPartGradOp>;
  SharedBy shared = sharedBy(op);
  bool transposed = op.getTransposeWeight(), accumulate = false;
  emitter.useIds(op.getLabels(),
                 shared.words(nn::shapeOf(op.getWeight())[transposed ? 0 : 1]),
                 int64_t(op.getIgnoreIndex()));
  Value operand = emitter.rowsBuffer(op.getOperand());
  Value weight = emitter.contiguousBuffer(op.getWeight());
  Value labels = emitter.contiguousBuffer(op.getLabels());
  Value seed, operandGrad, weightGrad;
  if constexpr (hasGrads)
    seed = emitter.contiguousBuffer(op.getSeed());
  Value sum = emitter.resultBuffer(op.getSum());
  if constexpr (hasGrads) {
    operandGrad = emitter.resultBuffer(op.getOperandGrad());
    // A frozen head has none.
    if (!op.getWeightGrad().use_empty()) {
      weightGrad = emitter.resultBuffer(op.getWeightGrad());
      accumulate = emitter.accumulates(op.getWeightGrad());
    }
  }
  auto call = LinearCrossEntropyOp::create(
      emitter.builder, emitter.loc, operand, weight, labels, seed, sum,
      operandGrad, weightGrad, /*workspace=*/Value(), /*chunk_rows=*/0,
      transposed, op.getIgnoreIndex(), emitter.options.tf32,
      emitter.options.deterministic, accumulate, shared.axis, shared.parts,
      shared.padding);
  // Of a part, as many rows as of the whole.
  ShxLinearCrossEntropy whole = call.getDescriptor();
  whole.vocab = shared.words(whole.vocab);
  call.setChunkRows(emitter.options.libraries.chunkRows(whole));
  emitter.addWorkspace(call);
}

namespace {

/// Of all words, or of this rank's.
template <typename Op>
struct LinearCrossEntropyCall
    : LibraryCallModel<LinearCrossEntropyCall<Op>, Op> {
  void emit(Op op, CallEmitter &emitter) const { emitLinearLoss(op, emitter); }
};

template <typename Op>
struct LinearCrossEntropyGradCall
    : LibraryCallModel<LinearCrossEntropyGradCall<Op>, Op> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isContiguous();
  }
  bool canAccumulate(Operation *op, unsigned result) const {
    return op->getResult(result) == cast<Op>(op).getWeightGrad();
  }

  void emit(Op op, CallEmitter &emitter) const { emitLinearLoss(op, emitter); }
};

} // namespace

void LinearCrossEntropyOp::attachLibraryCalls(MLIRContext &context) {
  attach<LinearCrossEntropyCall, nn::LinearCrossEntropyOp,
         nn::LinearCrossEntropyPartOp>(context);
  attach<LinearCrossEntropyGradCall, nn::LinearCrossEntropyGradOp,
         nn::LinearCrossEntropyPartGradOp>(context);
}
