// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The waits of a step, who owns Muon's matrices, and what PyTorch keeps,
// against arithmetic done by hand.

#include "axis_call.h"
#include "shardonnx/Cost/Exposure.h"
#include "shardonnx/Cost/FrameworkMemory.h"
#include "shardonnx/runtime/MuonPlan.h"

#include <gtest/gtest.h>

using namespace shardonnx;

namespace {

TEST(Exposure, AttentionIsReadFromItsName) {
  Device device = *deviceNamed("h100");
  Manifest m;
  m.paramType = SHX_BF16;
  Manifest::Launch launch;
  launch.kind = "attention";
  launch.name = "attention 4x2048x32x128 causal";
  launch.flops = 1e12;
  launch.calls = 1;
  auto seconds = [&](Manifest::Phase phase, const char *library) {
    return launchSeconds(m, launch, phase, device, library);
  };
  // FlashAttention-3's figure 5: cuDNN reaches 484 TFLOP/s, its predecessor
  // 298.
  EXPECT_NEAR(seconds(Manifest::Phase::Forward, "cudnn"), 1 / 484.0, 1e-9);
  EXPECT_NEAR(seconds(Manifest::Phase::Forward, "flash-attention-2"), 1 / 298.0,
              1e-9);
  EXPECT_GT(seconds(Manifest::Phase::Backward, "cudnn"), 1 / 465.0);
}

// One second of latency, 1 MB/s, 1 GFLOP/s, 1 GB/s of memory.
Device slow() {
  Device device;
  device.f32Flops = device.halfFlops = device.memoryBytesPerSecond = 1e9;
  device.within = {1e6};
  device.protocols = {{"ring", 1, 0, 0, 1}};
  return device;
}

// 2 MB of parameters and of gradients: two seconds a collective on two ranks.
Manifest oneUnit() {
  Manifest m;
  m.optimizer = Optimizer::AdamW;
  m.units.resize(1);
  m.units[0].length = 500000;
  return m;
}

TEST(Exposure, WaitsForWhatWorkDoesNotHide) {
  Manifest m = oneUnit();
  // The gather takes 2 s, of which 1 s of work hides half; the reduction begins
  // at 5 s, ends at 7 s, and is awaited at 6 s.
  m.functions = {
      {"first_microbatch",
       {{"gather_start", 0, 0, 0},
        {"gather_wait", 0, 1e9, 0},
        {"gather_free", 0, 0, 0},
        {"reduce_start", 0, 3e9, 0}},
       0,
       1e9},
      {"update", {{"reduce_wait", 0, 0, 0}, {"optimizer", 0, 0, 0}}}};
  StepExposure step = predictExposure(m, slow(), Topology(2, 1));
  EXPECT_NEAR(step.units[0].gather, 2, 1e-9);
  EXPECT_NEAR(step.units[0].reduce, 2, 1e-9);
  EXPECT_NEAR(step.units[0].exposed, 2, 1e-9);
  EXPECT_NEAR(step.exposed, 2, 1e-9);
  // The optimizer moves 7 f32 for each of 250000 owned elements: 7 ms.
  EXPECT_NEAR(step.work, 5.007, 1e-9);
  // One rank neither gathers nor reduces.
  EXPECT_NEAR(predictExposure(m, slow(), Topology(1, 1)).exposed, 0, 1e-9);
}

TEST(Exposure, InPlaceOnlyRanksMeet) {
  Manifest m = oneUnit();
  m.units[0].gatherInPlace = true;
  m.functions = {{"first_microbatch",
                  {{"gather_start", 0, 0, 0}, {"gather_wait", 0, 0, 0}}}};
  EXPECT_NEAR(predictExposure(m, slow(), Topology(2, 1)).units[0].exposed, 1,
              1e-9);
}

// Two ranks of the tensor axis: each of two sums takes twice a second of
// latency and 0.5 MB, and the work waits for both.
TEST(Exposure, WorkWaitsForItsAxes) {
  Manifest m;
  m.mesh.set(MeshAxis::Tensor, 2);
  m.launches = {axisCall("all_reduce tensor", 2e6)};
  m.functions = {{"first_microbatch", {}}};
  m.functions[0].launches = {{0, -1, Manifest::Phase::Forward, 2, 0}};
  Topology ranks(2, 1, 0, kSliceAlignment, /*tensor=*/2);
  StepExposure step = predictExposure(m, slow(), ranks);
  EXPECT_NEAR(step.exposed, 6, 1e-9);
  EXPECT_NEAR(step.exposedByAxis[size_t(MeshAxis::Tensor)], 6, 1e-9);
  EXPECT_NEAR(step.exposedByAxis[size_t(MeshAxis::Shard)], 0, 1e-9);
  EXPECT_NEAR(launchSeconds(m, m.launches[0], Manifest::Phase::Forward, slow()),
              3, 1e-9);
}

// What is started runs beside the work before its wait, in one queue: two sums
// of 3 s each, awaited behind 4 s and 1 s of work.
TEST(Exposure, WhatIsStartedAlongAnAxisRunsBesideWork) {
  Manifest m;
  m.mesh.set(MeshAxis::Tensor, 2);
  m.launches = {axisCall("all_reduce tensor", 2e6), {}};
  m.launches[0].kind = "mesh start";
  m.launches[1].kind = "elementwise";
  m.launches[1].readBytes = m.launches[1].leastBytes = 1e9;
  m.functions = {{"first_microbatch",
                  {{"axis_start", -1, 0, 0},
                   {"axis_start", -1, 0, 0},
                   {"axis_wait", -1, 0, 0},
                   {"axis_wait", -1, 0, 0}}}};
  auto runs = [](size_t launch, int64_t count, size_t behind) {
    return Manifest::LaunchRun{launch, -1, Manifest::Phase::Forward, count,
                               behind};
  };
  m.functions[0].launches = {runs(0, 1, 0), runs(0, 1, 1), runs(1, 4, 2),
                             runs(1, 1, 3)};
  Topology ranks(2, 1, 0, kSliceAlignment, /*tensor=*/2);
  StepExposure step = predictExposure(m, slow(), ranks);
  EXPECT_NEAR(step.work, 5, 1e-9);
  EXPECT_NEAR(step.exposed, 1, 1e-9);
  EXPECT_NEAR(step.exposedByAxis[size_t(MeshAxis::Tensor)], 1, 1e-9);
  std::vector<FunctionSchedule> schedule = predictSchedule(m, slow(), ranks);
  ASSERT_EQ(schedule[0].others.size(), 3u); // two sums and a wait
  EXPECT_NEAR(schedule[0].others[1].begin, 3, 1e-9);
  EXPECT_NEAR(schedule[0].others[1].end, 6, 1e-9);
}

// A gather of 2 s, of which one is latency, runs beside a sum of 3 s: over the
// same link, so what is sent at the same time takes longer.
TEST(Exposure, AxesShareLinksWithUnits) {
  Manifest m = oneUnit();
  m.mesh.set(MeshAxis::Tensor, 2);
  m.launches = {axisCall("all_reduce tensor", 2e6)};
  m.functions = {{"first_microbatch",
                  {{"gather_start", 0, 0, 0}, {"gather_wait", 0, 0, 0}}}};
  m.functions[0].launches = {{0, -1, Manifest::Phase::Forward, 1, 1}};
  Topology ranks(4, 1, 0, kSliceAlignment, /*tensor=*/2);
  StepExposure step = predictExposure(m, slow(), ranks);
  // For two of the three seconds: two more, of which the gather is hidden.
  EXPECT_NEAR(step.exposedByAxis[size_t(MeshAxis::Tensor)], 5, 1e-9);
  EXPECT_NEAR(step.units[0].exposed, 0, 1e-9);
  // Not where the ranks of a unit have their own cards.
  Device cards = slow();
  cards.perMachine = 2;
  cards.across = {2e6};
  step = predictExposure(m, cards, ranks);
  EXPECT_NEAR(step.exposedByAxis[size_t(MeshAxis::Tensor)], 3, 1e-9);
}

TEST(Exposure, AKeptUnitIsAwaitedInTheNextStep) {
  Manifest m = oneUnit();
  // Gathered behind the optimizer, awaited after 0.5 s of the next step.
  m.functions = {{"first_microbatch", {{"gather_wait", 0, 5e8, 0}}},
                 {"update", {{"gather_start", 0, 0, 0}}}};
  StepExposure step = predictExposure(m, slow(), Topology(2, 1));
  EXPECT_NEAR(step.units[0].exposed, 1.5, 1e-9);
  EXPECT_NEAR(step.seconds(), 2, 1e-9);
}

// Two units of 14 ms an optimizer and 28 ms: of the step before, on one rank,
// beside a forward that reads them.
class UpdateBeside : public testing::Test {
protected:
  UpdateBeside() {
    m.optimizer = Optimizer::AdamW;
    m.target = TargetKind::CUDA;
    m.units.resize(2);
    m.units[0].length = 500000;
    m.units[1].length = 1000000;
    m.launches = {{}, {}};
    m.launches[0].kind = "product";
    m.launches[0].flops = 1e7; // 10 ms
    m.launches[1].kind = "elementwise";
    m.launches[1].readBytes = m.launches[1].leastBytes = 1e7; // the same
    m.functions = {
        {"first_microbatch",
         {{"gather_wait", 0, 0, 0},
          {"gather_wait", 1, 0, 0},
          {"grad_acquire", 0, 0, 0}}},
        {"update", {{"optimizer", 0, 0, 0}, {"optimizer", 1, 0, 0}}}};
  }
  // So many launches between the first reads of the units.
  void runs(size_t launch, int64_t count) {
    m.functions[0].launches = {
        {launch, -1, Manifest::Phase::Forward, count, 1}};
  }
  Manifest m;
};

TEST_F(UpdateBeside, ProductsLeaveLittleOfMemory) {
  runs(0, 50);
  StepExposure step = predictExposure(m, slow(), Topology(1, 1));
  // The first unit's is awaited; of the second one's 10 ms run beside 500.
  EXPECT_NEAR(step.work, 0.014 + 0.500 + 0.018, 1e-9);
  EXPECT_NEAR(step.exposed, 0, 1e-9);
  runs(0, 200);
  step = predictExposure(m, slow(), Topology(1, 1));
  EXPECT_NEAR(step.work, 0.014 + 2, 1e-9);
  runs(0, 8);
  StepPlay offloads;
  offloads.offload = Offload::Optimizer;
  step = predictExposure(m, slow(), Topology(1, 1), offloads);
  EXPECT_NEAR(step.work, 0.042 + 0.080, 1e-9);
  m.target = TargetKind::CPU;
  step = predictExposure(m, slow(), Topology(1, 1));
  EXPECT_NEAR(step.work, 0.042 + 0.080, 1e-9);
}

TEST_F(UpdateBeside, WhatMovesMemoryLeavesNothing) {
  runs(1, 4);
  EXPECT_NEAR(predictExposure(m, slow(), Topology(1, 1)).work, 0.042 + 0.040,
              1e-9);
}

TEST_F(UpdateBeside, TheTimelineHasThemInTheirOrder) {
  runs(0, 200);
  std::vector<FunctionSchedule> schedule =
      predictSchedule(m, slow(), Topology(1, 1));
  std::vector<Span> spans;
  for (const Span &span : schedule[0].others)
    if (span.queue == Span::Update)
      spans.push_back(span);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].unit, 0);
  EXPECT_NEAR(spans[0].end, 0.014, 1e-9);
  EXPECT_EQ(spans[1].unit, 1);
  EXPECT_NEAR(spans[1].end, 0.014 + 50 * 0.028, 1e-9);
}

