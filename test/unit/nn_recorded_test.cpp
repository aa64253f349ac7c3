// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Import, raise, loss and gradients against PyTorch, without kernels: the
// first step of recorded runs (test/training), evaluated in double. So are the
// same steps recomputed, taken apart and fused.

#include "mlir/Pass/PassManager.h"
#include "nn_reference.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/Transforms/Passes.h"
#include "shardonnx/Driver/Compilation.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::test;

namespace {

constexpr int64_t kGlobalBatch = 12;
const char *const kTraining = SHARDONNX_SOURCE_DIR "/test/training/";

struct RecordedCase {
  const char *model;
  /// Samples of a microbatch; a static export has its own.
  int64_t batch = kGlobalBatch;
  std::optional<int64_t> seq = std::nullopt;
  /// What stands in recorded/, where it is not the model's name.
  const char *recorded = nullptr;
};

void PrintTo(const RecordedCase &c, std::ostream *os) { *os << c.model; }

class RecordedTest : public ::testing::TestWithParam<RecordedCase> {
protected:
  static std::string readFile(const std::string &path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    EXPECT_TRUE(buffer) << path;
    return buffer ? (*buffer)->getBuffer().str() : std::string();
  }

  void checkFirstStep();

  void SetUp() override {
    const RecordedCase &c = GetParam();
    options.model = std::string(kTraining) + "models/" + c.model + ".onnx";
    if (c.batch == kGlobalBatch)
      options.batch = c.batch;
    options.seq = c.seq;
    compilation = std::make_unique<Compilation>(options, diagnostics);
    ASSERT_TRUE(succeeded(compilation->runTo(Level::Grad)));
    module = compilation->module();
    for (auto parameter : module.getOps<nn::ParameterOp>())
      loadParameter(parameter);
  }

  /// The initial values lie in the model's files as f32.
  void loadParameter(nn::ParameterOp parameter) {
    ASSERT_TRUE(parameter.getSource()) << parameter.getSymName().str();
    nn::ExternalAttr source = *parameter.getSource();
    ASSERT_TRUE(source.getElementType().isF32());
    std::string &file = files[source.getFile().getValue()];
    if (file.empty())
      file =
          readFile(std::string(kTraining) + "models/" + source.getFile().str());
    auto type = cast<RankedTensorType>(parameter.getType());
    Tensor &tensor = evaluator.parameters[parameter.getSymName()];
    tensor = Tensor(type.getShape());
    ASSERT_LE(source.getOffset() + source.getLength(),
              static_cast<int64_t>(file.size()));
    ASSERT_EQ(source.getLength(), int64_t(tensor.data.size() * sizeof(float)));
    for (size_t i = 0; i < tensor.data.size(); ++i) {
      size_t from = i;
      if (source.getTransposed()) {
        size_t rows = tensor.shape[0], columns = tensor.shape[1];
        from = i % columns * rows + i / columns;
      }
      float value;
      std::memcpy(&value, file.data() + source.getOffset() + 4 * from, 4);
      tensor.data[i] = value;
    }
  }

  /// Samples `first`… of the token file, shifted by one for labels.
  Tensor tokens(ArrayRef<int64_t> shape, int64_t first, int64_t shift) {
    Tensor tensor(shape);
    for (size_t i = 0; i < tensor.data.size(); ++i) {
      uint16_t token;
      std::memcpy(&token, data.data() + 2 * (first * shape[1] + i + shift), 2);
      tensor.data[i] = token;
    }
    return tensor;
  }

  std::vector<Tensor> arguments(func::FuncOp function, int64_t first) {
    std::vector<Tensor> result;
    for (BlockArgument argument : function.getArguments()) {
      auto attr = [&](StringRef name) {
        auto text = function.getArgAttrOfType<StringAttr>(
            argument.getArgNumber(), name);
        return text ? text.str() : std::string();
      };
      std::string name = attr(nn::kNameAttr), kind = attr(nn::kKindAttr);
      ArrayRef<int64_t> shape = nn::shapeOf(argument);
      if (name == "attention_mask") {
        result.push_back(Tensor(shape, 1));
      } else if (name == "position_ids") {
        Tensor &tensor = result.emplace_back(shape);
        for (size_t i = 0; i < tensor.data.size(); ++i)
          tensor.data[i] = double(i % shape.back());
      } else {
        result.push_back(tokens(shape, first, kind == "labels"));
      }
    }
    return result;
  }

