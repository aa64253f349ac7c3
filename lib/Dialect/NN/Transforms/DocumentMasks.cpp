// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// nn-document-masks: samples that hold several documents are trained as if each
// document stood alone. Which keys a query sees follows from the tokens, so the
// reader of the data computes it, and attention takes one number a query.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Dialect/NN/IR/Inputs.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Support/UsageError.h"
#include "llvm/ADT/SetVector.h"

namespace shardonnx::nn {
#define GEN_PASS_DEF_DOCUMENTMASKSPASS
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"
} // namespace shardonnx::nn

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

static constexpr llvm::StringLiteral kOption = "--document-separator: ";
/// How exporters name the input of positions.
static bool isPositions(func::FuncOp function, BlockArgument argument) {
  return isNamed(inputName(function, argument.getArgNumber()),
                 InputKind::PositionIds);
}

/// The ids that embeddings read straight from an argument: the tokens.
static EmbeddingOp findTokens(func::FuncOp function) {
  EmbeddingOp found;
  function.walk([&](EmbeddingOp op) {
    Value ids = op.getIds();
    while (auto reshape = ids.getDefiningOp<ReshapeOp>())
      ids = reshape.getOperand();
    auto argument = dyn_cast<BlockArgument>(ids);
    if (!argument || shapeOf(argument).size() != 2)
      return;
    if (!found && !isPositions(function, argument))
      found = op;
  });
  return found;
}

/// Weights over the positions that no attention op computes.
static bool mixesPositions(Operation &op, int64_t length) {
  return isa<SoftmaxOp>(op) && shapeOf(op.getOperand(0)).size() >= 3 &&
         shapeOf(op.getOperand(0)).back() == length;
}

/// Whether a value is computed from the input of positions.
static bool readsPositions(func::FuncOp function, Value value) {
  SetVector<Value> values;
  values.insert(value);
  for (size_t i = 0; i < values.size(); ++i) {
    if (auto argument = dyn_cast<BlockArgument>(values[i])) {
      if (isPositions(function, argument))
        return true;
    } else {
      values.insert_range(values[i].getDefiningOp()->getOperands());
    }
  }
  return false;
}

static LogicalResult checkAttention(AttentionOp op, int64_t batch,
                                    int64_t length) {
  ArrayRef<int64_t> q = shapeOf(op.getQuery());
  if (op.getMask() &&
      readsPositions(op->getParentOfType<func::FuncOp>(), op.getMask()))
    return op.emitError()
           << kOption
           << "attention has a mask of the graph's own that is computed from "
              "position_ids, as transformers has one where no attention_mask "
              "comes with them: export the model with both, or with neither";
  // A causal mask that stands in the graph as a table.
  if (!op.getCausal() && op.getMask() &&
      op->getParentOfType<ModuleOp>()->hasAttr(kStrictAttr))
    return emitUsageError(op)
           << kOption
           << "--strict-numerics keeps the mask of attention as it is written "
              "out, which cannot be joined with the documents'; leave one out";
  if (!op.getCausal())
    return emitUsageError(op)
           << kOption
           << "attention sees later positions too, and only "
              "causal attention can be kept within documents";
  if (op.getMask())
    return emitUsageError(op)
           << kOption
           << "attention has a mask of its own, which cannot be "
              "joined with the documents'";
  if (q[0] != batch)
    return op.emitError() << kOption
                          << "attention has its samples among its heads, as "
                             "nn.MultiheadAttention does; let the module use "
                             "scaled_dot_product_attention";
  if (q[1] != length || shapeOf(op.getKey())[1] != length)
    return emitUsageError(op) << kOption << "attention is over " << q[1]
                              << " of " << shapeOf(op.getKey())[1]
                              << " positions, the tokens are " << length;
  return success();
}

