// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What lookups of a whole vocabulary and of a rank's part of one share.

#ifndef SHARDONNX_LIB_DIALECT_NN_IR_LOOKUP_H
#define SHARDONNX_LIB_DIALECT_NN_IR_LOOKUP_H

#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/ShapeRule.h"

namespace shardonnx::nn {

/// table [words, width], ids [...] -> [..., width].
inline llvm::LogicalResult
inferLookup(std::optional<mlir::Location> loc, mlir::ValueRange operands,
            llvm::SmallVectorImpl<mlir::Type> &inferred) {
  auto table = tensorType(operands[0]);
  if (table.getRank() != 2)
    return misfit(loc, "the table must have two axes, not ", table);
  llvm::SmallVector<int64_t> shape(shapeOf(operands[1]));
  shape.push_back(table.getDimSize(1));
  inferred.push_back(table.clone(shape));
  return llvm::success();
}

/// Of the gradient's op: ids [...], rows [..., width], table [words, width].
template <typename Op> llvm::LogicalResult verifyLookupGrad(Op op) {
  llvm::ArrayRef<int64_t> ids = shapeOf(op.getIds()),
                          rows = shapeOf(op.getResultGrad()),
                          table = shapeOf(op.getTableGrad());
  if (table.size() == 2 && rows.size() == ids.size() + 1 &&
      rows.drop_back() == ids && rows.back() == table.back())
    return llvm::success();
  return op.emitOpError("cannot add rows ")
         << op.getResultGrad().getType() << " at ids " << op.getIds().getType()
         << " to a table " << op.getTableGrad().getType();
}

} // namespace shardonnx::nn

#endif // SHARDONNX_LIB_DIALECT_NN_IR_LOOKUP_H
