// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lookups and losses of a vocabulary that the ranks of an axis share: how the
// whole ones are split, and the parts' shape rules, verifiers, gradients,
// FLOPs.

#include "DefineOps.h"
#include "Evaluate.h"
#include "Lookup.h"
#include "Shardable.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

//===----------------------------------------------------------------------===//
// embedding_part
//===----------------------------------------------------------------------===//

NN_INFER(EmbeddingPartOp) { return inferLookup(loc, operands, inferred); }

/// Each rank has a word of a vocabulary of which it has so many rows.
template <typename Op> static LogicalResult verifyWords(Op op, int64_t rows) {
  auto padding = int64_t(op.getPadding());
  if (padding < 0 || padding >= std::min(rows, int64_t(op.getParts())))
    return op.emitOpError("has ")
           << padding << " rows that are no words, of " << rows << " on "
           << int64_t(op.getParts()) << " ranks";
  return verifyAxis(op);
}

LogicalResult EmbeddingPartOp::verify() {
  return verifyWords(*this, shapeOf(getTable())[0]);
}

NN_VJP(EmbeddingPartOp) {
  if (!needed[0])
    return success();
  auto type = tensorType(getTable()).clone(gradientElementType(getTable()));
  operandGrads[0] = EmbeddingPartGradOp::create(
      builder, getLoc(), type, getIds(), resultGrads[0], getAxisAttr(),
      getPartsAttr(), getPaddingAttr());
  return success();
}

LogicalResult EmbeddingPartGradOp::verify() {
  if (failed(verifyLookupGrad(*this)))
    return failure();
  return verifyWords(*this, shapeOf(getTableGrad())[0]);
}

//===----------------------------------------------------------------------===//
// linear_cross_entropy_part
//===----------------------------------------------------------------------===//

/// operand [rows, width], weight [width, words] or its transpose, labels
/// [rows].
template <typename Op> static LogicalResult verifyLinear(Op op) {
  ArrayRef<int64_t> rows = shapeOf(op.getOperand()),
                    weight = shapeOf(op.getWeight());
  bool fits = rows.size() == 2 && weight.size() == 2 &&
              weight[op.getTransposeWeight() ? 1 : 0] == rows[1] &&
              elementType(op.getWeight()) == elementType(op.getOperand()) &&
              shapeOf(op.getLabels()) == rows.take_front();
  if (!fits)
    return op.emitOpError("operand, weight and labels do not fit each other: ")
           << op.getOperand().getType() << ", " << op.getWeight().getType()
           << " and " << op.getLabels().getType();
  return verifyWords(op, weight[op.getTransposeWeight() ? 0 : 1]);
}

NN_INFER(LinearCrossEntropyPartOp) {
  inferred.push_back(RankedTensorType::get({}, Float32Type::get(context)));
  return success();
}

LogicalResult LinearCrossEntropyPartOp::verify() { return verifyLinear(*this); }

// As nn.linear_cross_entropy's, which computes the sum too.
NN_VJP(LinearCrossEntropyPartOp) {
  Type weightGrad =
      tensorType(getWeight()).clone(gradientElementType(getWeight()));
  auto grad = LinearCrossEntropyPartGradOp::create(
      builder, getLoc(),
      TypeRange{getType(), getOperand().getType(), weightGrad}, getOperand(),
      getWeight(), getLabels(), resultGrads[0], getTransposeWeightAttr(),
      getIgnoreIndexAttr(), getAxisAttr(), getPartsAttr(), getPaddingAttr());
  if (needed[0])
    operandGrads[0] = grad.getOperandGrad();
  if (needed[1])
    operandGrads[1] = grad.getWeightGrad();
  return success();
}

/// Of the product with this rank's words.
template <typename Op> static int64_t productFlops(Op op) {
  return 2 * shapeOf(op.getOperand())[0] *
         tensorType(op.getWeight()).getNumElements();
}

int64_t LinearCrossEntropyPartOp::getFlops() { return productFlops(*this); }

LogicalResult LinearCrossEntropyPartGradOp::verify() {
  if (tensorType(getSum()).getRank() != 0 ||
      getOperandGrad().getType() != getOperand().getType() ||
      shapeOf(getWeightGrad()) != shapeOf(getWeight()))
    return emitOpError("results must be a scalar, the operand's type and the "
                       "weight's shape");
  return verifyLinear(*this);
}

// Forward and both gradients.
int64_t LinearCrossEntropyPartGradOp::getFlops() {
  return 3 * productFlops(*this);
}

//===----------------------------------------------------------------------===//
// How whole vocabularies are split
//===----------------------------------------------------------------------===//

namespace {
struct ShardableEmbedding : ShardableModel<ShardableEmbedding, EmbeddingOp> {
  static LogicalResult rule(EmbeddingOp op, ShardingQuery &query);
};
struct ShardableLinearLoss
    : ShardableModel<ShardableLinearLoss, LinearCrossEntropyOp> {
  static LogicalResult rule(LinearCrossEntropyOp op, ShardingQuery &query);
};
} // namespace

// The ids, or the table's columns; or its rows, of which a rank finds some, and
// the sum is what all have found.
LogicalResult ShardableEmbedding::rule(EmbeddingOp op, ShardingQuery &query) {
  unsigned split = query.splitOperand();
  const Sharding &given = query.operands[split];
  query.needed[split] = given;
  if (split == 0 && given.dim == 0) {
    query.sums = true;
    return given.sections.size() == 1 ? success()
                                      : query.refuse("its table is cut");
  }
  query.results[0] = split == 0 ? given.along(rankOf(op) - 1) : given;
  return success();
}

// Its rows; or the words of the weight, and the ranks compute the sum of all
// rows together.
LogicalResult ShardableLinearLoss::rule(LinearCrossEntropyOp op,
                                        ShardingQuery &query) {
  if (query.splitOperand() != 1)
    return shardEntropy(query);
  const Sharding &weight = query.operands[1];
  int64_t words = op.getTransposeWeight() ? 0 : 1;
  if (weight.dim != words || weight.sections.size() != 1)
    return query.refuse("what is split is not its vocabulary");
  query.needed[1] = weight;
  return success();
}

void nn::attachVocabularyShardings(MLIRContext &context) {
  EmbeddingOp::attachInterface<ShardableEmbedding>(context);
  LinearCrossEntropyOp::attachInterface<ShardableLinearLoss>(context);
}

//===----------------------------------------------------------------------===//
// By definition
//===----------------------------------------------------------------------===//

NN_EVALUATE(EmbeddingPartOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(EmbeddingPartGradOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(LinearCrossEntropyPartOp) {
  return refuseAlone(*this, interpreter);
}
NN_EVALUATE(LinearCrossEntropyPartGradOp) {
  return refuseAlone(*this, interpreter);
}