static LogicalResult checkLoss(func::FuncOp function) {
  for (auto loss : function.getOps<LossOp>())
    if (loss.getDenominator() != "labels" && loss.getDenominator() != "sum")
      return emitUsageError(function)
             << kOption
             << "the loss of this graph does not count labels, so none can be "
                "left out where a document ends; train its logits with "
                "--loss=causal-lm";
  return success();
}

namespace {
struct DocumentMasksPass : nn::impl::DocumentMasksPassBase<DocumentMasksPass> {
  using DocumentMasksPassBase::DocumentMasksPassBase;

  LogicalResult run(func::FuncOp function) {
    EmbeddingOp embedding = findTokens(function);
    if (!embedding)
      return emitUsageError(function)
             << kOption << "no embedding reads an input of tokens";
    ArrayRef<int64_t> ids = shapeOf(embedding.getIds());
    int64_t vocabulary = shapeOf(embedding.getTable())[0];
    if (separator >= vocabulary)
      return emitUsageError(function)
             << kOption << int64_t(separator)
             << " is outside the vocabulary of " << vocabulary;
    int64_t batch = ids.front(), length = ids.back();
    for (BlockArgument argument : function.getArguments()) {
      if (isPositions(function, argument) &&
          shapeOf(argument) != ArrayRef<int64_t>{batch, length})
        return emitUsageError(function)
               << kOption << "the input position_ids is " << argument.getType()
               << ", so positions cannot restart in each sample's documents";
    }
    SmallVector<AttentionOp> attentions;
    for (Operation &op : function.getBody().front()) {
      if (auto attention = dyn_cast<AttentionOp>(op)) {
        if (failed(checkAttention(attention, batch, length)))
          return failure();
        attentions.push_back(attention);
      } else if (mixesPositions(op, length)) {
        return emitUsageError(&op)
               << kOption
               << "this softmax mixes positions but was not recognised as "
                  "attention (dropout on its weights and --strict-numerics "
                  "keep it written out), so documents cannot be kept apart";
      }
    }
    if (attentions.empty())
      return emitUsageError(function)
             << kOption << "the graph has no attention that it could keep "
             << "within documents";
    if (failed(checkLoss(function)))
      return failure();
    addFirstKeys(function, attentions, batch, length);
    return success();
  }

  /// No document is shorter than a token.
  int64_t documentsOfSample(int64_t length) const {
    constexpr int64_t kTokens = 256, kLeast = 8;
    return std::min(maxDocuments < 0 ? std::max(length / kTokens, kLeast)
                                     : int64_t(maxDocuments),
                    length);
  }

  void addFirstKeys(func::FuncOp function, ArrayRef<AttentionOp> attentions,
                    int64_t batch, int64_t length) {
    OpBuilder builder(function.getBody());
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(
        index, RankedTensorType::get({batch, length}, builder.getI32Type()),
        inputAttributes(&getContext(), InputKind::FirstKeys),
        function.getLoc());
    Value argument = function.getArgument(index);
    for (AttentionOp op : attentions) {
      // A reshape beside each, so that it is of the attention's unit.
      builder.setInsertionPoint(op);
      Value keys = NNBuilder(builder, op.getLoc())
                       .reshape(argument, {batch, 1, length, 1});
      inheritPlace(keys.getDefiningOp(), op);
      op.getMaskMutable().assign(keys);
    }
    getOperation()->setAttr(kDocumentSeparatorAttr,
                            builder.getI64IntegerAttr(separator));
    int64_t most = batch * documentsOfSample(length);
    if (most == 0)
      return;
    getOperation()->setAttr(kMaxDocumentsAttr, builder.getI64IntegerAttr(most));
    if (batch > 1) // docs/cuda.md
      function.emitWarning()
          << "--max-documents: cuDNN takes the packed samples of a microbatch "
             "as one, which no GPU has computed yet (as several its gradient "
             "was not a number); compare some steps with --max-documents=0";
  }

  void runOnOperation() override {
    if (separator < 0)
      return;
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward || failed(run(forward)))
      signalPassFailure();
  }
};
} // namespace