// A gather begins behind its unit's optimizer, beside the others'.
TEST_F(UpdateBeside, GathersWaitForTheirUnit) {
  m.functions[0].collectives = {{"gather_start", 0, 0, 0},
                                {"gather_wait", 0, 0, 0},
                                {"grad_acquire", 0, 0, 0}};
  StepExposure step = predictExposure(m, slow(), Topology(2, 1));
  // Half of each on each of two ranks; the gather takes two seconds.
  EXPECT_NEAR(step.exposed, 2, 1e-9);
  EXPECT_NEAR(step.work, 0.007, 1e-9);
}

TEST(Exposure, ReplicasAddUpWhatTheyOwn) {
  Manifest m = oneUnit();
  m.functions = {{"first_microbatch", {{"reduce_start", 0, 0, 0}}}};
  // 2 s in each group of two; then 1 MB at 2 replicas: twice 1 s and 0.5 MB.
  StepExposure step = predictExposure(m, slow(), Topology(4, 2));
  EXPECT_NEAR(step.units[0].reduce, 5, 1e-9);
}

// What is awaited last is the sum of the replicas.
TEST(Exposure, ReplicasWaitForEachOther) {
  Manifest m = oneUnit();
  m.functions = {{"first_microbatch", {{"reduce_start", 0, 0, 0}}},
                 {"update", {{"reduce_wait", 0, 1e9, 0}}}};
  StepExposure step = predictExposure(m, slow(), Topology(4, 2));
  EXPECT_NEAR(step.exposed, 4, 1e-9);
  EXPECT_NEAR(step.exposedByAxis[size_t(MeshAxis::Replicate)], 3, 1e-9);
  EXPECT_NEAR(step.exposedByAxis[size_t(MeshAxis::Shard)], 1, 1e-9);
}

