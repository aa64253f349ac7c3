// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whole runs of hand-written programs for GPUs, on the emulated one: losses,
// graphs, evaluation, the log, and what is said where there is no GPU.

#include "runtime/TableRuns.h"
#include <cmath>
#include <dlfcn.h>
#include <filesystem>

using namespace shardonnx::test;

namespace {

class CudaRuns : public Runs {
protected:
  Finished run(const std::string &program, std::vector<std::string> more,
               Environment environment = {}) {
    more.insert(more.begin(), {"--log", folder / "log.jsonl"});
    environment.insert(
        environment.begin(),
        {{"LD_LIBRARY_PATH", SHX_CUDA_EMULATOR}, {"CUDA_FORCE_PTX_JIT", "1"}});
    return Runs::run(program, std::move(more), std::move(environment));
  }
  std::vector<Json> log() { return readLog(folder / "log.jsonl"); }
};

void expectOneErrorOfRun(const Finished &f, const std::string &part) {
  EXPECT_EQ(f.code, 1);
  expectOneError(f, part);
}

// Both of loss and norm, to the last bit.
std::vector<double> numbersOf(const std::vector<Json> &log) {
  std::vector<double> numbers;
  for (const Json &line : log)
    numbers.insert(numbers.end(), {line["loss"], line["grad_norm"]});
  return numbers;
}

struct Variant {
  const char *program;
  bool bf16;
};
class CudaLosses : public CudaRuns,
                   public testing::WithParamInterface<Variant> {};

TEST_P(CudaLosses, FollowTheReference) {
  std::vector<TableStep> reference =
      trainTable(weights, tableTokens(), 4, 12, 0.01, GetParam().bf16);
  std::vector<double> first;
  for (const char *graphs : {"1", "0"}) {
    Finished f = run(GetParam().program, {"--steps", "12", "--accumulate", "2"},
                     {{"SHARDONNX_CUDA_GRAPHS", graphs}});
    ASSERT_EQ(f.code, 0) << f.err;
    EXPECT_EQ(f.err, "");
    std::vector<Json> lines = log();
    ASSERT_EQ(lines.size(), 12u);
    for (size_t s = 0; s < 12; ++s) {
      double loss = lines[s]["loss"], norm = lines[s]["grad_norm"];
      EXPECT_EQ(lines[s]["step"], s + 1);
      EXPECT_NEAR(loss / reference[s].loss, 1, 1e-4) << "step " << s + 1;
      EXPECT_NEAR(norm / reference[s].gradNorm, 1, 1e-3) << "step " << s + 1;
    }
    if (first.empty())
      first = numbersOf(lines);
    EXPECT_EQ(numbersOf(lines), first);
  }
}

// Streams start late at random, so that an order that only happens to be right
// shows, and whatever nothing orders is an error.
TEST_P(CudaLosses, AreTheSameAtEveryWorldSize) {
  std::vector<TableStep> reference =
      trainTable(weights, tableTokens(), 24, 6, 0.01, GetParam().bf16);
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (const char *graphs : {"1", "0"}) {
      Finished f = run(GetParam().program,
                       {"--steps", "6", "--nproc", std::to_string(ranks),
                        "--accumulate", std::to_string(12 / ranks)},
                       {{"SHARDONNX_EMULATOR_DEVICES", "4"},
                        {"SHARDONNX_EMULATOR_SHUFFLE", std::to_string(ranks)},
                        {"SHARDONNX_EMULATOR_THREADS", "1"},
                        {"SHARDONNX_EMULATOR_RACECHECK", "1"},
                        {"SHARDONNX_CUDA_GRAPHS", graphs}});
      ASSERT_EQ(f.code, 0) << f.err;
      std::vector<Json> lines = log();
      ASSERT_EQ(lines.size(), 6u);
      for (size_t s = 0; s < 6; ++s) {
        double loss = lines[s]["loss"], norm = lines[s]["grad_norm"];
        EXPECT_NEAR(loss / reference[s].loss, 1, 1e-4)
            << ranks << " ranks, step " << s + 1;
        EXPECT_NEAR(norm / reference[s].gradNorm, 1, 1e-3)
            << ranks << " ranks, step " << s + 1;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Programs, CudaLosses,
    testing::Values(Variant{"table_cuda_f32", false},
                    Variant{"table_cuda_bf16", true},
                    Variant{"table_cuda_f32_replicated", false},
                    Variant{"table_cuda_bf16_replicated", true}),
    [](const auto &info) { return std::string(info.param.program); });

TEST_F(CudaRuns, ReplicasFollowTheReference) {
  std::vector<TableStep> reference =
      trainTable(weights, tableTokens(), 24, 6, 0.01, true);
  for (auto [ranks, replicas] :
       {std::make_pair(2, "2"), std::make_pair(4, "2")}) {
    Finished f =
        run("table_cuda_bf16",
            {"--steps", "6", "--nproc", std::to_string(ranks), "--replicas",
             replicas, "--accumulate", std::to_string(12 / ranks)},
            {{"SHARDONNX_EMULATOR_DEVICES", "4"},
             {"SHARDONNX_EMULATOR_SHUFFLE", "5"},
             {"SHARDONNX_EMULATOR_THREADS", "1"},
             {"SHARDONNX_EMULATOR_RACECHECK", "1"}});
    ASSERT_EQ(f.code, 0) << f.err;
    std::vector<Json> lines = log();
    for (size_t s = 0; s < 6; ++s) {
      EXPECT_NEAR(lines[s]["loss"].get<double>() / reference[s].loss, 1, 1e-4);
      EXPECT_NEAR(lines[s]["grad_norm"].get<double>() / reference[s].gradNorm,
                  1, 1e-3);
    }
  }
}

// Where slices lie changes no bit, be there evaluation between steps. Three
// units share three buffers.
TEST_F(CudaRuns, OffloadChangesNoBit) {
  std::vector<uint16_t> some = tableTokens();
  some.resize(81); // 10 samples: the last round of three ranks is not full
  folder.write("e.bin", bytesOf(some));
  for (auto [program, ranks] : {std::make_pair("table_cuda_f32", "1"),
                                std::make_pair("table_cuda_bf16", "3")}) {
    std::vector<double> without;
    for (const char *offload : {"none", "optimizer", "params"}) {
      Finished f = run(program,
                       {"--steps", "5", "--nproc", ranks, "--accumulate", "2",
                        "--offload", offload, "--eval-data", folder / "e.bin",
                        "--eval-every", "2"},
                       {{"SHARDONNX_EMULATOR_DEVICES", "4"},
                        {"SHARDONNX_EMULATOR_SHUFFLE", "9"},
                        {"SHARDONNX_EMULATOR_THREADS", "1"},
                        {"SHARDONNX_EMULATOR_RACECHECK", "1"}});
      ASSERT_EQ(f.code, 0) << f.err;
      std::vector<Json> lines = log();
      if (without.empty())
        without = numbersOf(lines);
      EXPECT_EQ(numbersOf(lines), without) << program << " " << offload;
      bool none = std::string(offload) == "none";
      EXPECT_EQ(lines[4].contains("offload_bytes_per_s"), !none);
      EXPECT_EQ(f.out.find("GB/s") == f.out.npos, none) << f.out;
    }
  }
  Finished f = run("table_cuda_f32",
                   {"--offload=optimizer", "--offload-dir", folder.path});
  EXPECT_EQ(f.code, 2);
  EXPECT_NE(f.err.find("a program for GPUs offloads to host memory"),
            std::string::npos)
      << f.err;
}

// Copied from the device while the next step runs there.
TEST_F(CudaRuns, GoOnFromACheckpointBitByBit) {
  for (auto [program, ranks, offload] :
       {std::make_tuple("table_cuda_f32", "1", "none"),
        std::make_tuple("table_cuda_f32_replicated", "2", "none"),
        std::make_tuple("table_cuda_bf16", "3", "optimizer")}) {
    auto train = [&](const char *steps, std::vector<std::string> more) {
      more.insert(more.end(), {"--steps", steps, "--nproc", ranks, "--offload",
                               offload, "--shuffle"});
      Finished f = run(program, more,
                       {{"SHARDONNX_EMULATOR_DEVICES", "4"},
                        {"SHARDONNX_EMULATOR_SHUFFLE", "9"},
                        {"SHARDONNX_EMULATOR_THREADS", "1"},
                        {"SHARDONNX_EMULATOR_RACECHECK", "1"}});
      EXPECT_EQ(f.code, 0) << f.err;
      return f;
    };
    std::string saved = folder / (std::string("c-") + program);
    train("8", {});
    std::vector<double> whole = numbersOf(log());
    train("4", {"--save", saved, "--save-every", "3"});
    Finished f = train("8", {"--save", saved, "--resume", saved});
    EXPECT_NE(f.out.find("step-00000004': step 4"), std::string::npos) << f.out;
    EXPECT_EQ(numbersOf(log()), whole) << program;
  }
}

// The optimizers run beside the next step's first microbatch, or by themselves:
// where an evaluation or a checkpoint reads what they write, or always.
TEST_F(CudaRuns, WhereTheUpdateRunsChangesNoBit) {
  folder.write("e.bin", bytesOf(tableTokens()));
  for (auto [program, ranks] :
       {std::make_pair("table_cuda_f32", "1"),
        std::make_pair("table_cuda_bf16", "3"),
        std::make_pair("table_cuda_bf16_replicated", "2")}) {
    std::vector<double> apart;
    std::string state;
    for (const char *overlap : {"0", "1"}) {
      std::string saved = folder / (std::string(program) + overlap);
      Finished f = run(program,
                       {"--steps", "7", "--nproc", ranks, "--eval-data",
                        folder / "e.bin", "--eval-every", "3", "--save", saved,
                        "--save-every", "2"},
                       {{"SHARDONNX_EMULATOR_DEVICES", "4"},
                        {"SHARDONNX_EMULATOR_SHUFFLE", "3"},
                        {"SHARDONNX_EMULATOR_THREADS", "1"},
                        {"SHARDONNX_EMULATOR_RACECHECK", "1"},
                        {"SHARDONNX_CUDA_OVERLAP_UPDATE", overlap}});
      ASSERT_EQ(f.code, 0) << f.err;
      std::vector<double> numbers = numbersOf(log());
      for (const Json &line : log())
        if (line.contains("eval_loss"))
          numbers.push_back(line["eval_loss"]);
      // The hash of the last checkpoint's state.
      std::string hash = f.out.substr(f.out.rfind(", state "), 24);
      if (apart.empty()) {
        apart = numbers;
        state = hash;
      }
      EXPECT_EQ(numbers, apart) << program;
      EXPECT_EQ(hash, state) << program;
    }
  }
}

// The gradients then lie where their sums do.
TEST_F(CudaRuns, OneMicrobatchNeedsNoGradientSpace) {
  std::vector<TableStep> reference =
      trainTable(weights, tableTokens(), 2, 6, 0.01, false);
  Finished f = run("table_cuda_f32", {"--steps", "6", "--debug-memory"});
  ASSERT_EQ(f.code, 0) << f.err;
  std::vector<Json> lines = log();
  for (size_t s = 0; s < 6; ++s)
    EXPECT_NEAR(lines[s]["loss"].get<double>() / reference[s].loss, 1, 1e-4);
  int64_t one = lines[5]["peak_bytes"];
  f = run("table_cuda_f32", {"--steps", "1", "--accumulate", "2"});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(log()[0]["peak_bytes"].get<int64_t>() - one, 6144);
}

TEST_F(CudaRuns, TheLogHasTheContractsFields) {
  Finished f = run("table_cuda_f32", {"--steps", "3"});
  ASSERT_EQ(f.code, 0) << f.err;
  Json line = log()[2];
  for (const char *key :
       {"step", "loss", "grad_norm", "lr", "tokens", "step_ms", "tokens_per_s",
        "tflops", "mfu", "peak_bytes", "pss_bytes", "context_bytes"})
    EXPECT_TRUE(line.contains(key)) << key;
  EXPECT_EQ(line.size(), 12u);
  EXPECT_EQ(line["tokens"], 2 * 8);
  EXPECT_GT(line["step_ms"], 0);
  EXPECT_GT(line["pss_bytes"], 0);
  EXPECT_NE(f.out.find("done: 3 steps"), std::string::npos);
}

// Units of the second program are gathered before a step begins, into memory
// that an evaluation in between takes for others.
TEST_F(CudaRuns, EvaluationLeavesTheStepsAlone) {
  std::vector<uint16_t> some = tableTokens();
  some.resize(101); // 12 samples and a half
  folder.write("e.bin", bytesOf(some));
  for (auto [program, ranks] : {std::make_pair("table_cuda_bf16", "2"),
                                std::make_pair("table_cuda_f32", "1")}) {
    std::vector<std::string> train = {"--steps", "6", "--nproc", ranks};
    Environment devices = {{"SHARDONNX_EMULATOR_DEVICES", "2"},
                           {"SHARDONNX_EMULATOR_THREADS", "1"},
                           {"SHARDONNX_EMULATOR_RACECHECK", "1"}};
    Finished f = run(program, train, devices);
    ASSERT_EQ(f.code, 0) << f.err;
    std::vector<double> without = numbersOf(log());
    train.insert(train.end(),
                 {"--eval-data", folder / "e.bin", "--eval-every", "2"});
    f = run(program, train, devices);
    ASSERT_EQ(f.code, 0) << f.err;
    EXPECT_EQ(numbersOf(log()), without) << program;
  }
  EXPECT_FALSE(log()[0].contains("eval_loss"));
  double second = log()[1]["eval_loss"], last = log()[5]["eval_loss"];
  EXPECT_GT(second, 0);
  EXPECT_NE(second, last);
  // The first step's loss is of weights that an evaluation at lr 0 sees, too.
  Finished f =
      run("table_cuda_f32", {"--steps", "1", "--lr", "0", "--eval-data",
                             folder / "e.bin", "--shuffle"});
  ASSERT_EQ(f.code, 0) << f.err;
  EXPECT_NEAR(log()[0]["eval_loss"].get<double>() /
                  log()[0]["loss"].get<double>(),
              1, 0.9);
}

TEST_F(CudaRuns, NoDecayIsByWholeName) {
  auto lastLoss = [&](const std::string &decay, std::vector<std::string> more) {
    more.insert(more.begin(), {"--steps", "8", "--weight-decay", decay});
    Finished f = run("table_cuda_f32", more);
    EXPECT_EQ(f.code, 0) << f.err;
    return log().back()["loss"].get<double>();
  };
  double all = lastLoss("5", {}),
         none = lastLoss("5", {"--no-decay", ".*\\.(weight|bias)"});
  EXPECT_NE(all, none);
  EXPECT_EQ(none, lastLoss("0", {}));
}

TEST_F(CudaRuns, TooLittleMemoryIsToldByItem) {
  Finished f = run("table_cuda_f32", {"--steps", "1"},
                   {{"SHARDONNX_EMULATOR_MEMORY", "30000"}});
  expectOneErrorOfRun(f, "optimizer state 14.0 KiB");
  EXPECT_NE(f.err.find("has 29.3 KiB free of 29.3 KiB"), std::string::npos)
      << f.err;
}

// The plan alone would fit. What comes later would not, and a library would
// find that out, in the first collective or behind it.
TEST_F(CudaRuns, HeadroomIsFreeBeforeAnythingStarts) {
  Environment small = {{"SHARDONNX_EMULATOR_MEMORY", "40M"},
                       {"SHARDONNX_EMULATOR_DEVICES", "2"}};
  Finished f = run("table_cuda_f32", {"--steps", "1", "--nproc", "2"}, small);
  expectOneErrorOfRun(f,
                      " of headroom (communicators' buffers 384 MiB, code of "
                      "kernels and libraries 256 MiB, graphs ");
  EXPECT_NE(f.err.find(" as planned (master weights "), std::string::npos)
      << f.err;
  // Three quarters of what there is.
  f = run("table_cuda_f32", {"--steps", "1"},
          {{"SHARDONNX_EMULATOR_MEMORY", "40M"},
           {"SHARDONNX_CUDA_HEADROOM", "30M"}});
  EXPECT_EQ(f.code, 0) << f.err;
  f = run("table_cuda_f32", {"--steps", "1"},
          {{"SHARDONNX_EMULATOR_MEMORY", "40M"},
           {"SHARDONNX_CUDA_HEADROOM", "39.99MiB"}});
  expectOneErrorOfRun(f, "free of 40.0 MiB: compile it with --fit=336MiB, "
                         "with --recompute");
  f = run("table_cuda_f32", {"--steps", "1"},
          {{"SHARDONNX_CUDA_HEADROOM", "much"}});
  expectOneErrorOfRun(f, "SHARDONNX_CUDA_HEADROOM='much' is not a size");
}

// Every call is a line, and the emulator answers alike when they are made
// again; one that was answered otherwise on the trace's device is told.
class CudaTraces : public CudaRuns {
protected:
  /// The lines that the process which has ended wrote.
  std::string trace() const {
    for (const auto &entry : std::filesystem::directory_iterator(traces))
      if (entry.path().extension() == ".jsonl")
        return readFile(entry.path());
    return "";
  }
  Finished replay(const std::string &text) {
    folder.write("trace.jsonl", text);
    Process process({SHX_TEST_PROGRAMS "/replay_calls", folder / "trace.jsonl"},
                    folder, {{"LD_LIBRARY_PATH", SHX_CUDA_EMULATOR}});
    return process.wait();
  }
  void expectReplayed(const std::string &text) {
    Finished f = replay(text);
    EXPECT_EQ(f.code, 0) << f.out << f.err;
    EXPECT_NE(f.out.find(" 0 differ"), std::string::npos) << f.out;
    EXPECT_EQ(f.out.find(": 0 calls"), std::string::npos) << f.out;
  }
  void expectParts(const std::string &text, std::vector<const char *> parts) {
    for (const char *part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  const std::string traces = folder / "traces";
};

TEST_F(CudaTraces, OfARunIsReplayed) {
  Finished f = run("table_cuda_f32", {"--steps", "2"},
                   {{"SHARDONNX_CALL_TRACE", traces}});
  ASSERT_EQ(f.code, 0) << f.err;
  size_t graphs = 0;
  for (const auto &entry : std::filesystem::directory_iterator(traces))
    graphs += entry.path().extension() == ".dot";
  // A microbatch, the norm, the update, and both beside each other.
  EXPECT_EQ(graphs, 4u);
  std::string text = trace();
  expectParts(text, {"\"cuMemAlloc_v2\"", "\"cuLaunchKernel\"",
                     "\"cuStreamBeginCapture_v2\""});
  expectReplayed(text);
}

TEST_F(CudaTraces, OfProductsIsReplayed) {
  Process products({SHX_TEST_PROGRAMS "/cuda_gemm_test",
                    "--gtest_filter=CudaGemm.NoProducts:CudaGemm.Batches"},
                   folder,
                   {{"LD_LIBRARY_PATH", SHX_CUDA_EMULATOR},
                    {"CUDA_FORCE_PTX_JIT", "1"},
                    // Of both tests, whatever part of this program's run here.
                    {"GTEST_TOTAL_SHARDS", "1"},
                    {"GTEST_SHARD_INDEX", "0"},
                    // What an earlier run has timed is not asked for again.
                    {"SHARDONNX_CACHE_DIR", folder / "algorithms"},
                    {"SHARDONNX_CALL_TRACE", traces}});
  Finished f = products.wait();
  ASSERT_EQ(f.code, 0) << f.out;
  std::string text = trace();
  expectParts(text, {"\"note\": \"heuristics\"",
                     "\"workspace\": ", "\"algorithm\": ["});
  expectReplayed(text);
  size_t at = text.find("\"cublasLtMatmulAlgoGetHeuristic\"");
  ASSERT_NE(at, std::string::npos);
  at = text.find("\"result\": 0", at);
  f = replay(text.replace(at, 11, "\"result\": 15"));
  EXPECT_EQ(f.code, 1);
  EXPECT_NE(f.err.find("cublasLtMatmulAlgoGetHeuristic returns 0, not 15"),
            std::string::npos)
      << f.err;
}

TEST_F(CudaRuns, AnOlderDriverIsToldBeforeItFails) {
  Finished f = run("table_cuda_f32", {"--steps", "1"},
                   {{"SHARDONNX_EMULATOR_DRIVER_VERSION", "12040"}});
  expectOneErrorOfRun(f, "brings CUDA 12.4, this program needs CUDA 13.0: "
                         "install driver 580 or later");
}

TEST_F(CudaRuns, AFaultOfAKernelEndsTheRun) {
  Finished f = run("table_cuda_fault", {"--steps", "3"});
  expectOneErrorOfRun(f, "CUDA_ERROR_");
  EXPECT_NE(f.err.find("SHARDONNX_CUDA_GRAPHS=0"), std::string::npos) << f.err;
}

TEST_F(CudaRuns, TheStartIsToldWhenItIsAskedFor) {
  Finished f =
      run("table_cuda_f32", {"--steps", "1"}, {{"SHARDONNX_VERBOSE", "1"}});
  ASSERT_EQ(f.code, 0) << f.err;
  for (const char *phase : {"driver and context", "memory", "weights",
                            "libraries and kernels", "graphs", "CUDA context"})
    EXPECT_NE(f.err.find(phase), std::string::npos) << f.err;
}

TEST_F(CudaRuns, WithoutADriverOneLineSaysSo) {
  if (::dlopen("libcuda.so.1", RTLD_LAZY))
    GTEST_SKIP() << "this machine has a driver";
  for (const char *ranks : {"1", "3"}) {
    Finished f =
        run("table_cuda_f32", {"--nproc", ranks}, {{"LD_LIBRARY_PATH", ""}});
    expectOneErrorOfRun(f,
                        "no NVIDIA driver (libcuda.so.1) on this machine: this "
                        "program needs a GPU; compile with --target=cpu to "
                        "train here");
  }
}

// A later step may have begun when the host learns of it.
TEST_F(CudaRuns, GradientsThatAreNotFiniteStopTheRun) {
  weights.c[tableTokens()[0]] = NAN;
  writeTable(weights, folder.path);
  for (const char *ranks : {"1", "2"}) {
    Finished f = run("table_cuda_f32", {"--steps", "5", "--nproc", ranks},
                     {{"SHARDONNX_EMULATOR_DEVICES", "2"}});
    expectOneErrorOfRun(
        f, "step 1: loss not finite, gradient norm not finite; the "
           "gradient of 'c.weight' in unit 'c' is not finite in ");
  }
  Finished f =
      run("table_cuda_f32", {"--steps", "5", "--on-nonfinite", "skip"});
  EXPECT_EQ(f.code, 0) << f.err;
  ASSERT_EQ(log().size(), 5u);
  EXPECT_EQ(log()[0]["skipped"], true);
}

TEST_F(CudaRuns, ScalesTheLossAndClipsByValue) {
  std::vector<TableStep> reference =
      trainTable(weights, tableTokens(), 2, 10, 0.01, false, false, 0, 0.001);
  for (const char *scale : {"1", "4096", "dynamic"}) {
    Finished f = run("table_cuda_f32", {"--steps", "10", "--loss-scale", scale,
                                        "--clip-grad-value", "0.001"});
    ASSERT_EQ(f.code, 0) << f.err;
    std::vector<Json> lines = log();
    ASSERT_EQ(lines.size(), 10u);
    for (size_t s = 0; s < 10; ++s) {
      double loss = lines[s]["loss"], norm = lines[s]["grad_norm"];
      EXPECT_NEAR(loss / reference[s].loss, 1, 1e-4) << scale << " " << s;
      EXPECT_NEAR(norm / reference[s].gradNorm, 1, 1e-3) << scale << " " << s;
    }
  }
}

} // namespace
