// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the emitters of the three kinds of kernel share.

#ifndef SHARDONNX_LIB_CODEGEN_CPU_KERNELEMITTER_H
#define SHARDONNX_LIB_CODEGEN_CPU_KERNELEMITTER_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "shardonnx/Codegen/Kernel/BodyEmitter.h"

namespace shardonnx::kernels {

/// The state of one kernel's emission.
struct KernelEmitter {
  KernelEmitter(mlir::OpBuilder &b, mlir::Location loc, const Kernel &kernel,
                const KernelTarget &target)
      : b(b), loc(loc), kernel(kernel), target(target),
        body(b, loc, kernel, target) {}

  mlir::Value constant(int64_t value) {
    return body.getMemory().constant(value);
  }
  mlir::scf::ForOp loop(mlir::Value begin, mlir::Value end, mlir::Value step,
                        mlir::ValueRange inits = {}) {
    return mlir::scf::ForOp::create(b, loc, begin, end, step, inits);
  }
  /// Loads the buffers' addresses from the kernel's argument array.
  void loadAddresses(mlir::Value args);
  /// Splits a row number into indices along the leading axes.
  llvm::SmallVector<mlir::Value> delinearize(mlir::Value row);

  mlir::OpBuilder &b;
  mlir::Location loc;
  const Kernel &kernel;
  const KernelTarget &target;
  BodyEmitter body;
  llvm::SmallVector<mlir::Value> bases;
};

void emitFlat(KernelEmitter &emitter, mlir::Value begin, mlir::Value end);
void emitRows(KernelEmitter &emitter, mlir::Value begin, mlir::Value end);
void emitColumns(KernelEmitter &emitter, mlir::Value begin, mlir::Value end);

/// How many vectors to work on at once, given the cost of one in instructions.
unsigned unrollFor(unsigned cost);

} // namespace shardonnx::kernels

#endif // SHARDONNX_LIB_CODEGEN_CPU_KERNELEMITTER_H
