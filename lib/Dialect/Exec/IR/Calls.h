// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the files of the library calls share. Each holds a family: the verifiers
// of its exec ops (what the runtime asks of buffers, so that a layout that a
// call cannot take never reaches the lowering), what passes ask of them, and
// how nn ops become them.

#ifndef SHARDONNX_LIB_DIALECT_EXEC_IR_CALLS_H
#define SHARDONNX_LIB_DIALECT_EXEC_IR_CALLS_H

#include "shardonnx/Dialect/Exec/IR/LibraryCall.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Support/ElementType.h"

namespace shardonnx::exec {

/// How an nn op becomes a call: `Model` says emit(Op, CallEmitter &), and
/// where results may be written or added.
template <typename Model, typename Op>
struct LibraryCallModel : LibraryCallOpInterface::ExternalModel<Model, Op> {
  void emitCall(mlir::Operation *op, CallEmitter &emitter) const {
    static_cast<const Model *>(this)->emit(llvm::cast<Op>(op), emitter);
  }

private:
  LibraryCallModel() = default;
  friend Model;
};

inline mlir::MemRefType typeOf(mlir::Value value) {
  return llvm::cast<mlir::MemRefType>(value.getType());
}

using shardonnx::dtypeOf;
inline ShxDType dtypeOf(mlir::Value value) {
  return dtypeOf(typeOf(value).getElementType());
}

/// A stride counts only along an axis of more than one element.
bool hasUnitStride(mlir::MemRefType type, int64_t axis);

/// The stride of a batch axis (counted from the end); 0 where it broadcasts.
int64_t batchStride(mlir::MemRefType type, int64_t fromEnd);

/// The distance of rows, all axes but the last being rows.
int64_t rowDistance(mlir::MemRefType type);

/// A null value is contiguous.
llvm::LogicalResult verifyContiguous(mlir::Operation *op, llvm::StringRef what,
                                     mlir::Value value);
/// Rows of any distance, each contiguous.
llvm::LogicalResult verifyRows(mlir::Operation *op, llvm::StringRef what,
                               mlir::Value value);

/// ShxGemmFlags of a call that multiplies.
template <typename Call> int32_t gemmFlags(Call op) {
  return (op.getTf32() ? SHX_GEMM_TF32 : 0) |
         (op.getDeterministic() ? SHX_GEMM_DETERMINISTIC : 0);
}

template <typename... Arguments>
llvm::SmallVector<CallArgument> callArguments(const Arguments &...arguments) {
  return {CallArgument(arguments)...};
}

/// Whose call it is, for the message of one that ends the program.
ProgramConstant originOf(mlir::Operation *op);

} // namespace shardonnx::exec

#endif // SHARDONNX_LIB_DIALECT_EXEC_IR_CALLS_H
