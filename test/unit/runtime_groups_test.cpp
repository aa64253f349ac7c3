// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs whose ranks form replicas, whose units stay gathered, whose gradients
// are added up before they are reduced, and whose units differ in dtype: all
// with the losses of one process.

#include "runtime/TableRuns.h"

using namespace shardonnx::test;

namespace {

struct Groups {
  const char *program;
  std::vector<std::pair<int, int>> ranksAndReplicas;
};
class Strategies : public Runs, public testing::WithParamInterface<Groups> {};

TEST_P(Strategies, FollowTheReference) {
  std::string program = GetParam().program;
  bool bf16 = program.find("bf16") != program.npos;
  std::vector<TableStep> reference = trainTable(
      weights, tableTokens(), 24, 20, 0.01, bf16, program == "table_mixed");
  for (auto [ranks, replicas] : GetParam().ranksAndReplicas)
    for (bool debug : {false, true}) {
      std::vector<std::string> options;
      if (replicas > 1)
        options = {"--replicas", std::to_string(replicas)};
      if (debug)
        options.push_back("--debug-memory");
      expectReference(program, ranks, reference, options);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Programs, Strategies,
    testing::Values(Groups{"table_f32", {{2, 2}, {3, 3}, {4, 2}, {4, 4}}},
                    Groups{"table_bf16", {{2, 2}, {4, 2}}},
                    Groups{"table_mixed", {{1, 1}, {2, 1}, {3, 1}, {4, 2}}},
                    Groups{"table_f32_kept", {{1, 1}, {3, 1}, {4, 2}}},
                    Groups{"table_bf16_kept", {{1, 1}, {3, 1}, {4, 2}}},
                    Groups{"table_f32_unsharded", {{1, 1}, {3, 1}, {4, 2}}},
                    Groups{"table_f32_replicated_unsharded", {{1, 1}, {3, 1}}},
                    Groups{"table_bf16_kept_unsharded", {{2, 1}, {4, 4}}}),
    [](const auto &info) { return std::string(info.param.program); });

class Replicas : public Runs {};

TEST_F(Replicas, TheSameCommandGivesTheSameBits) {
  expectSameBits("table_f32",
                 {"--nproc", "4", "--replicas", "2", "--accumulate", "2"});
}

TEST_F(Replicas, EvaluateAsOneRankDoes) {
  std::vector<double> losses;
  for (const char *program : {"table_f32", "table_f32_kept"})
    for (const char *replicas : {"1", "2"}) {
      Finished f =
          run(program, {"--steps", "6", "--nproc", "2", "--replicas", replicas,
                        "--eval-data", folder / "t.bin", "--eval-every", "3",
                        "--log", folder / "log.jsonl"});
      ASSERT_EQ(f.code, 0) << f.err;
      losses.push_back(readLog(folder / "log.jsonl").back()["eval_loss"]);
      EXPECT_NEAR(losses.back() / losses.front(), 1, 1e-5);
    }
}

class Offloads : public Runs {};

// Where slices lie changes no bit, and a file takes what memory had.
TEST_F(Offloads, ToAFileChangesNoBit) {
  for (const char *program : {"table_f32", "table_bf16", "table_bf16_kept"})
    for (const char *ranks : {"1", "3"}) {
      std::vector<Json> without;
      for (const char *offload : {"none", "optimizer", "params"}) {
        std::vector<std::string> words = {
            "--steps",   "8",     "--nproc", ranks,
            "--offload", offload, "--log",   folder / "log.jsonl"};
        bool none = std::string(offload) == "none";
        if (!none)
          words.insert(words.end(), {"--offload-dir", folder.path});
        Finished f = run(program, words);
        ASSERT_EQ(f.code, 0) << f.err;
        std::vector<Json> log = readLog(folder / "log.jsonl");
        if (none)
          without = log;
        for (size_t s = 0; s < 8; ++s) {
          EXPECT_EQ(log[s]["loss"], without[s]["loss"]);
          EXPECT_EQ(log[s]["grad_norm"], without[s]["grad_norm"]);
          EXPECT_EQ(log[s].contains("offload_bytes_per_s"), !none);
        }
      }
    }
}

TEST_F(Offloads, MistakesAreTold) {
  Finished f = run("table_f32", {"--offload=optimizer"});
  EXPECT_EQ(f.code, 2);
  expectOneError(f, "--offload needs --offload-dir DIR");
  f = run("table_f32", {"--offload-dir", folder.path});
  EXPECT_EQ(f.code, 2);
  expectOneError(f, "--offload-dir needs --offload=optimizer");
  f = run("table_f32",
          {"--offload=optimizer", "--offload-dir", folder / "absent"});
  EXPECT_EQ(f.code, 1);
  expectOneError(f, "absent': cannot make a file: No such file or directory");
}

TEST_F(Replicas, MistakesAreToldBeforeRanksStart) {
  Finished f = run("table_f32_replicated", {"--nproc", "2", "--replicas", "2"});
  EXPECT_EQ(f.code, 2);
  expectOneError(f, "--replicas=2: the program was compiled with "
                    "--strategy=no_shard");
  f = run("table_f32", {"--nproc", "3", "--replicas", "2"});
  EXPECT_EQ(f.code, 2);
  expectOneError(f, "--replicas=2 does not divide the 3 ranks");
}

} // namespace
