// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of a module as functions, and how the runtime splits each.

#ifndef SHARDONNX_CONVERSION_NNTOKERNELS_LOWERKERNELS_H
#define SHARDONNX_CONVERSION_NNTOKERNELS_LOWERKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "shardonnx/Conversion/ExecToLLVM/Object.h"
#include "shardonnx/Conversion/NNToKernels/Emit.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx::exec {
class KernelOp;
} // namespace shardonnx::exec

namespace shardonnx::kernels {

/// What an exec.kernel describes; fails if its operands do not fit its domain.
llvm::FailureOr<Kernel> describeKernel(exec::KernelOp op);

/// What kernels for this processor look like.
KernelTarget kernelTargetOf(const TargetSpec &target);

/// Replaces every exec.kernel of the module by an llvm.func of its name and of
/// the runtime's type ShxKernel. `launches` gets count and grain of each: what
/// a lowered exec.launch passes to shx_launch. The launches themselves stay.
mlir::LogicalResult lowerKernels(mlir::ModuleOp module,
                                 const TargetSpec &target,
                                 llvm::StringMap<KernelLaunch> &launches);

enum class Optimizer { AdamW, Adam, SGD };

/// Adds the kernel that shx_optimizer runs over a slice to the module.
mlir::LogicalResult addOptimizerKernel(mlir::ModuleOp module,
                                       llvm::StringRef name,
                                       Optimizer optimizer,
                                       const TargetSpec &target);

} // namespace shardonnx::kernels

#endif // SHARDONNX_CONVERSION_NNTOKERNELS_LOWERKERNELS_H
