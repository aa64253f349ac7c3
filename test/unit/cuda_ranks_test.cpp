// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whole runs of several ranks on emulated GPUs: on two machines, evaluation,
// and how runs end when a rank hangs, dies or has something to complain about.

#include "runtime/OneError.h"
#include "runtime/TableReference.h"
#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

using namespace shardonnx::test;

namespace {

using Json = nlohmann::json;
std::vector<uint16_t> tokens(size_t count) {
  std::vector<uint16_t> tokens(count);
  uint32_t x = 12345;
  for (uint16_t &token : tokens) {
    x = x * 1664525 + 1013904223;
    token = static_cast<uint16_t>((x >> 8) % 300);
  }
  return tokens;
}

class CudaRanks : public testing::Test {
protected:
  CudaRanks() {
    writeTable(drawTable(), folder.path);
    folder.write("t.bin", bytesOf(tokens(2001)));
  }
  Process start(std::vector<std::string> more, const Environment &others = {}) {
    std::vector<std::string> words = {SHX_TEST_PROGRAMS "/table_cuda_bf16",
                                      "--data", folder / "t.bin", "--model",
                                      folder / "table.onnx"};
    if (std::find(more.begin(), more.end(), "--log") == more.end())
      words.insert(words.end(), {"--log", folder / "log.jsonl"});
    words.insert(words.end(), more.begin(), more.end());
    Environment environment = {{"LD_LIBRARY_PATH", SHX_CUDA_EMULATOR},
                               {"CUDA_FORCE_PTX_JIT", "1"},
                               {"SHARDONNX_EMULATOR_DEVICES", "4"},
                               {"SHARDONNX_EMULATOR_THREADS", "1"}};
    environment.insert(environment.end(), others.begin(), others.end());
    return Process(words, folder, environment);
  }
  std::vector<Json> log() const {
    std::vector<Json> lines;
    std::istringstream text(readFile(folder / "log.jsonl"));
    for (std::string line; std::getline(text, line);)
      lines.push_back(Json::parse(line));
    return lines;
  }
  Folder folder;
};

TEST_F(CudaRanks, EvaluationIsTheSameAtEveryWorldSize) {
  folder.write("e.bin", bytesOf(tokens(301))); // the last round is not full
  double reference = 0;
  for (int ranks : {1, 2, 3}) {
    Finished f =
        start({"--steps", "3", "--lr", "0", "--nproc", std::to_string(ranks),
               "--eval-data", folder / "e.bin", "--eval-every", "2"})
            .wait();
    ASSERT_EQ(f.code, 0) << f.err;
    double loss = log()[1]["eval_loss"];
    EXPECT_EQ(log()[2]["eval_loss"], log()[1]["eval_loss"]); // lr is 0
    if (ranks == 1)
      reference = loss;
    EXPECT_NEAR(loss / reference, 1, 1e-5);
  }
}

// What is freed is not read, and gradients are all written.
TEST_F(CudaRanks, PoisonedBuffersChangeNothing) {
  for (const char *ranks : {"1", "3"}) {
    std::vector<std::string> options = {
        "--steps", "4", "--nproc", ranks, "--lr", "0.01", "--accumulate", "2"};
    ASSERT_EQ(start(options).wait().code, 0);
    std::vector<Json> plain = log();
    options.push_back("--debug-memory");
    ASSERT_EQ(start(options).wait().code, 0);
    std::vector<Json> poisoned = log();
    for (size_t s = 0; s < 4; ++s) {
      EXPECT_EQ(poisoned[s]["loss"], plain[s]["loss"]);
      EXPECT_EQ(poisoned[s]["grad_norm"], plain[s]["grad_norm"]);
    }
  }
}

TEST_F(CudaRanks, TwoMachinesTrainAsOne) {
  // Else each machine has a replica.
  std::vector<std::string> options = {"--steps", "4",          "--lr",
                                      "0.01",    "--replicas", "1"};
  std::vector<std::string> local = options;
  local.insert(local.end(), {"--nproc", "2"});
  ASSERT_EQ(start(local).wait().code, 0);
  std::vector<Json> one = log();
  std::string port = std::to_string(freePort());
  std::vector<Process> ranks;
  for (const char *rank : {"0", "1"})
    ranks.push_back(start(options, {{"RANK", rank},
                                    {"WORLD_SIZE", "2"},
                                    {"LOCAL_RANK", "0"},
                                    {"LOCAL_WORLD_SIZE", "1"},
                                    {"GROUP_RANK", rank},
                                    {"CUDA_VISIBLE_DEVICES", rank},
                                    {"MASTER_ADDR", "127.0.0.1"},
                                    {"MASTER_PORT", port}}));
  for (Process &rank : ranks) {
    Finished f = rank.wait();
    EXPECT_EQ(f.code, 0) << f.err;
  }
  std::vector<Json> two = log();
  ASSERT_EQ(two.size(), 4u);
  for (size_t s = 0; s < 4; ++s) {
    EXPECT_EQ(two[s]["loss"], one[s]["loss"]);
    EXPECT_EQ(two[s]["grad_norm"], one[s]["grad_norm"]);
    EXPECT_EQ(two[s]["peak_bytes"], one[s]["peak_bytes"]);
  }
}

TEST_F(CudaRanks, AHangEndsWithASentence) {
  for (const char *graphs : {"1", "0"}) {
    Finished f = start({"--steps", "10000", "--nproc", "2"},
                       {{"SHARDONNX_EMULATOR_HANG_RANK", "1:60"},
                        {"SHARDONNX_TIMEOUT", "8"},
                        {"SHARDONNX_CUDA_GRAPHS", graphs}})
                     .wait();
    EXPECT_EQ(f.code, 1);
    expectOneError(f, " has been waiting for the ");
    EXPECT_NE(f.err.find(" of step "), std::string::npos) << f.err;
  }
}

TEST_F(CudaRanks, AKilledRankEndsAllAndIsNamed) {
  for (size_t victim : {0u, 2u}) {
    folder.write("log.jsonl", "");
    Process process = start({"--steps", "100000", "--nproc", "3"});
    EXPECT_TRUE(
        waitUntil([&] { return readFile(folder / "log.jsonl").size() > 500; }));
    std::vector<int> ranks = process.children();
    ASSERT_EQ(ranks.size(), 3u);
    ::kill(ranks[victim], SIGKILL);
    Finished f = process.wait();
    EXPECT_EQ(f.code, 1);
    expectOneError(f, "rank " + std::to_string(victim) + " (process " +
                          std::to_string(ranks[victim]) +
                          ") was killed by signal 9");
    for (int pid : ranks)
      EXPECT_NE(::kill(pid, 0), 0) << pid;
  }
}

TEST_F(CudaRanks, OneRankTellsWhatIsWrong) {
  Finished f = start({"--nproc", "3", "--log", "/dev/null/l.jsonl"}).wait();
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "cannot write the log '/dev/null/l.jsonl'");
  f = start({"--steps", "1", "--nproc", "2"},
            {{"SHARDONNX_EMULATOR_DEVICES", "1"}})
          .wait();
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "ranks 0 and 1 are on one GPU");
  f = start({"--steps", "1", "--nproc", "2"},
            {{"SHARDONNX_EMULATOR_NCCL_VERSION", "21805"}})
          .wait();
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "this program needs 2.19.0 or later");
}

} // namespace
