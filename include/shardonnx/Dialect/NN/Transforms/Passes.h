// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes on nn and the two pipelines that string some of them together.

#ifndef SHARDONNX_DIALECT_NN_TRANSFORMS_PASSES_H
#define SHARDONNX_DIALECT_NN_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace shardonnx::nn {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "shardonnx/Dialect/NN/Transforms/Passes.h.inc"

/// What a differentiated step needs before its units are gathered: named ops
/// taken apart, reductions normal, and backward's own elementwise values.
/// `keepPercent`: nn-recompute's keep-percent; `mlpsAgain`: its mlps-again.
void buildDecomposePipeline(mlir::OpPassManager &manager,
                            unsigned keepPercent = 0, bool mlpsAgain = false);

/// Groups into kernels, and the reshapes between them folded.
void buildFusePipeline(mlir::OpPassManager &manager);

/// Registers `nn-decompose-step` and `nn-fuse-step`.
void registerNNPipelines();

} // namespace shardonnx::nn

#endif // SHARDONNX_DIALECT_NN_TRANSFORMS_PASSES_H
