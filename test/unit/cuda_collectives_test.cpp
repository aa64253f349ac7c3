// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives between ranks on emulated GPUs (runtime/CollectivesProgram.cpp
// looks at every element), and how they end when a rank hangs or dies.

#include "cuda/collectives/Nccl.h"
#include "runtime/OneError.h"
#include "support/Error.h"
#include <algorithm>
#include <csignal>
#include <tuple>
#include <unistd.h>
#include <utility>

using namespace shardonnx::test;
using shardonnx::rt::cuda::checkNccl;

namespace {

std::string objection(const std::vector<int> &versions,
                      const std::vector<std::string> &uuids) {
  try {
    checkNccl(versions, uuids);
    return "";
  } catch (const shardonnx::rt::Error &e) {
    return e.what();
  }
}

TEST(Nccl, IsTheSameEverywhere) {
  EXPECT_EQ(objection({22809, 22809}, {"a", "b"}), "");
  EXPECT_EQ(objection({22809, 23007}, {"a", "b"}),
            "rank 0 has NCCL 2.28.9, rank 1 has NCCL 2.30.7: install the same "
            "version everywhere");
}

TEST(Nccl, RanksShareAGpuOnlyOnRequest) {
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  std::string old = objection({22809, 22809, 22809}, {"a", "b", "b"});
  EXPECT_NE(old.find("ranks 1 and 2 are on one GPU"), std::string::npos) << old;
  EXPECT_NE(old.find("install NCCL 2.30.0"), std::string::npos) << old;
  std::string plain = objection({23007, 23007}, {"b", "b"});
  EXPECT_NE(plain.find("NCCL_MULTI_RANK_GPU_ENABLE=1"), std::string::npos);
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  EXPECT_EQ(checkNccl({23007, 23007}, {"a", "b"}), 1);
  EXPECT_EQ(checkNccl({23007, 23007, 23007, 23007}, {"a", "b", "a", "a"}), 3);
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

// The ranks of a run: `layout[m]` of them on machine m, in order.
class Collectives : public testing::Test {
protected:
  void start(std::vector<int> layout, const std::string &paramType,
             const std::string &reduceType, const Environment &more = {},
             int replicas = 1, int reshardGroup = 0) {
    int world = 0, rank = 0;
    for (int ranks : layout)
      world += ranks;
    std::string port = std::to_string(freePort());
    for (size_t m = 0; m < layout.size(); ++m)
      for (int local = 0; local < layout[m]; ++local, ++rank) {
        Environment e = {{"LD_LIBRARY_PATH", SHX_CUDA_EMULATOR},
                         {"SHARDONNX_EMULATOR_DEVICES", "4"},
                         {"CUDA_FORCE_PTX_JIT", "1"},
                         {"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", std::to_string(world)},
                         {"LOCAL_RANK", std::to_string(local)},
                         {"LOCAL_WORLD_SIZE", std::to_string(layout[m])},
                         {"GROUP_RANK", std::to_string(m)},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", port},
                         {"TORCHELASTIC_RUN_ID", folder.path}};
        e.insert(e.end(), more.begin(), more.end());
        processes.emplace_back(
            std::vector<std::string>{
                SHX_TEST_PROGRAMS "/collectives", paramType, reduceType,
                std::to_string(replicas), std::to_string(reshardGroup)},
            folder, e);
      }
  }
  void expectWell() {
    for (Process &process : processes) {
      Finished f = process.wait();
      EXPECT_EQ(f.code, 0) << f.err;
      EXPECT_NE(f.out.find("well"), std::string::npos);
    }
    processes.clear();
  }
  // All fail, and one line tells why.
  std::string expectOneError(const std::string &part) {
    std::string text;
    double begin = now();
    for (Process &process : processes) {
      Finished f = process.wait();
      EXPECT_NE(f.code, 0);
      text += f.err;
    }
    EXPECT_LT(now() - begin, 30);
    processes.clear();
    shardonnx::test::expectOneError(text, part);
    return text;
  }
  Folder folder;
  std::vector<Process> processes;
};

// Three ranks need padding. Graphs run in any order that their dependences
// allow, and whatever nothing orders is an error.
TEST_F(Collectives, EveryElementIsRight) {
  for (auto [ranks, paramType, reduceType] :
       {std::make_tuple(1, "bf16", "f32"), std::make_tuple(2, "f32", "f32"),
        std::make_tuple(3, "bf16", "f32"), std::make_tuple(3, "f32", "bf16"),
        std::make_tuple(4, "f16", "f16")}) {
    start({ranks}, paramType, reduceType,
          {{"SHARDONNX_EMULATOR_SHUFFLE", "7"},
           {"SHARDONNX_EMULATOR_RACECHECK", "1"}});
    expectWell();
  }
}

// Groups of ranks: replicas of one rank and of two, and of ranks that gather a
// unit again for backward.
TEST_F(Collectives, EveryElementIsRightInGroups) {
  for (auto [ranks, replicas, group] :
       {std::make_tuple(2, 2, 0), std::make_tuple(4, 2, 0),
        std::make_tuple(4, 1, 2)}) {
    start({ranks}, "bf16", "f32",
          {{"SHARDONNX_EMULATOR_SHUFFLE", "7"},
           {"SHARDONNX_EMULATOR_RACECHECK", "1"}},
          replicas, group);
    expectWell();
  }
}

// Two machines in one, whose ranks meet by TCP and share two GPUs.
TEST_F(Collectives, SeveralMachinesAndSharedGpus) {
  start({2, 2}, "bf16", "f32",
        {{"SHARDONNX_EMULATOR_NCCL_VERSION", "23007"},
         {"NCCL_MULTI_RANK_GPU_ENABLE", "1"}});
  expectWell();
}

// When collectives run for the first time, and in a graph. Emulated GPUs take a
// while to load kernels, which the timeout must allow.
TEST_F(Collectives, AHangNamesUnitAndCollective) {
  for (auto [which, step] :
       {std::make_pair("1:3", " of step 0)"), std::make_pair("1:42", ")")}) {
    start({3}, "bf16", "f32",
          {{"SHARDONNX_EMULATOR_HANG_RANK", which},
           {"SHARDONNX_TIMEOUT", "6"},
           {"COLLECTIVES_FLIGHTS", folder / "flights.json"}});
    std::string text = expectOneError("waiting for the ");
    EXPECT_NE(text.find(" of unit '"), std::string::npos) << text;
    EXPECT_NE(text.find(step), std::string::npos) << text;
    std::string flights = readFile(folder / "flights.json");
    EXPECT_NE(flights.find("\"state\": \"running\""), std::string::npos);
    EXPECT_NE(flights.find("\"collective\": \"all-gather\""),
              std::string::npos);
    EXPECT_EQ(flights.find("\"collectives\": []"), std::string::npos);
  }
}

TEST_F(Collectives, ADeathEndsAllAndIsNamed) {
  start({3}, "bf16", "f32", {{"COLLECTIVES_ROUNDS", "1000000"}});
  EXPECT_TRUE(waitUntil([&] {
    return std::none_of(processes.begin(), processes.end(),
                        [](const Process &process) {
                          return readFile(process.output()).empty();
                        });
  }));
  ::kill(processes[1].pid(), SIGKILL);
  expectOneError("rank 1 (process ");
}

TEST_F(Collectives, RanksOnOneGpuAreTold) {
  start({2}, "bf16", "f32", {{"SHARDONNX_EMULATOR_DEVICES", "1"}});
  expectOneError("ranks 0 and 1 are on one GPU");
}

} // namespace
