// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A sink is a score of each query beside those of its keys, whose value is
// zeros (Xiao et al. 2024, StreamingLLM; gpt-oss trains one for each head).
// With a and l the result and log-sum-exp without it, s the sink:
//
//   lse = log(exp(l) + exp(s)),  result = a·exp(l - lse).
//
// Gradients of query, key and value need nothing else: exp(score - lse) are the
// probabilities, and what they sum to beside the result is result·dout, as the
// sink's value is zeros. The sink's own is -Σ exp(s - lse)·(result·dout), over
// samples and queries.

#ifndef SHARDONNX_LIB_DIALECT_NN_IR_ATTENTIONSINK_H
#define SHARDONNX_LIB_DIALECT_NN_IR_ATTENTIONSINK_H

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"

namespace shardonnx::nn {

/// [batch, heads, seq], f32 or i1, for rows [batch, seq, heads, headDim].
mlir::Value ofRows(NNBuilder &b, mlir::Value perQuery);

/// Result and log-sum-exp with a sink [heads], from those without: [batch, seq,
/// heads, headDim], of which the new result has `element`s, and f32 [batch,
/// heads, seq].
llvm::SmallVector<mlir::Value> addSink(NNBuilder &b, mlir::Value result,
                                       mlir::Value lse, mlir::Value sink,
                                       mlir::Type element);

/// The gradient of an attention's sink.
template <typename Op>
mlir::Value sinkGradient(Op op, NNBuilder &b, mlir::Value resultGrad);

} // namespace shardonnx::nn

#endif // SHARDONNX_LIB_DIALECT_NN_IR_ATTENTIONSINK_H
