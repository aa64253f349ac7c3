// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collectives between ranks on emulated GPUs (runtime/CollectivesProgram.cpp
// looks at every element), and how they end when a rank hangs or dies.

#include "runtime/TestFiles.h"
#include <algorithm>
#include <csignal>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace shardonnx::test;

namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

// The ranks of a run: `layout[m]` of them on machine m, in order.
class Collectives : public testing::Test {
protected:
  void start(std::vector<int> layout, const std::string &paramType,
             const std::string &reduceType, const Environment &more = {}) {
    int world = 0, rank = 0;
    for (int ranks : layout)
      world += ranks;
    std::string port = std::to_string(30000 + ::getpid() % 20000);
    for (size_t m = 0; m < layout.size(); ++m)
      for (int local = 0; local < layout[m]; ++local, ++rank) {
        Environment e = {{"LD_LIBRARY_PATH", SHX_CUDA_EMULATOR},
                         {"SHARDONNX_EMULATOR_DEVICES", "4"},
                         {"RANK", std::to_string(rank)},
                         {"WORLD_SIZE", std::to_string(world)},
                         {"LOCAL_RANK", std::to_string(local)},
                         {"LOCAL_WORLD_SIZE", std::to_string(layout[m])},
                         {"GROUP_RANK", std::to_string(m)},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", port},
                         {"TORCHELASTIC_RUN_ID", folder.path}};
        e.insert(e.end(), more.begin(), more.end());
        processes.emplace_back(std::vector<std::string>{SHX_TEST_PROGRAMS
                                                        "/collectives",
                                                        paramType, reduceType},
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
  std::string expectOneError() {
    std::string text;
    for (Process &process : processes) {
      Finished f = process.wait();
      EXPECT_NE(f.code, 0);
      EXPECT_LT(f.seconds, 30);
      text += f.err;
    }
    processes.clear();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    return text;
  }
  Folder folder;
  std::vector<Process> processes;
};

TEST_F(Collectives, EveryElementIsRight) {
  for (const std::vector<int> &layout : {std::vector<int>{1}, {2}, {3}, {4}}) {
    start(layout, "f32", "f32");
    expectWell();
    start(layout, "bf16", "f32");
    expectWell();
    start(layout, "f16", "bf16");
    expectWell();
  }
}

TEST_F(Collectives, AHangNamesUnitAndCollective) {
  start({3}, "bf16", "f32",
        {{"SHARDONNX_EMULATOR_HANG_RANK", "1"}, {"SHARDONNX_TIMEOUT", "2"}});
  std::string text = expectOneError();
  EXPECT_NE(text.find("waiting for the "), std::string::npos) << text;
  EXPECT_NE(text.find(" of unit '"), std::string::npos) << text;
  EXPECT_NE(text.find(" of step "), std::string::npos) << text;
}

TEST_F(Collectives, ADeathEndsAllAndIsNamed) {
  start({3}, "bf16", "f32", {{"COLLECTIVES_ROUNDS", "1000000"}});
  ::sleep(2);
  ::kill(processes[1].pid(), SIGKILL);
  std::string text = expectOneError();
  EXPECT_NE(text.find("rank 1 (process "), std::string::npos) << text;
}

TEST_F(Collectives, RanksOnOneGpuAreTold) {
  start({2}, "bf16", "f32", {{"SHARDONNX_EMULATOR_DEVICES", "1"}});
  std::string text = expectOneError();
  EXPECT_NE(text.find("ranks 0 and 1 are on one GPU"), std::string::npos)
      << text;
}

} // namespace
