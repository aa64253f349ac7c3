// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The heads of what each op defines, and how a family of ops is registered.

#ifndef SHARDONNX_LIB_DIALECT_NN_IR_DEFINEOPS_H
#define SHARDONNX_LIB_DIALECT_NN_IR_DEFINEOPS_H

#include "shardonnx/Dialect/NN/IR/NN.h"

/// Its shape rule, which appends to `inferred`.
#define NN_INFER(OP)                                                           \
  LogicalResult OP::inferReturnTypes(                                          \
      MLIRContext *context, std::optional<Location> loc, ValueRange operands,  \
      DictionaryAttr attributes, OpaqueProperties properties,                  \
      RegionRange regions, SmallVectorImpl<Type> &inferred)

/// Its gradient (DifferentiableOpInterface).
#define NN_VJP(OP)                                                             \
  LogicalResult OP::buildVjp(OpBuilder &builder, ValueRange resultGrads,       \
                             const llvm::SmallBitVector &needed,               \
                             MutableArrayRef<Value> operandGrads)

/// What it computes on vectors (VectorOpInterface).
#define NN_EMIT(OP) Value OP::emitVector(OpBuilder &builder, ValueRange vectors)

namespace shardonnx::nn {

template <typename... Ops> void registerAll(NNDialect &dialect) {
  (mlir::RegisteredOperationName::insert<Ops>(dialect), ...);
}

} // namespace shardonnx::nn

#endif // SHARDONNX_LIB_DIALECT_NN_IR_DEFINEOPS_H
