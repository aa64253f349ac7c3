// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the passes that make nn ops ready for kernels.

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "shardonnx/Conversion/NNToKernels/Passes.h"

using namespace mlir;
using namespace shardonnx;

void shardonnx::buildDecomposePipeline(OpPassManager &manager) {
  auto &functions = manager.nest<func::FuncOp>();
  functions.addPass(createNNDecomposePass());
  functions.addPass(createNNNormalizeReductionsPass());
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  functions.addPass(createNNRecomputePass());
}

void shardonnx::buildFusePipeline(OpPassManager &manager) {
  auto &functions = manager.nest<func::FuncOp>();
  functions.addPass(createNNFusePass());
  functions.addPass(createCanonicalizerPass());
}

void shardonnx::registerKernelPipelines() {
  PassPipelineRegistration<>("nn-decompose-step",
                             "Named ops apart, reductions normal, elementwise "
                             "values recomputed in backward",
                             buildDecomposePipeline);
  PassPipelineRegistration<>("nn-fuse-step",
                             "nn-fuse, and the reshapes between groups folded",
                             buildFusePipeline);
}
