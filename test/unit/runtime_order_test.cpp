// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sample order, learning rates and layout: the formulas that every world size
// must agree on.

#include "../../runtime/core/SampleOrder.h"
#include "../../runtime/core/Schedule.h"
#include "shardonnx/runtime/Layout.h"
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace shardonnx;
using namespace shardonnx::rt;

namespace {

TEST(SampleOrder, IsTheContracts) {
  // C + (a·N + r)·B + b, modulo the samples.
  SampleOrder order{/*batch=*/2, /*ranks=*/3, /*accumulate=*/2,
                    /*samples=*/17};
  for (int64_t step = 1; step <= 5; ++step)
    for (int64_t a = 0; a < 2; ++a)
      for (int64_t r = 0; r < 3; ++r)
        for (int64_t b = 0; b < 2; ++b) {
          int64_t consumed = (step - 1) * 12;
          EXPECT_EQ(order.at(consumed, a, r, b),
                    (consumed + (a * 3 + r) * 2 + b) % 17);
        }
}

std::multiset<int64_t> samplesOfStep(SampleOrder order, int64_t step) {
  std::multiset<int64_t> samples;
  for (int64_t a = 0; a < order.accumulate; ++a)
    for (int64_t r = 0; r < order.ranks; ++r)
      for (int64_t b = 0; b < order.batch; ++b)
        samples.insert(order.at((step - 1) * order.perStep(), a, r, b));
  return samples;
}

TEST(SampleOrder, StepsSeeTheSameAtEveryWorldSize) {
  for (bool shuffle : {false, true})
    for (int64_t step : {1, 2, 9}) {
      SampleOrder one{1, 1, 12, 31, shuffle, 7};
      for (int64_t ranks : {2, 3, 4, 6, 12}) {
        SampleOrder many{1, ranks, 12 / ranks, 31, shuffle, 7};
        EXPECT_EQ(samplesOfStep(one, step), samplesOfStep(many, step));
      }
    }
}

TEST(SampleOrder, ShuffleVisitsEachSampleOncePerEpoch) {
  SampleOrder order{1, 1, 1, 100, true, 3};
  std::vector<int64_t> epochs[2];
  for (int64_t step = 1; step <= 200; ++step)
    epochs[(step - 1) / 100].push_back(order.at(step - 1, 0, 0, 0));
  for (auto &epoch : epochs)
    EXPECT_EQ(std::set<int64_t>(epoch.begin(), epoch.end()).size(), 100u);
  EXPECT_NE(epochs[0], epochs[1]);
  SampleOrder other = order;
  other.seed = 4;
  EXPECT_NE(samplesOfStep(order, 1), samplesOfStep(other, 1));
}

TEST(Permutation, IsABijectionOfEveryCount) {
  for (int64_t count : {1, 2, 3, 4, 5, 63, 64, 65, 1000}) {
    Permutation permutation(count, 99);
    std::set<int64_t> seen;
    for (int64_t i = 0; i < count; ++i) {
      int64_t image = permutation(i);
      EXPECT_GE(image, 0);
      EXPECT_LT(image, count);
      seen.insert(image);
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), count);
  }
}

TEST(Schedule, WarmsUpAndReachesTheFloorAtTheLastStep) {
  using Kind = Schedule::Kind;
  for (Kind kind : {Kind::Linear, Kind::Cosine, Kind::WSD}) {
    Schedule s{kind, 1.0, 0.1, 10, 110};
    EXPECT_DOUBLE_EQ(s.at(1), 0.1);
    EXPECT_DOUBLE_EQ(s.at(5), 0.5);
    EXPECT_DOUBLE_EQ(s.at(10), 1.0);
    EXPECT_NEAR(s.at(110), 0.1, 1e-12);
  }
  EXPECT_DOUBLE_EQ((Schedule{Kind::Constant, 2.0, 0.1, 0, 10}.at(10)), 2.0);
}

TEST(Schedule, DecaysAsItsNameSays) {
  using Kind = Schedule::Kind;
  EXPECT_NEAR((Schedule{Kind::Linear, 1.0, 0.0, 0, 100}.at(25)), 0.75, 1e-12);
  EXPECT_NEAR((Schedule{Kind::Cosine, 1.0, 0.0, 0, 100}.at(50)), 0.5, 1e-12);
  EXPECT_NEAR((Schedule{Kind::Cosine, 1.0, 0.0, 0, 100}.at(25)),
              0.5 * (1 + std::sqrt(0.5)), 1e-12);
  Schedule wsd{Kind::WSD, 1.0, 0.0, 0, 100};
  EXPECT_DOUBLE_EQ(wsd.at(80), 1.0); // the last fifth: 81…100
  EXPECT_NEAR(wsd.at(81), 0.95, 1e-12);
  EXPECT_NEAR(wsd.at(90), 0.5, 1e-12);
}

TEST(Schedule, MayBeAllWarmUp) {
  Schedule s{Schedule::Kind::Cosine, 1.0, 0.0, 20, 10};
  EXPECT_DOUBLE_EQ(s.at(10), 0.5);
}

TEST(Layout, SlicesCoverTheUnitOnce) {
  for (int64_t length : {0, 16, 256, 512, 768, 1000 * 256})
    for (int64_t ranks : {1, 2, 3, 4, 7, 64}) {
      int64_t next = 0;
      for (int64_t r = 0; r < ranks; ++r) {
        Interval owned = ownedInterval(length, r, ranks);
        EXPECT_EQ(owned.begin, std::min(next, length));
        EXPECT_TRUE(owned.size() == 0 || owned.begin % kSliceAlignment == 0);
        next = owned.end;
      }
      EXPECT_EQ(next, length);
    }
}

} // namespace
