// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention whose keys come from rank after rank: shape rule, verifier,
// gradient, FLOPs.

#include "AttentionShape.h"
#include "AttentionSink.h"
#include "DefineOps.h"
#include "Evaluate.h"
#include "Shardable.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

//===----------------------------------------------------------------------===//
// Shape rule, verifier, gradient, FLOPs
//===----------------------------------------------------------------------===//

NN_INFER(RingAttentionOp) { return inferAttention(loc, operands, inferred); }

LogicalResult RingAttentionOp::verify() {
  if (failed(verifyHeads(*this)))
    return failure();
  ArrayRef<int64_t> q = shapeOf(getQuery()), k = shapeOf(getKey());
  if (getCausal() && (!getZigzag() || q[1] != k[1]))
    return emitOpError("is causal, and needs a zigzag of one sequence");
  if (getZigzag() && (q[1] % 2 != 0 || k[1] % 2 != 0))
    return emitOpError("is of a zigzag, and needs two chunks on a rank");
  bool first = getMask() && elementType(getMask()).isInteger(32);
  if (getWindow() != 0 && !(getCausal() && first))
    return emitOpError("has a window, and needs causal queries' first keys");
  if (!getMask())
    return verifyAxis(*this);
  SmallVector<int64_t> scores = {q[0], q[2], q[1], k[1] * int64_t(getParts())};
  if (first ? shapeOf(getMask()) != ArrayRef<int64_t>{q[0], 1, q[1], 1}
            : !broadcastsTo(shapeOf(getMask()), scores))
    return emitOpError("mask ") << getMask().getType()
                                << " is neither of this rank's first keys nor "
                                << "of all scores of its queries";
  return verifyAxis(*this);
}

NN_VJP(RingAttentionOp) {
  if (resultGrads[1])
    return emitOpError("has no gradient through its log-sum-exp");
  if (getMask() && needed[3])
    return emitOpError("has no gradient of its mask");
  NNBuilder b(builder, getLoc());
  auto grad = RingAttentionGradOp::create(
      builder, getLoc(),
      TypeRange{getQuery().getType(), getKey().getType(), getValue().getType()},
      getQuery(), getKey(), getValue(), getMask(), getResult(), getLse(),
      b.cast(resultGrads[0], elementType(getResult())), getScaleAttr(),
      getCausalAttr(), getWindowAttr(), getSoftcapAttr(), getZigzagAttr(),
      getAxisAttr(), getPartsAttr());
  for (unsigned i = 0; i < 3; ++i)
    if (needed[i])
      operandGrads[i] = grad->getResult(i);
  if (getSink() && needed.back())
    operandGrads.back() = sinkGradient(*this, b, resultGrads[0]);
  return success();
}

/// As nn.attention's: of this rank's queries and all keys.
template <typename Op> static int64_t ringFlops(Op op) {
  ArrayRef<int64_t> q = shapeOf(op.getQuery()), v = shapeOf(op.getValue());
  return 2 * q[0] * q[2] * q[1] * v[1] * int64_t(op.getParts()) * (q[3] + v[3]);
}

int64_t RingAttentionOp::getFlops() { return ringFlops(*this); }
int64_t RingAttentionGradOp::getFlops() { return 2 * ringFlops(*this); }

//===----------------------------------------------------------------------===//
// On another axis of the mesh, by definition
//===----------------------------------------------------------------------===//

namespace {
struct ShardableRing : ShardableModel<ShardableRing, RingAttentionOp> {
  static LogicalResult rule(RingAttentionOp op, ShardingQuery &query);
};
} // namespace

// Heads, as nn.attention's.
LogicalResult ShardableRing::rule(RingAttentionOp op, ShardingQuery &query) {
  for (unsigned i = 0; i < 3; ++i) {
    const Sharding &given = query.operands[i];
    if (given.dim != 2 || given.sections.size() != 1)
      return query.refuse("what is split are not its heads");
    query.needed[i] = given;
  }
  const Sharding &heads = query.needed[0];
  if (Value mask = op.getMask()) {
    int64_t dim = rankOf(mask) - 3;
    if (dim >= 0 && shapeOf(mask)[dim] == heads.size())
      query.needed[3] = heads.along(dim);
  }
  if (op.getSink())
    query.needed.back() = heads.along(0);
  query.results = {heads, heads.along(1)};
  return success();
}

void nn::attachRingShardings(MLIRContext &context) {
  RingAttentionOp::attachInterface<ShardableRing>(context);
}

NN_EVALUATE(RingAttentionOp) { return refuseAlone(*this, interpreter); }
NN_EVALUATE(RingAttentionGradOp) { return refuseAlone(*this, interpreter); }
