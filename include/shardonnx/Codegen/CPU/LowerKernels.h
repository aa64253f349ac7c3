// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels as functions for the CPU, and how the runtime splits each.

#ifndef SHARDONNX_CODEGEN_CPU_LOWERKERNELS_H
#define SHARDONNX_CODEGEN_CPU_LOWERKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Codegen/Kernel/Emit.h"
#include "shardonnx/Codegen/Kernel/Kernel.h"
#include "shardonnx/Codegen/Kernel/OptimizerKernel.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx {
struct TargetSpec;
} // namespace shardonnx

namespace shardonnx::kernels {

/// What kernels for this processor look like.
KernelTarget kernelTargetOf(const TargetSpec &target);

/// Emits the kernel at the builder's insertion point as a function of the
/// runtime's type ShxKernel, in LLVM, scf, vector, arith and math; lowerKernel
/// takes the function to LLVM alone.
mlir::LLVM::LLVMFuncOp emitKernel(mlir::OpBuilder &builder, mlir::Location loc,
                                  llvm::StringRef name, const Kernel &kernel,
                                  const KernelTarget &target);

/// Replaces math on vectors by polynomials and converts the rest to LLVM.
mlir::LogicalResult lowerKernel(mlir::LLVM::LLVMFuncOp function);

/// Replaces every exec.kernel of the module by an llvm.func of its name and of
/// the runtime's type ShxKernel. `launches` gets count and grain of each: what
/// a lowered exec.launch passes to shx_launch. The launches themselves stay.
mlir::LogicalResult lowerKernels(mlir::ModuleOp module,
                                 const TargetSpec &target,
                                 llvm::StringMap<KernelLaunch> &launches);

/// Adds the kernel that shx_optimizer runs over a slice to the module.
mlir::LogicalResult addOptimizerKernel(mlir::ModuleOp module,
                                       llvm::StringRef name,
                                       const OptimizerTypes &types,
                                       const TargetSpec &target);

} // namespace shardonnx::kernels

#endif // SHARDONNX_CODEGEN_CPU_LOWERKERNELS_H
