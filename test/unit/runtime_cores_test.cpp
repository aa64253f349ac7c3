// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which cores a rank has, and when its threads yield them.

#include "../../runtime/comm/Cores.h"
#include "../../runtime/comm/CpuQuota.h"
#include "../../runtime/cpu/WaitPolicy.h"
#include "runtime/TestFiles.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <thread>

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

TEST(CpuQuota, ReadsWhatContainersSay) {
  EXPECT_EQ(coresOfQuota("150000 100000"), 1.5);
  EXPECT_EQ(coresOfQuota("max 100000"), std::nullopt);
  EXPECT_EQ(coresOfQuota("-1 100000"), std::nullopt); // version 1: no limit
  EXPECT_EQ(coresOfQuota(" "), std::nullopt);
}

TEST(Cores, ReadsLists) {
  EXPECT_EQ(parseCores("0-3,8,10-11\n"), (Cores{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parseCores("7"), (Cores{7}));
  EXPECT_EQ(parseCores("\n"), Cores{}); // a node of memory alone
  for (const char *damaged : {"x", "0-", "-1", "0;1", "0-99999999999", "1,x"})
    EXPECT_EQ(parseCores(damaged), Cores{}) << damaged;
}

TEST(Cores, RanksStayOnTheirNodes) {
  Cores all = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<Cores> two = {{0, 1, 4, 5}, {2, 3, 6, 7}};
  std::vector<Cores> four = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
  EXPECT_EQ(coresOfRank(all, two, 0, 2, 4), two[0]);
  EXPECT_EQ(coresOfRank(all, two, 1, 2, 4), two[1]);
  EXPECT_EQ(coresOfRank(all, two, 1, 4, 2), two[0]); // two ranks a node
  EXPECT_EQ(coresOfRank(all, two, 2, 4, 2), two[1]);
  EXPECT_EQ(coresOfRank(all, four, 1, 2, 4), (Cores{4, 5, 6, 7}));
  // Only what the process may use; the other node has none of it.
  EXPECT_EQ(coresOfRank({1, 2, 4}, two, 0, 2, 1), (Cores{1, 4}));
  EXPECT_EQ(coresOfRank({0, 1, 4}, two, 0, 2, 1), (Cores{0, 1, 4}));
  // One rank, one node, or too few cores on it for the threads.
  EXPECT_EQ(coresOfRank(all, two, 0, 1, 8), all);
  EXPECT_EQ(coresOfRank(all, {all}, 0, 2, 4), all);
  EXPECT_EQ(coresOfRank(all, {}, 0, 2, 4), all);
  EXPECT_EQ(coresOfRank(all, two, 0, 3, 3), all);
  EXPECT_EQ(coresOfRank(all, two, 2, 3, 3), two[1]);
  EXPECT_EQ(coresOfRank(all, two, 5, 16, 1), all); // more ranks than cores
}

TEST(Cores, FindsNodesInOrder) {
  test::Folder folder;
  for (auto [name, list] : {std::pair("node10", "2-3\n"),
                            {"node2", "0-1\n"},
                            {"node3", "\n"},
                            {"power", "9\n"}}) {
    std::filesystem::create_directory(folder / name);
    folder.write(std::string(name) + "/cpulist", list);
  }
  EXPECT_EQ(memoryNodes(folder.path), (std::vector<Cores>{{0, 1}, {2, 3}}));
  EXPECT_TRUE(memoryNodes(folder / "none").empty());
}

// Two threads, looked at every 0.25 s, of which `waited` seconds without a
// core.
class Threads {
public:
  bool spinAfter(double waited) {
    now += 0.25;
    times.ran += 0.5 - waited;
    times.waited += waited;
    EXPECT_TRUE(policy.isDue(now));
    return policy.decide(now, times);
  }
  /// The seconds until it tries again.
  double secondsOfYielding(double waited) {
    double begin = now;
    while (!spinAfter(waited))
      EXPECT_LT(now - begin, 60) << "never tried again";
    return now - begin;
  }

private:
  WaitPolicy policy;
  ThreadTimes times;
  double now = 100;
};

TEST(WaitPolicy, YieldsWhereCoresAreWanted) {
  Threads threads;
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(threads.spinAfter(0.01));
  EXPECT_FALSE(threads.spinAfter(0.2));
  // It tries again, and where that fails waits longer each time.
  EXPECT_NEAR(threads.secondsOfYielding(0.2), 2.5, 0.3);
  EXPECT_FALSE(threads.spinAfter(0.2));
  EXPECT_NEAR(threads.secondsOfYielding(0.2), 5, 0.3);
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(threads.spinAfter(0.2));
    EXPECT_LT(threads.secondsOfYielding(0.2), 31);
  }
  // The cores are free again.
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(threads.spinAfter(0.01));
  EXPECT_FALSE(threads.spinAfter(0.2));
  EXPECT_NEAR(threads.secondsOfYielding(0.2), 2.5, 0.3);
}

// A thread that ended took its times along.
TEST(WaitPolicy, LooksAtGrowingTimesOnly) {
  WaitPolicy policy;
  EXPECT_TRUE(policy.decide(1, {5, 5}));
  EXPECT_FALSE(policy.isDue(1.1));
  EXPECT_TRUE(policy.decide(2, {3, 6}));
  EXPECT_FALSE(policy.decide(3, {4, 7}));
}

TEST(WaitPolicy, TriesTakeNoGreaterShareOfLongSteps) {
  WaitPolicy policy;
  int spinning = 0;
  for (int step = 1; step <= 100; ++step) // of 4 s
    spinning += policy.decide(4 * step, {4.0 * step, 4.0 * step});
  EXPECT_LE(spinning, 11);
}

TEST(WaitPolicy, TheSystemTellsTheTimes) {
  std::optional<ThreadTimes> before = threadTimes();
  if (!before)
    GTEST_SKIP() << "no /proc/self/task/*/schedstat";
  volatile double sum = 0;
  for (int i = 0; i < 20'000'000; ++i)
    sum = sum + i;
  EXPECT_GT(threadTimes()->ran, before->ran);
}

} // namespace