// A unit of one matrix and nothing else.
Manifest::Unit matrixUnit(int64_t rows, int64_t columns) {
  Manifest::Unit unit;
  unit.length = unit.matrixLength = alignTo(rows * columns, 256);
  unit.params = {{"w", "w", 0, {rows, columns}, true, {}}};
  return unit;
}

TEST(Exposure, MuonsMatricesAreSharedOut) {
  Manifest m;
  m.optimizer = Optimizer::Muon;
  m.units = {matrixUnit(100, 200)};
  m.functions = {{"update", {{"optimizer", 0, 0, 0}}}};
  // Five times 2·100²·(2·200 + 100) FLOPs, half of them on each rank; and three
  // f32 and one that is read and written, of 10112 elements.
  StepExposure step = predictExposure(m, slow(), Topology(2, 1));
  EXPECT_NEAR(step.work, 0.025 + 10112 * 20e-9, 1e-12);
}

TEST(MuonPlan, LevelsTheOwners) {
  Manifest m;
  m.optimizer = Optimizer::Muon;
  m.units.resize(1); // of no matrix
  for (int64_t columns : {64, 32, 32, 64, 64, 64})
    m.units.push_back(matrixUnit(32, columns));
  MuonPlan plan = planMuon(m, 2);
  // Most work of one is what two smaller ones of the other have, nearly.
  std::vector<int> owners;
  for (const MuonPlan::Unit &unit : plan.units)
    for (const MuonPlan::Matrix &matrix : unit.matrices)
      owners.push_back(matrix.owner);
  EXPECT_EQ(owners, (std::vector<int>{0, 1, 1, 0, 1, 0}));
  // Four places in turns: the fifth unit lies where the first one was, which in
  // the next step lies where the fifth was.
  EXPECT_EQ(plan.units[5].offset, plan.units[1].offset);
  EXPECT_EQ(plan.units[5].before, 1u);
  EXPECT_EQ(plan.units[1].before, 5u);
  EXPECT_EQ(plan.units[3].before, 3u);
  // 32·64 elements of bf16 in the first and the last, as large as must be in
  // the second, which the sixth is.
  EXPECT_EQ(plan.units[2].offset, 4096);
  EXPECT_EQ(plan.units[3].offset, 8192);
  EXPECT_EQ(plan.windowBytes, 4096 + 4096 + 2048 + 4096);
}

