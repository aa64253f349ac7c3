// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The values of a kernel's body on one vector of its iteration space.

#ifndef SHARDONNX_CODEGEN_KERNEL_BODYEMITTER_H
#define SHARDONNX_CODEGEN_KERNEL_BODYEMITTER_H

#include "shardonnx/Codegen/Kernel/Kernel.h"
#include "shardonnx/Codegen/Kernel/VectorMemory.h"

namespace shardonnx::kernels {

using ValueMap = llvm::DenseMap<mlir::Value, mlir::Value>;

/// One vector of the iteration space and what is known there.
struct Scope {
  unsigned width = 1;
  unsigned alignmentOf(unsigned buffer) const {
    return alignments.empty() ? 0 : alignments[buffer];
  }
  mlir::Value index;                     // of the first lane, vector axis
  llvm::ArrayRef<mlir::Value> addresses; // per buffer, at vector index 0
  llvm::ArrayRef<unsigned> alignments;   // per buffer, bytes; none: elements
  llvm::ArrayRef<mlir::Value> leading;   // index along each leading axis
  const ValueMap *scalars = nullptr;     // uniform values, as vector<1>
  const ValueMap *rowBuffers = nullptr;  // values kept for this row: address
  ValueMap values;                       // what this scope has emitted
};

class BodyEmitter {
public:
  BodyEmitter(mlir::OpBuilder &builder, mlir::Location loc,
              const Kernel &kernel, const KernelTarget &target)
      : b(builder), loc(loc), kernel(kernel), memory(builder, loc, target) {}

  /// The value as a vector of scope.width lanes.
  mlir::Value emit(mlir::Value value, Scope &scope);
  /// Stores the i-th result of the kernel.
  void storeOutput(unsigned i, Scope &scope);
  void storeRowBuffer(mlir::Value value, mlir::Value buffer, Scope &scope);
  /// Emits all uniform values of `ops` in order into scope.values.
  void emitUniform(llvm::ArrayRef<mlir::Operation *> ops, Scope &scope);

  /// The addresses of all buffers at the given leading indices.
  llvm::SmallVector<mlir::Value>
  advanceAll(llvm::ArrayRef<mlir::Value> bases,
             llvm::ArrayRef<mlir::Value> leading);
  VectorMemory &getMemory() { return memory; }

private:
  mlir::Value roundAtRandom(mlir::Value vector, const RandomRounding &how,
                            Scope &scope);
  mlir::Value emitOp(mlir::Operation *op, Scope &scope);
  mlir::Value emitConstant(nn::ConstantOp op, unsigned width);
  mlir::Value emitIota(nn::IotaOp op, Scope &scope);

  mlir::OpBuilder &b;
  mlir::Location loc;
  const Kernel &kernel;
  VectorMemory memory;
};

/// An accumulator's start, its step and its end, for each kind of reduction.
mlir::Value initialAccumulator(mlir::OpBuilder &b, mlir::Location loc,
                               mlir::Operation *reduction, unsigned width);
mlir::Value accumulate(mlir::OpBuilder &b, mlir::Location loc,
                       mlir::Operation *reduction, mlir::Value accumulator,
                       mlir::Value vector);
/// All lanes of a vector as one, in a vector<1>.
mlir::Value reduceLanes(mlir::OpBuilder &b, mlir::Location loc,
                        mlir::Operation *reduction, mlir::Value vector);
/// The mean's division, for the other kinds the sum or maximum itself.
mlir::Value finishReduction(mlir::OpBuilder &b, mlir::Location loc,
                            mlir::Operation *reduction, mlir::Value vector,
                            int64_t count);

/// A rough cost of an op on one vector, in instructions.
unsigned costOf(mlir::Operation *op);

} // namespace shardonnx::kernels

#endif // SHARDONNX_CODEGEN_KERNEL_BODYEMITTER_H