  CompileOptions options;
  Diagnostics diagnostics;
  std::unique_ptr<Compilation> compilation;
  ModuleOp module;
  Evaluator evaluator;
  llvm::StringMap<std::string> files;
  std::string data = readFile(SHARDONNX_SOURCE_DIR "/models/data/tokens.bin");
};

/// How many labels count in a function's batch.
int64_t countLabels(func::FuncOp function) {
  auto loss = *function.getOps<nn::LossOp>().begin();
  ArrayRef<int64_t> shape =
      nn::shapeOf(function.getArgument(loss.getDenominatorArg()));
  return shape[0] * (shape[1] - int64_t(loss.getShift()));
}

void RecordedTest::checkFirstStep() {
  const RecordedCase &c = GetParam();
  auto function = module.lookupSymbol<func::FuncOp>("microbatch");
  ASSERT_TRUE(function);
  int64_t microbatches = kGlobalBatch / c.batch;
  evaluator.lossScale = 1.0 / double(countLabels(function) * microbatches);
  double loss = 0;
  llvm::StringMap<Tensor> total;
  for (int64_t i = 0; i < microbatches; ++i) {
    ASSERT_TRUE(
        succeeded(evaluator.run(function, arguments(function, i * c.batch))));
    loss += evaluator.loss * evaluator.lossScale;
    for (auto &entry : evaluator.gradients) {
      Tensor &sum = total[entry.first()];
      if (sum.data.empty())
        sum = Tensor(entry.second.shape);
      for (auto [x, g] : llvm::zip_equal(sum.data, entry.second.data))
        x += g;
    }
  }
  double square = 0;
  for (auto &entry : total)
    for (double g : entry.second.data)
      square += g * g;

  auto json = llvm::json::parse(readFile(std::string(kTraining) + "recorded/" +
                                         (c.recorded ? c.recorded : c.model) +
                                         ".json"));
  ASSERT_TRUE(bool(json));
  const llvm::json::Object &run = *json->getAsObject();
  double wantLoss = *(*run.getArray("loss"))[0].getAsNumber();
  double wantNorm = *(*run.getArray("grad_norm"))[0].getAsNumber();
  EXPECT_NEAR(loss, wantLoss, 2e-6 * wantLoss);
  EXPECT_NEAR(std::sqrt(square), wantNorm, 1e-5 * wantNorm);
}

TEST_P(RecordedTest, FirstStepIsPyTorchs) { checkFirstStep(); }

/// The same, with blocks recomputed and the step in fused groups.
class FusedStepTest : public RecordedTest {
protected:
  void SetUp() override {
    options.recompute.kind = RecomputeKind::Block;
    RecordedTest::SetUp();
    PassManager passes(module.getContext());
    nn::buildDecomposePipeline(passes);
    passes.addNestedPass<func::FuncOp>(nn::createFusePass());
    ASSERT_TRUE(succeeded(passes.run(module)));
  }
};

TEST_P(FusedStepTest, FirstStepIsPyTorchs) {
  bool fused = false;
  module.walk([&](nn::FusedOp) { fused = true; });
  EXPECT_TRUE(fused);
  checkFirstStep();
}

/// The same for a device whose products do what follows them. The interpreter
/// rounds nothing here.
class EpilogueTest : public RecordedTest {
protected:
  void SetUp() override {
    options.target = TargetKind::CUDA;
    options.paramDtype = SHX_BF16; // in f32 GELU is no product's
    RecordedTest::SetUp();
  }
  int64_t count(nn::Epilogue epilogue) {
    int64_t found = 0;
    module.lookupSymbol<func::FuncOp>("microbatch")
        .walk([&](nn::MatmulEpilogueOp op) {
          found += op.getEpilogue() == epilogue;
        });
    return found;
  }
};

TEST_P(EpilogueTest, FirstStepIsPyTorchs) {
  EXPECT_GT(count(nn::Epilogue::bias), 0);
  EXPECT_GT(count(nn::Epilogue::bgrad), 0);
  EXPECT_GT(count(nn::Epilogue::gelu_bias), 0);
  EXPECT_EQ(count(nn::Epilogue::gelu_bias), count(nn::Epilogue::dgelu));
  checkFirstStep();
}

class RecomputedEpilogueTest : public EpilogueTest {
protected:
  void SetUp() override {
    options.recompute.kind = RecomputeKind::Block;
    EpilogueTest::SetUp();
  }
};

// Forward and what backward computes again of it.
TEST_P(RecomputedEpilogueTest, FirstStepIsPyTorchs) {
  EXPECT_GT(count(nn::Epilogue::dgelu), 0);
  EXPECT_EQ(count(nn::Epilogue::gelu_bias), 2 * count(nn::Epilogue::dgelu));
  checkFirstStep();
}

std::string caseName(const ::testing::TestParamInfo<RecordedCase> &info) {
  std::string name = info.param.model;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, FusedStepTest,
                         ::testing::Values(RecordedCase{"gpt2-18"},
                                           RecordedCase{"gpt2-odd"},
                                           RecordedCase{"llama-18-optimized"},
                                           RecordedCase{"llama-23"}),
                         caseName);

INSTANTIATE_TEST_SUITE_P(Models, EpilogueTest,
                         ::testing::Values(RecordedCase{"gpt2-18"},
                                           RecordedCase{"gpt2-23-optimized"}),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Models, RecomputedEpilogueTest,
                         ::testing::Values(RecordedCase{"gpt2-23"}), caseName);

INSTANTIATE_TEST_SUITE_P(
    Models, RecordedTest,
    ::testing::Values(
        RecordedCase{"gpt2-18"}, RecordedCase{"gpt2-18-optimized"},
        RecordedCase{"gpt2-23"}, RecordedCase{"gpt2-23-optimized"},
        RecordedCase{"gpt2-eager"}, RecordedCase{"gpt2-odd"},
        RecordedCase{"gpt2-labels"}, RecordedCase{"gpt2-untied-static", 2},
        RecordedCase{"llama-18"}, RecordedCase{"llama-18-optimized"},
        RecordedCase{"llama-23"}, RecordedCase{"llama-23-optimized"},
        RecordedCase{"llama-dynamic-seq", kGlobalBatch, 24},
        RecordedCase{"llama-eager"}, RecordedCase{"llama-inputs"},
        RecordedCase{"llama-labels"}, RecordedCase{"llama-tied-static", 1}),
    caseName);

} // namespace
