// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which of two ways a plan takes where one of them moves state or activations
// to host memory.

#include "Driver/PlanSearch.h"

#include <gtest/gtest.h>

using namespace shardonnx;

namespace {

PlannedWay onDevice(double tokens) {
  PlannedWay way;
  way.tokensPerSecondPerGpu = tokens;
  return way;
}

PlannedWay stateOnHost(double tokens) {
  PlannedWay way = onDevice(tokens);
  way.offload = Offload::Optimizer;
  return way;
}

PlannedWay activationsOnHost(double tokens) {
  PlannedWay way = onDevice(tokens);
  way.offloadActivations = true;
  return way;
}

TEST(PlanGainTest, HostMemoryIsTakenForMoreThanAPercent) {
  EXPECT_LT(gainOf(stateOnHost(1009), onDevice(1000)), 1);
  EXPECT_GT(gainOf(stateOnHost(1011), onDevice(1000)), 1);
  EXPECT_LT(gainOf(activationsOnHost(1009), onDevice(1000)), 1);
  EXPECT_GT(gainOf(activationsOnHost(1011), onDevice(1000)), 1);
}

TEST(PlanGainTest, HostMemoryIsLeftWhereItIsNotFasterByThat) {
  EXPECT_GT(gainOf(onDevice(1000), stateOnHost(1009)), 1);
  EXPECT_LT(gainOf(onDevice(1000), stateOnHost(1011)), 1);
}

TEST(PlanGainTest, OfTheSameMemoryTheFasterIsTaken) {
  EXPECT_GT(gainOf(onDevice(1001), onDevice(1000)), 1);
  EXPECT_GT(gainOf(stateOnHost(1001), stateOnHost(1000)), 1);
  EXPECT_GT(gainOf(stateOnHost(1001), activationsOnHost(1000)), 1);
  EXPECT_LT(gainOf(stateOnHost(999), stateOnHost(1000)), 1);
}

} // namespace
