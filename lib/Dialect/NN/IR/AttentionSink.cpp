// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See AttentionSink.h.

#include "AttentionSink.h"

#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::nn;

Value nn::ofRows(NNBuilder &b, Value perQuery) {
  ArrayRef<int64_t> s = shapeOf(perQuery);
  return b.reshape(b.transpose(perQuery, {0, 2, 1}), {s[0], s[2], s[1], 1});
}

/// [heads] beside [batch, heads, seq].
static Value besideQueries(NNBuilder &b, Value sink) {
  return b.reshape(sink, {shapeOf(sink)[0], 1});
}

// The larger of both first: a query that sees no key has -inf, or a number that
// hides.
SmallVector<Value> nn::addSink(NNBuilder &b, Value result, Value lse,
                               Value sink, Type element) {
  Value score = besideQueries(b, sink);
  Value peak = b.binary<MaxOp>(lse, score);
  Value keys = b.unary<ExpOp>(b.sub(lse, peak));
  Value sum = b.add(keys, b.unary<ExpOp>(b.sub(score, peak)));
  Value gated = b.mul(b.f32(result), ofRows(b, b.div(keys, sum)));
  return {b.cast(gated, element), b.add(peak, b.unary<LogOp>(sum))};
}

template <typename Op>
Value nn::sinkGradient(Op op, NNBuilder &b, Value resultGrad) {
  Value dot = b.rowSum(b.mul(b.f32(op.getResult()), b.f32(resultGrad)));
  ArrayRef<int64_t> s = shapeOf(dot);
  dot = b.transpose(b.reshape(dot, s.drop_back()), {0, 2, 1});
  Value score = besideQueries(b, op.getSink());
  Value share = b.unary<ExpOp>(b.sub(score, op.getLse()));
  Value sum = b.sum(b.mul(share, dot), {0, 2}, /*keepdims=*/false);
  return b.gradientFor(op.getSink(), b.unary<NegOp>(sum));
}

template Value nn::sinkGradient(AttentionOp, NNBuilder &, Value);
template Value nn::sinkGradient(RingAttentionOp, NNBuilder &, Value);
