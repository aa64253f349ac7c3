// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention and its gradient.

#include "Calls.h"

#include "shardonnx/Dialect/NN/IR/Inputs.h"
#include "shardonnx/runtime/CudaAttention.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::exec;

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// The calls
//===----------------------------------------------------------------------===//

static void copyStrides(Value value, int64_t *to) {
  llvm::copy(ArrayRef(stridesOf(typeOf(value))).take_front(3), to);
}

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
  copyStrides(op.getQuery(), desc.qStride);
  copyStrides(op.getKey(), desc.kStride);
  copyStrides(op.getValue(), desc.vStride);
  copyStrides(op.getResult(), desc.outStride);
  if (Value mask = op.getMask()) {
    for (int64_t axis = 0; axis < 3; ++axis)
      desc.maskStride[axis] = batchStride(typeOf(mask), 4 - axis);
    desc.maskDtype = dtypeOf(mask);
  }
  desc.scale = op.getScale().convertToFloat();
  desc.softcap = op.getSoftcap().convertToFloat();
  desc.hidden = op.getHidden().convertToFloat();
  desc.causal = op.getCausal();
  desc.window = op.getWindow();
  desc.dtype = dtypeOf(op.getQuery());
  desc.flags = (op.getDeterministic() ? SHX_ATTENTION_DETERMINISTIC : 0) |
               (op.getAdded() ? SHX_ATTENTION_ADDED : 0);
  desc.documents = op.getDocuments();
  return desc;
}

static ShxAttention describe(AttentionOp op) {
  ShxAttention desc = describeAttention(op);
  if (op.getUnguarded())
    desc.flags |= SHX_ATTENTION_UNGUARDED;
  return desc;
}

static ShxAttention describe(AttentionGradOp op) {
  ShxAttention desc = describeAttention(op);
  copyStrides(op.getQueryGrad(), desc.dqStride);
  copyStrides(op.getKeyGrad(), desc.dkStride);
  copyStrides(op.getValueGrad(), desc.dvStride);
  copyStrides(op.getResultGrad(), desc.doutStride);
  return desc;
}

// Two products forward. A causal mask leaves half of the scores out.
static double flopsOf(const ShxAttention &attention) {
  double scores = double(attention.batch) * double(attention.heads) *
                  double(attention.seqQ) * double(attention.seqK);
  return 4.0 * scores * double(attention.headDim) *
         (attention.causal ? 0.5 : 1.0);
}

// Attention that is not cuDNN's is slower.
static std::string remarkOn(const ShxAttention &desc, bool hasMask, bool grad) {
  const char *reason = cudnnRefusal(desc, hasMask, grad);
  if (!reason)
    return {};
  return std::string("attention runs on Shardonnx's own kernels, because ") +
         reason;
}

SmallVector<CallArgument> AttentionOp::getCallArguments() {
  return callArguments(descriptorOf(describe(*this), "attention"), getQuery(),
                       getKey(), getValue(), getMask(), getResult(), getLse(),
                       getWorkspace());
}

int64_t AttentionOp::getWorkspaceBytes(const LibraryModel &libraries) {
  return libraries.attention(describe(*this));
}

int64_t AttentionOp::getScratchBytes(const LibraryModel &libraries) {
  return libraries.attentionScratch(describe(*this));
}

double AttentionOp::getExecutedFlops() { return flopsOf(describe(*this)); }

std::string AttentionOp::getCudaRemark() {
  return remarkOn(describe(*this), bool(getMask()), /*grad=*/false);
}

SmallVector<CallArgument> AttentionGradOp::getCallArguments() {
  return callArguments(descriptorOf(describe(*this), "attention"), getQuery(),
                       getKey(), getValue(), getMask(), getResult(), getLse(),
                       getResultGrad(), getQueryGrad(), getKeyGrad(),
                       getValueGrad(), getWorkspace());
}

int64_t AttentionGradOp::getWorkspaceBytes(const LibraryModel &libraries) {
  return libraries.attentionGrad(describe(*this));
}

int64_t AttentionGradOp::getScratchBytes(const LibraryModel &libraries) {
  return libraries.attentionGradScratch(describe(*this));
}

// The scores again, and four products.
double AttentionGradOp::getExecutedFlops() {
  return 2.5 * flopsOf(describe(*this));
}

std::string AttentionGradOp::getCudaRemark() {
  return remarkOn(describe(*this), bool(getMask()), /*grad=*/true);
}

//===----------------------------------------------------------------------===//
// From nn
//===----------------------------------------------------------------------===//