// Of a tensor axis of two ranks, at each place of a group.
TEST(MuonPlan, JoinsSplitMatrices) {
  Manifest m;
  m.optimizer = Optimizer::Muon;
  m.mesh.set(MeshAxis::Tensor, 2);
  for (int64_t columns : {64, 48, 32, 32})
    m.units.push_back(matrixUnit(32, columns));
  // A rank has half of the rows of the first, and of the columns of the last,
  // whose whole is 32x64.
  m.units[0].params[0].split = Split{0, {64}};
  m.units[3].params[0].split = Split{1, {64}};
  MuonPlan plan = planMuon(m, 2);
  const MuonPlan::Matrix &first = plan.units[0].matrices[0];
  EXPECT_EQ(first.rows(), 64);
  EXPECT_EQ(first.columns(), 64);
  EXPECT_EQ(first.partBytes(), 32 * 64 * 2);
  EXPECT_TRUE(first.isOwnedBy(0, 0));
  EXPECT_FALSE(first.isOwnedBy(0, 1));
  // Those that are whole go to both ranks of a place.
  const MuonPlan::Matrix &second = plan.units[1].matrices[0];
  EXPECT_TRUE(second.isOwnedBy(1, 0));
  EXPECT_TRUE(second.isOwnedBy(1, 1));
  EXPECT_EQ(plan.units[2].matrices[0].owner, 1);
  const MuonPlan::Matrix &last = plan.units[3].matrices[0];
  EXPECT_EQ(last.columns(), 64);
  EXPECT_TRUE(last.isOwnedBy(0, 1));
  // The largest that is joined has its place behind the rest.
  EXPECT_EQ(plan.workspaceBytes - plan.joined, 64 * 64 * 2);
}

