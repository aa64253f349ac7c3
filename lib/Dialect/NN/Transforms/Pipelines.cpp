// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the passes that make nn ops ready for kernels.

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"

using namespace mlir;
using namespace shardonnx;

void nn::buildDecomposePipeline(OpPassManager &manager, unsigned keepPercent,
                                bool mlpsAgain) {
  auto &functions = manager.nest<func::FuncOp>();
  functions.addPass(nn::createDecomposePass());
  functions.addPass(nn::createNormalizeReductionsPass());
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  nn::RecomputePassOptions recompute;
  recompute.keepPercent = keepPercent;
  recompute.mlpsAgain = mlpsAgain;
  functions.addPass(nn::createRecomputePass(recompute));
}

void nn::buildFusePipeline(OpPassManager &manager) {
  auto &functions = manager.nest<func::FuncOp>();
  functions.addPass(nn::createFusePass());
  functions.addPass(createCanonicalizerPass());
}

void nn::registerNNPipelines() {
  PassPipelineRegistration<>(
      "nn-decompose-step",
      "Named ops apart, reductions normal, elementwise "
      "values recomputed in backward",
      [](OpPassManager &manager) { nn::buildDecomposePipeline(manager); });
  PassPipelineRegistration<>("nn-fuse-step",
                             "nn-fuse, and the reshapes between groups folded",
                             nn::buildFusePipeline);
}
