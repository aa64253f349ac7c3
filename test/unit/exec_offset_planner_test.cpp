// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory planner on lifetimes made by hand and by chance: nothing that
// lives at one time overlaps, and the plan stays near its lower bound.

#include "shardonnx/Dialect/Exec/Transforms/OffsetPlanner.h"
#include "shardonnx/runtime/Layout.h"

#include <ctime>
#include <gtest/gtest.h>
#include <random>

using namespace shardonnx;
using namespace shardonnx::exec;

namespace {

PlanItem item(int64_t bytes, int64_t begin, int64_t end) {
  PlanItem result;
  result.bytes = bytes;
  result.live.push_back({begin, end});
  return result;
}

// A second opinion that shares nothing with findOverlap: every pair.
bool anyPairOverlaps(const std::vector<PlanItem> &items) {
  for (size_t i = 0; i < items.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const PlanItem &a = items[i], &b = items[j];
      if (a.offset >= b.offset + b.bytes || b.offset >= a.offset + a.bytes)
        continue;
      for (LiveRange x : a.live)
        for (LiveRange y : b.live)
          if (x.begin < y.end && y.begin < x.end)
            return true;
    }
  return false;
}

void checkPlan(const std::vector<PlanItem> &items, const PlanSummary &plan) {
  EXPECT_FALSE(anyPairOverlaps(items));
  EXPECT_FALSE(findOverlap(items).has_value());
  for (const PlanItem &each : items) {
    EXPECT_EQ(each.offset % kBufferAlignmentBytes, 0);
    EXPECT_GE(each.offset, 0);
    EXPECT_LE(each.offset + each.bytes, plan.bytes);
  }
  EXPECT_GE(plan.bytes, plan.lowerBound);
}

TEST(OffsetPlanner, EmptyNeedsNothing) {
  std::vector<PlanItem> items;
  PlanSummary plan = planOffsets(items);
  EXPECT_EQ(plan.bytes, 0);
  EXPECT_EQ(plan.lowerBound, 0);
}

TEST(OffsetPlanner, ReusesWhatDied) {
  // a | b | c one after the other, d beside all of them.
  std::vector<PlanItem> items = {item(640, 0, 2), item(640, 2, 4),
                                 item(320, 4, 6), item(64, 0, 6)};
  PlanSummary plan = planOffsets(items);
  checkPlan(items, plan);
  EXPECT_EQ(plan.lowerBound, 704);
  EXPECT_EQ(plan.bytes, 704);
}

TEST(OffsetPlanner, RoundsSizesUp) {
  std::vector<PlanItem> items = {item(1, 0, 1), item(65, 0, 1)};
  PlanSummary plan = planOffsets(items);
  checkPlan(items, plan);
  EXPECT_EQ(plan.bytes, 64 + 128);
}

TEST(OffsetPlanner, KeepsOnePlaceOverSeveralLifetimes) {
  // The first is live twice; in between its place is free for the second.
  PlanItem unit = item(1024, 0, 2);
  unit.live.push_back({4, 6});
  std::vector<PlanItem> items = {unit, item(1024, 2, 4)};
  PlanSummary plan = planOffsets(items);
  checkPlan(items, plan);
  EXPECT_EQ(plan.bytes, 1024);
  // What spans the second lifetime cannot have it.
  items = {unit, item(1024, 2, 5)};
  plan = planOffsets(items);
  checkPlan(items, plan);
  EXPECT_EQ(plan.bytes, 2048);
}

TEST(OffsetPlanner, TheLongestLivedLieLowestWhereAsked) {
  // What dies first is the largest.
  std::vector<PlanItem> items = {item(64, 0, 10), item(256, 2, 8),
                                 item(128, 1, 9)};
  PlanSummary plan = planOffsets(items, /*placed=*/0, PlanOrder::Lifetime);
  checkPlan(items, plan);
  EXPECT_EQ(plan.bytes, plan.lowerBound);
  EXPECT_EQ(items[0].offset, 0);
  EXPECT_EQ(items[2].offset, 64);
  EXPECT_EQ(items[1].offset, 192);
  planOffsets(items);
  EXPECT_EQ(items[1].offset, 0);
}

TEST(OffsetPlanner, FindsOverlaps) {
  std::vector<PlanItem> items = {item(128, 0, 2), item(128, 1, 3)};
  items[1].offset = 64;
  auto overlap = findOverlap(items);
  ASSERT_TRUE(overlap.has_value());
  EXPECT_EQ(overlap->first, 0u);
  EXPECT_EQ(overlap->second, 1u);
  items[1].offset = 128;
  EXPECT_FALSE(findOverlap(items).has_value());
  items[1] = item(128, 2, 3);
  EXPECT_FALSE(findOverlap(items).has_value());
}

TEST(OffsetPlanner, RandomLifetimes) {
  std::mt19937 random(7);
  double worst = 1;
  for (int round = 0; round < 200; ++round) {
    std::vector<PlanItem> items;
    int count = 1 + int(random() % 60);
    for (int i = 0; i < count; ++i) {
      int64_t begin = random() % 50, length = 1 + random() % 20;
      items.push_back(item(1 + random() % 5000, begin, begin + length));
      if (random() % 4 == 0)
        items.back().live.push_back({begin + length + 3, begin + length + 5});
    }
    PlanSummary plan = planOffsets(items);
    checkPlan(items, plan);
    worst = std::max(worst, double(plan.bytes) / double(plan.lowerBound));
  }
  // No plan need reach the bound, but none is far from it.
  EXPECT_LE(worst, 1.25);
}

// The shape of a training step: forward keeps some buffers of each layer until
// the layer's backward; others are short-lived.
std::vector<PlanItem> trainingStep(int layers, int perLayer,
                                   std::mt19937 &random) {
  std::vector<PlanItem> items;
  int64_t steps = int64_t(layers) * perLayer, end = 2 * steps;
  for (int64_t i = 0; i < steps; ++i) {
    int64_t bytes = 4096 * int64_t(1 + random() % 16);
    bool kept = random() % 3 == 0;
    items.push_back(item(bytes, i, kept ? end - i : i + 2));
    items.push_back(item(bytes, end - i, end - i + 2));
  }
  return items;
}

TEST(OffsetPlanner, TrainingStepsStayNearTheBound) {
  std::mt19937 random(11);
  for (int layers : {2, 6, 12}) {
    std::vector<PlanItem> items = trainingStep(layers, 20, random);
    PlanSummary plan = planOffsets(items);
    checkPlan(items, plan);
    EXPECT_LE(double(plan.bytes), 1.05 * double(plan.lowerBound));
  }
}

// Others go around what is placed already, into its gaps where they can.
TEST(OffsetPlanner, PlacedItemsStay) {
  std::vector<PlanItem> items = {item(128, 0, 4), item(256, 0, 2),
                                 item(64, 0, 4)};
  items[0].offset = 512;
  items[1].offset = 128;
  items.push_back(item(320, 2, 6)); // where the second was
  items.push_back(item(448, 1, 2)); // beside all of them
  items[2].offset = 0;
  PlanSummary plan = planOffsets(items, 3);
  checkPlan(items, plan);
  EXPECT_EQ(items[0].offset, 512);
  EXPECT_EQ(items[1].offset, 128);
  EXPECT_EQ(items[2].offset, 0);
  EXPECT_LT(items[3].offset, 512);
  EXPECT_EQ(items[4].offset, 640);
  EXPECT_EQ(planOffsets(items, items.size()).bytes, plan.bytes);
}

TEST(OffsetPlanner, ThousandsOfBuffersTakeSeconds) {
  std::mt19937 random(13);
  std::vector<PlanItem> items = trainingStep(126, 40, random);
  // Processor time: other work on the machine does not count.
  std::clock_t begin = std::clock();
  PlanSummary plan = planOffsets(items);
  double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_FALSE(findOverlap(items).has_value());
  EXPECT_LE(double(plan.bytes), 1.1 * double(plan.lowerBound));
  EXPECT_LT(seconds, 20);
}

// As the trials of a budget do; what differs a little is planned anew.
TEST(OffsetPlanner, WhatWasPlannedIsRemembered) {
  std::mt19937 random(17);
  std::vector<PlanItem> items = trainingStep(126, 40, random), again = items;
  std::clock_t begin = std::clock();
  PlanSummary plan = planOffsets(items);
  std::clock_t middle = std::clock();
  PlanSummary same = planOffsets(again);
  std::clock_t end = std::clock();
  EXPECT_LT(double(end - middle), 0.1 * double(middle - begin));
  EXPECT_EQ(same.bytes, plan.bytes);
  EXPECT_EQ(same.lowerBound, plan.lowerBound);
  EXPECT_EQ(same.peakTime, plan.peakTime);
  for (size_t i = 0; i < items.size(); ++i)
    EXPECT_EQ(again[i].offset, items[i].offset) << i;
  for (int64_t more : {1, 64}) { // a size, or when one lives
    std::vector<PlanItem> other = items;
    other[7].bytes += more;
    other[9].live[0].end += more == 1;
    planOffsets(other);
    EXPECT_FALSE(findOverlap(other).has_value());
  }
}

} // namespace
