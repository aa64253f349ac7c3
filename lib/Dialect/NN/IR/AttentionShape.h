// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What attention over a rank's own keys and over those of all ranks share.

#ifndef SHARDONNX_LIB_DIALECT_NN_IR_ATTENTIONSHAPE_H
#define SHARDONNX_LIB_DIALECT_NN_IR_ATTENTIONSHAPE_H

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"

namespace shardonnx::nn {

/// query [batch, seqQ, heads, headDim], key and value [batch, seqK, kvHeads,
/// headDim] -> result as the query with the value's headDim, log-sum-exp
/// [batch, heads, seqQ] in f32.
inline llvm::LogicalResult
inferAttention(std::optional<mlir::Location> loc, mlir::ValueRange operands,
               llvm::SmallVectorImpl<mlir::Type> &inferred) {
  auto query = tensorType(operands[0]), value = tensorType(operands[2]);
  if (query.getRank() != 4 || tensorType(operands[1]).getRank() != 4 ||
      value.getRank() != 4)
    return misfit(loc,
                  "query, key and value must be [batch, seq, heads, headDim]");
  llvm::ArrayRef<int64_t> q = query.getShape();
  inferred.push_back(query.clone({q[0], q[1], q[2], value.getDimSize(3)}));
  inferred.push_back(mlir::RankedTensorType::get(
      {q[0], q[2], q[1]}, mlir::Float32Type::get(query.getContext())));
  return llvm::success();
}

/// Of query, key, value and sink, on a rank or on each of several.
template <typename Op> llvm::LogicalResult verifyHeads(Op op) {
  llvm::ArrayRef<int64_t> q = shapeOf(op.getQuery()), k = shapeOf(op.getKey()),
                          v = shapeOf(op.getValue());
  if (q[0] != k[0] || q[3] != k[3] || k.drop_back() != v.drop_back())
    return op.emitOpError("query, key and value do not fit each other: ")
           << op.getQuery().getType() << ", " << op.getKey().getType() << ", "
           << op.getValue().getType();
  if (q[2] % k[2] != 0)
    return op.emitOpError("has ") << q[2] << " heads, no multiple of the "
                                  << k[2] << " of key and value";
  mlir::Type element = elementType(op.getQuery());
  if (elementType(op.getKey()) != element ||
      elementType(op.getValue()) != element)
    return op.emitOpError("query, key and value differ in element type");
  if (op.getSink() && shapeOf(op.getSink()) != llvm::ArrayRef<int64_t>(q[2]))
    return op.emitOpError("sink must be [heads], not ")
           << op.getSink().getType();
  if (op.getSink() && op.getUnguarded())
    return op.emitOpError("has a sink, which every query sees");
  return llvm::success();
}

} // namespace shardonnx::nn

#endif // SHARDONNX_LIB_DIALECT_NN_IR_ATTENTIONSHAPE_H
