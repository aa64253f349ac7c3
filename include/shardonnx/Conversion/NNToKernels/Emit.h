// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a kernel's description to a function of the runtime's type ShxKernel.

#ifndef SHARDONNX_CONVERSION_NNTOKERNELS_EMIT_H
#define SHARDONNX_CONVERSION_NNTOKERNELS_EMIT_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "shardonnx/Conversion/NNToKernels/Kernel.h"

namespace shardonnx::kernels {

/// What the emitters ask of the machine.
struct KernelTarget {
  unsigned lanes = 8;       // f32 elements of one vector register
  unsigned registers = 16;  // vector registers
  bool nativeBF16 = false;  // rounds f32 to bf16 in one instruction
  bool packedPairs = false; // 16-bit elements lie two to a 32-bit register
};

/// Emits the kernel at the builder's insertion point, in LLVM, scf, vector,
/// arith and math; lowerKernel takes the function to LLVM alone.
mlir::LLVM::LLVMFuncOp emitKernel(mlir::OpBuilder &builder, mlir::Location loc,
                                  llvm::StringRef name, const Kernel &kernel,
                                  const KernelTarget &target);

/// Replaces math on vectors by polynomials and converts the rest to LLVM.
mlir::LogicalResult lowerKernel(mlir::LLVM::LLVMFuncOp function);

/// The second half of lowerKernel, for functions without math to expand.
mlir::LogicalResult convertKernel(mlir::LLVM::LLVMFuncOp function);

/// math.exp, tanh, erf, log, sin, cos and rsqrt on f32 vectors by polynomials,
/// within 2 units in the last place (sin and cos: for |x| < 1e5).
void expandMath(mlir::LLVM::LLVMFuncOp function);

} // namespace shardonnx::kernels

#endif // SHARDONNX_CONVERSION_NNTOKERNELS_EMIT_H
