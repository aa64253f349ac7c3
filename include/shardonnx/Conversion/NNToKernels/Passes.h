// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes from nn ops to fused groups, and from groups to code.

#ifndef SHARDONNX_CONVERSION_NNTOKERNELS_PASSES_H
#define SHARDONNX_CONVERSION_NNTOKERNELS_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Pass/Pass.h"

namespace shardonnx {

#define GEN_PASS_DECL
#include "shardonnx/Conversion/NNToKernels/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "shardonnx/Conversion/NNToKernels/Passes.h.inc"

/// What a differentiated step needs before its units are gathered: named ops
/// taken apart, reductions normal, and backward's own elementwise values.
void buildDecomposePipeline(mlir::OpPassManager &manager);

/// Groups into kernels, and the reshapes between them folded.
void buildFusePipeline(mlir::OpPassManager &manager);

/// The pipelines above, by name.
void registerKernelPipelines();

} // namespace shardonnx

#endif // SHARDONNX_CONVERSION_NNTOKERNELS_PASSES_H
