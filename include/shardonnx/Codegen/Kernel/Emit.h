// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the emitters for CPUs and for GPUs share: the machine as they see it,
// and the way of what they emitted to the LLVM dialect.

#ifndef SHARDONNX_CODEGEN_KERNEL_EMIT_H
#define SHARDONNX_CODEGEN_KERNEL_EMIT_H

#include "llvm/Support/LogicalResult.h"

namespace mlir::LLVM {
class LLVMFuncOp;
} // namespace mlir::LLVM

namespace shardonnx::kernels {

/// What the emitters ask of the machine.
struct KernelTarget {
  unsigned lanes = 8;       // f32 elements of one vector register
  unsigned registers = 16;  // vector registers
  bool nativeBF16 = false;  // rounds f32 to bf16 in one instruction
  bool packedPairs = false; // 16-bit elements lie two to a 32-bit register
};

/// Converts an emitted kernel (LLVM, scf, vector, arith and math) to LLVM
/// alone. Math without an instruction is expanded before.
llvm::LogicalResult convertKernel(mlir::LLVM::LLVMFuncOp function);

} // namespace shardonnx::kernels

#endif // SHARDONNX_CODEGEN_KERNEL_EMIT_H
