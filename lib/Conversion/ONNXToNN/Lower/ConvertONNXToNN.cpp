// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The conversion pass and the pipeline of the raise.

#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"

#include "Graph.h"
#include "Handlers.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Support/SpelledOption.h"

using namespace mlir;

namespace shardonnx {

#define GEN_PASS_DEF_CONVERTONNXTONN
#include "shardonnx/Conversion/ONNXToNN/Passes.h.inc"

namespace {

struct ConvertONNXToNN : impl::ConvertONNXToNNBase<ConvertONNXToNN> {
  using ConvertONNXToNNBase::ConvertONNXToNNBase;

  void runOnOperation() override {
    if (strict)
      getOperation()->setAttr(nn::kStrictAttr, UnitAttr::get(&getContext()));
    if (failed(lowerGraph(getOperation(),
                          {assumeFullMask, positionsVary, dropout})))
      signalPassFailure();
  }
};

} // namespace

bool isEvaluable(StringRef opType) {
  // The standard's body of Celu gives a scalar one axis, and that of
  // MeanVarianceNormalization gives f32 where f16 is read.
  return opType == "Shape" || opType == "Size" || opType == "Celu" ||
         opType == "MeanVarianceNormalization" || findEvaluator(opType);
}

bool isRaisable(StringRef opType) {
  return isEvaluable(opType) || findHandler(opType);
}

void buildRaisePipeline(OpPassManager &manager, const RaiseOptions &options) {
  ConvertONNXToNNOptions convert;
  convert.dropout = options.dropout;
  convert.positionsVary = options.positionsVary;
  convert.strict = options.strictNumerics;
  manager.addPass(createConvertONNXToNN(convert));
  manager.addPass(nn::createDemoteF64Pass());
  RaiseDropoutOptions masks;
  masks.dropout = options.dropout;
  manager.addPass(createRaiseDropout(masks));
  manager.addPass(nn::createCSEAcrossModulesPass());
  if (!options.strictNumerics) {
    manager.addPass(createRaiseLayout());
    manager.addPass(createRaiseNorm());
    manager.addPass(createRaiseActivation());
    manager.addPass(createRaiseRotary());
    manager.addPass(createRaiseAttention());
    manager.addPass(createRaiseMasks());
  }
  manager.addPass(createRaiseDeviation());
  manager.addPass(createCanonicalizerPass());
  manager.addPass(nn::createCSEAcrossModulesPass());
  ReportRaiseOptions report;
  report.strict = options.strictNumerics;
  manager.addPass(createReportRaise(report));
}

} // namespace shardonnx