// The mask as [batch, heads, seqQ, seqK]; only its keys need be there. First
// keys have one element a query.
static Value maskBuffer(CallEmitter &emitter, Value mask, Value query,
                        Value key) {
  if (!mask)
    return {};
  int64_t seqK = nn::elementType(mask).isInteger(32) ? 1 : nn::shapeOf(key)[1];
  Storage storage = emitter.storageOf(mask);
  SmallVector<int64_t> keys(storage.layout.shape);
  keys.back() = seqK;
  storage.layout = storage.layout.broadcast(keys);
  if (!storage.layout.isUnit(1))
    storage = emitter.copyOf(storage);
  ArrayRef<int64_t> q = nn::shapeOf(query);
  storage.layout = storage.layout.broadcast({q[0], q[2], q[1], seqK});
  return emitter.bufferOf(storage);
}

/// As many documents of a microbatch as the library may be planned for, where
/// the first keys are those of the data, of all of a sample's queries and keys;
/// else 0. The same for an attention and its gradient.
template <typename AttentionLike> static int64_t documentsOf(AttentionLike op) {
  auto reshape = op.getMask()
                     ? op.getMask().template getDefiningOp<nn::ReshapeOp>()
                     : nn::ReshapeOp();
  auto input =
      reshape ? dyn_cast<BlockArgument>(reshape.getOperand()) : BlockArgument();
  auto most = op->template getParentOfType<ModuleOp>()
                  ->template getAttrOfType<IntegerAttr>(nn::kMaxDocumentsAttr);
  if (!input || !most || !op.getCausal() ||
      nn::shapeOf(op.getQuery())[1] != nn::shapeOf(op.getKey())[1])
    return 0;
  auto function =
      dyn_cast<FunctionOpInterface>(input.getOwner()->getParentOp());
  if (!function ||
      nn::inputKind(function, input.getArgNumber()) != InputKind::FirstKeys)
    return 0;
  return most.getInt();
}

namespace {

struct AttentionCall : LibraryCallModel<AttentionCall, nn::AttentionOp> {
  bool canWrite(Operation *, unsigned result, const Layout &layout) const {
    return result == 0 && layout.isUnit(1);
  }

  void emit(nn::AttentionOp op, CallEmitter &emitter) const {
    Value q = emitter.rowsBuffer(op.getQuery());
    Value k = emitter.rowsBuffer(op.getKey());
    Value v = emitter.rowsBuffer(op.getValue());
    Value mask = maskBuffer(emitter, op.getMask(), op.getQuery(), op.getKey());
    Value result = emitter.resultBuffer(op.getResult());
    Value lse = emitter.resultBuffer(op.getLse());
    emitter.create<AttentionOp>(
        q, k, v, mask, result, lse, Value(), op.getScale(), op.getCausal(),
        op.getWindow(), op.getSoftcap(), op.getUnguarded(), op.getHidden(),
        op.getAdded(), emitter.options.deterministic, documentsOf(op));
  }
};

struct AttentionGradCall
    : LibraryCallModel<AttentionGradCall, nn::AttentionGradOp> {
  bool canWrite(Operation *, unsigned, const Layout &layout) const {
    return layout.isUnit(1);
  }

  void emit(nn::AttentionGradOp op, CallEmitter &emitter) const {
    Value q = emitter.rowsBuffer(op.getQuery());
    Value k = emitter.rowsBuffer(op.getKey());
    Value v = emitter.rowsBuffer(op.getValue());
    Value mask = maskBuffer(emitter, op.getMask(), op.getQuery(), op.getKey());
    Value result = emitter.rowsBuffer(op.getResult());
    Value lse = emitter.contiguousBuffer(op.getLse());
    Value resultGrad = emitter.rowsBuffer(op.getResultGrad());
    Value dq = emitter.resultBuffer(op.getQueryGrad());
    Value dk = emitter.resultBuffer(op.getKeyGrad());
    Value dv = emitter.resultBuffer(op.getValueGrad());
    emitter.create<AttentionGradOp>(
        q, k, v, mask, result, lse, resultGrad, dq, dk, dv, Value(),
        op.getScale(), op.getCausal(), op.getWindow(), op.getSoftcap(),
        op.getHidden(), op.getAdded(), emitter.options.deterministic,
        documentsOf(op));
  }
};

} // namespace

void AttentionOp::attachLibraryCalls(MLIRContext &context) {
  nn::AttentionOp::attachInterface<AttentionCall>(context);
}

void AttentionGradOp::attachLibraryCalls(MLIRContext &context) {
  nn::AttentionGradOp::attachInterface<AttentionGradCall>(context);
}