TEST(Exposure, AReshardGroupGathersAgain) {
  Manifest m = oneUnit();
  m.units[0].reshardGroup = 2;
  m.functions = {{"first_microbatch",
                  {{"gather_start", 0, 0, 0},
                   {"gather_wait", 0, 0, 0},
                   {"gather_reshard", 0, 0, 0},
                   {"gather_start", 0, 0, 0},
                   {"gather_wait", 0, 0, 0},
                   {"gather_free", 0, 0, 0}}}};
  // 1 s and 1.5 MB on four ranks, then 1 s and 1 MB on two.
  StepExposure step = predictExposure(m, slow(), Topology(4, 1));
  EXPECT_NEAR(step.units[0].gather, 4.5, 1e-9);
  EXPECT_NEAR(step.exposed, 4.5, 1e-9);
}

TEST(Exposure, AllWaitForTheSlowest) {
  Manifest m = oneUnit();
  m.functions = {{"first_microbatch",
                  {{"gather_start", 0, 4e9, 0}, {"gather_wait", 0, 0, 0}}}};
  // One rank comes after 6 s, the other after 4; then the gather takes 2 s.
  StepExposure step =
      predictExposure(m, slow(), Topology(2, 1), {1, /*straggler=*/0.5});
  EXPECT_NEAR(step.work, 4, 1e-9);
  EXPECT_NEAR(step.exposed, 4, 1e-9);
}

TEST(Exposure, MicrobatchesRepeat) {
  Manifest m = oneUnit();
  m.functions = {{"first_microbatch", {{"gather_wait", 0, 1e9, 0}}},
                 {"next_microbatch", {{"gather_wait", 0, 2e9, 0}}},
                 {"update", {{"optimizer", 0, 3e9, 0}}}};
  EXPECT_NEAR(predictExposure(m, slow(), Topology(1, 1), {9, 0}).work,
              1 + 8 * 2 + 3 + 0.014, 1e-9);
}

// One block of 1,000 elements beside a root of 100, on two ranks.
TEST(FrameworkMemory, KeepsWhatBackwardReads) {
  Manifest m;
  m.paramType = SHX_BF16;
  m.strategy = Strategy::FullShard;
  m.units.resize(2);
  m.units[0].length = 100;
  m.units[1].length = 1000;
  for (Manifest::Unit &unit : m.units)
    unit.paramType = unit.reduceType = SHX_BF16;
  EagerTraffic eager;
  eager.units.resize(2);
  eager.units[1].block = true;
  eager.units[1].kept = 5000;
  eager.units[1].normed = 100;
  eager.units[1].input = 200;
  eager.units[1].selected = 1000;
  eager.logits = 10000;
  Execution::Memory memory{/*state=*/16, /*logit=*/16, /*norm=*/8, false};
  auto bytes = [&](RecomputeKind kind) {
    return totalBytes(
        frameworkMemory(m, Topology(2, 1), memory, eager, {kind, 0}));
  };
  // 16 bytes of 550 elements, 2 of the root's, twice 2 of the block's, 16 of
  // each logit, 5000 + 8 * 100 of the block.
  EXPECT_EQ(bytes(RecomputeKind::None), 8800 + 200 + 4000 + 160000 + 5800);
  EXPECT_EQ(bytes(RecomputeKind::Block), 8800 + 200 + 4000 + 160000 + 200);
  EXPECT_EQ(bytes(RecomputeKind::Selective), 8800 + 200 + 4000 + 160000 + 1200);
  // With few logits backward takes more: gradients, and what comes back.
  eager.logits = 1;
  EXPECT_EQ(bytes(RecomputeKind::Block),
            8800 + 200 + 4000 + (200 + 4000) + 200 + 5800);
}

} // namespace
