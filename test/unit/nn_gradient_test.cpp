// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whole models: the gradients of @microbatch against finite differences of
// @eval's loss.

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "nn_reference.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Differentiate/Passes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::test;

namespace {

class GradientTest : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    context.loadDialect<nn::NNDialect, func::FuncDialect>();
    std::string path =
        std::string(SHARDONNX_TEST_DIR "/Differentiate/") + GetParam();
    module = parseSourceFile<ModuleOp>(path, &context);
    ASSERT_TRUE(module) << path;
    // The warning about a parameter that stays is another test's matter.
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &diagnostic) {
      return success(diagnostic.getSeverity() == DiagnosticSeverity::Warning);
    });
    PassManager passes(&context);
    passes.addPass(nn::createAttachLossPass());
    passes.addPass(createDifferentiatePass());
    passes.addPass(createCanonicalizerPass());
    passes.addPass(createCSEPass());
    ASSERT_TRUE(succeeded(passes.run(*module)));
    drawInputs();
  }

  void drawInputs() {
    std::uniform_real_distribution<double> real(-1, 1);
    for (auto parameter : module->getOps<nn::ParameterOp>()) {
      auto type = cast<RankedTensorType>(parameter.getType());
      Tensor &tensor = evaluator.parameters[parameter.getSymName()];
      tensor = Tensor(type.getShape());
      for (double &x : tensor.data)
        x = real(random);
    }
    for (Value argument : function("eval").getArguments()) {
      Tensor &tensor = arguments.emplace_back(nn::shapeOf(argument));
      for (double &x : tensor.data)
        x = random() % 32;
      // One label that does not count.
      if (arguments.size() == function("eval").getNumArguments())
        tensor.data[1] = -100;
    }
  }

  func::FuncOp function(StringRef name) {
    return module->lookupSymbol<func::FuncOp>(name);
  }

  double evalLoss() {
    EXPECT_TRUE(succeeded(evaluator.run(function("eval"), arguments)));
    return evaluator.loss;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Evaluator evaluator;
  std::vector<Tensor> arguments;
  std::mt19937 random{11};
};

TEST_P(GradientTest, MatchesFiniteDifferences) {
  evaluator.lossScale = 0.125;
  ASSERT_TRUE(succeeded(evaluator.run(function("microbatch"), arguments)));
  double loss = evaluator.loss;
  llvm::StringMap<Tensor> gradients = std::move(evaluator.gradients);
  EXPECT_NEAR(loss, evalLoss(), 1e-9 * std::fabs(loss));
  EXPECT_TRUE(evaluator.gradients.empty());

  unsigned trainable = 0;
  for (auto parameter : module->getOps<nn::ParameterOp>()) {
    StringRef name = parameter.getSymName();
    ASSERT_EQ(parameter.getTrainable(), gradients.contains(name)) << name.str();
    if (!parameter.getTrainable())
      continue;
    ++trainable;
    Tensor &values = evaluator.parameters[name];
    const Tensor &gradient = gradients[name];
    // A stride that is prime to every size sees rows and columns alike.
    for (size_t i = 0; i < values.data.size(); i += 7) {
      const double step = 1e-5, saved = values.data[i];
      values.data[i] = saved + step;
      double up = evalLoss();
      values.data[i] = saved - step;
      double down = evalLoss();
      values.data[i] = saved;
      double want = 0.125 * (up - down) / (2 * step);
      EXPECT_NEAR(gradient.data[i], want, 1e-6 * (1 + std::fabs(want)))
          << name.str() << " element " << i;
    }
  }
  EXPECT_GT(trainable, 0u);
}

INSTANTIATE_TEST_SUITE_P(Models, GradientTest,
                         ::testing::Values("gpt2-block.mlir",
                                           "llama-block.mlir"),
                         [](const auto &info) {
                           std::string name = info.param;
                           return name.substr(0, name.find('-'));
                         });

} // namespace
