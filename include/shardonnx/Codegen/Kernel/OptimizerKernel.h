// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The optimizer's step over a slice as a kernel like any other.

#ifndef SHARDONNX_CODEGEN_KERNEL_OPTIMIZERKERNEL_H
#define SHARDONNX_CODEGEN_KERNEL_OPTIMIZERKERNEL_H

#include "shardonnx/Codegen/Kernel/Kernel.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Choices.h"
#include <memory>

namespace shardonnx::kernels {

/// A kernel and the body that it describes. Its buffers are shx_optimizer's
/// arguments: master, gradient, two states, parameters, scalars.
struct OptimizerKernel {
  std::unique_ptr<mlir::Region> body;
  Kernel kernel;
};

/// Of units whose products read `paramType`: where that is not the masters'
/// f32, the kernel also writes the new master rounded to it.
llvm::FailureOr<OptimizerKernel>
buildOptimizerKernel(mlir::MLIRContext *context, mlir::Location loc,
                     Optimizer optimizer, ShxDType paramType);

} // namespace shardonnx::kernels

#endif // SHARDONNX_CODEGEN_KERNEL_OPTIMIZERKERNEL_H
