// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the CUDA runtime decides without a device: the image that suits one,
// where libraries are looked for, where everything lies.

#include "../../runtime/cuda/driver/Images.h"
#include "../../runtime/cuda/driver/Library.h"
#include "../../runtime/cuda/driver/Memory.h"
#include "../../runtime/support/Error.h"
#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/DevicePlan.h"
#include "shardonnx/runtime/MasterHalves.h"
#include "shardonnx/runtime/MemoryPlan.h"
#include <cstdlib>
#include <gtest/gtest.h>

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::rt::cuda;

namespace {

constexpr ShxDeviceImage kImages[] = {{SHX_PTX, 80, "", 0},
                                      {SHX_CUBIN, 80, "", 0},
                                      {SHX_CUBIN, 86, "", 0},
                                      {SHX_CUBIN, 90, "", 0},
                                      {SHX_PTX, 90, "", 0}};
constexpr ImageTable kTable = {"a table", kImages, 5};

int indexOf(const ImageTable &table, int major, int minor, bool force = false) {
  const ShxDeviceImage *image = chooseImage(table, major, minor, force);
  return image ? static_cast<int>(image - table.images) : -1;
}

TEST(Images, MachineCodeOfTheSameMajorAndNoLaterMinor) {
  EXPECT_EQ(indexOf(kTable, 8, 0), 1);
  EXPECT_EQ(indexOf(kTable, 8, 6), 2);
  EXPECT_EQ(indexOf(kTable, 8, 9), 2);
  EXPECT_EQ(indexOf(kTable, 9, 0), 3);
}

TEST(Images, OtherwiseTheLatestPtxThatIsNotTooLate) {
  EXPECT_EQ(indexOf(kTable, 10, 0), 4);
  EXPECT_EQ(indexOf(kTable, 12, 1), 4);
  EXPECT_EQ(indexOf(kTable, 7, 5), -1);
  constexpr ImageTable late = {"late", kImages + 3, 2};
  EXPECT_EQ(indexOf(late, 8, 9), -1);
}

TEST(Images, PtxWhenItIsForced) {
  EXPECT_EQ(indexOf(kTable, 8, 6, true), 0);
  EXPECT_EQ(indexOf(kTable, 9, 0, true), 4);
}

TEST(Device, PeaksAreByName) {
  EXPECT_EQ(peakFlops("NVIDIA H100 80GB HBM3"), 989e12);
  EXPECT_EQ(peakFlops("NVIDIA H100 PCIe"), 756e12);
  EXPECT_EQ(peakFlops("NVIDIA H200"), 989e12);
  EXPECT_EQ(peakFlops("NVIDIA H20"), 148e12);
  EXPECT_EQ(peakFlops("NVIDIA A100-SXM4-80GB"), 312e12);
  EXPECT_EQ(peakFlops("NVIDIA L4"), 121e12);
  EXPECT_EQ(peakFlops("NVIDIA L40"), std::nullopt);
  EXPECT_EQ(peakFlops("Somebody's GPU"), std::nullopt);
}

TEST(Library, IsLookedForByTheLoaderAndInTheToolkit) {
  ::setenv("CUDA_HOME", "/opt/cuda", 1);
  EXPECT_EQ(Library::candidates("libx.so.1"),
            (std::vector<std::string>{"libx.so.1", "/opt/cuda/lib64/libx.so.1",
                                      "/usr/local/cuda/lib64/libx.so.1"}));
  ::unsetenv("CUDA_HOME");
  EXPECT_EQ(Library::candidates("libx.so.1").size(), 2u);
}

std::string messageOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &e) {
    EXPECT_EQ(e.exitCode(), kExitFailure);
    return e.what();
  }
  return "no error";
}

TEST(Library, MissingIsToldInOneLine) {
  std::string message = messageOf(
      [] { Library::ofToolkit("libshardonnx_none.so.9", "cuNothing 9"); });
  EXPECT_EQ(message, "cuNothing 9 (libshardonnx_none.so.9) cannot be loaded "
                     "from the loader's path, "
                     "/usr/local/cuda/lib64/libshardonnx_none.so.9: install "
                     "it, or set LD_LIBRARY_PATH or CUDA_HOME to where it is");
  Library math({"libm.so.6"}, "the maths library", "");
  EXPECT_NE(math.find("cos"), nullptr);
  EXPECT_EQ(math.find("shardonnx_none"), nullptr);
  EXPECT_EQ(messageOf([&] { (void)math.require("shardonnx_none"); }),
            "the maths library ('libm.so.6') has no shardonnx_none: it is too "
            "old for this program; install a newer one");
}

TEST(Memory, BytesForPeople) {
  EXPECT_EQ(formatBytes(512), "512 B");
  EXPECT_EQ(formatBytes(3 << 20), "3.00 MiB");
  EXPECT_EQ(formatBytes(int64_t{5} << 29), "2.50 GiB");
}

// Three units; the first and the last take turns on the same bytes.
Manifest threeUnits() {
  Manifest m;
  m.target = TargetKind::CUDA;
  m.optimizer = Optimizer::AdamW;
  for (int64_t u = 0; u < 3; ++u) {
    Manifest::Unit unit;
    unit.length = 1280;
    unit.paramType = SHX_BF16;
    unit.paramOffsetBytes = u % 2 * 2560;
    unit.gradOffsetBytes = u % 2 * 5120;
    m.units.push_back(unit);
  }
  m.units[1].frozenLength = 256;
  m.units[1].frozenOffsetBytes = 2560;
  m.gatherSpace.bytes = 5632;
  m.gradientSpace.bytes = 10240;
  return m;
}

// What the update writes is what products read.
TEST(DevicePlan, OneRankGathersNothing) {
  Manifest m = threeUnits();
  DevicePlan plan = planDevice(m, 1, 2);
  EXPECT_EQ(plan.gatherBytes, 0);
  EXPECT_EQ(plan.gradientBytes, 10240);
  for (const DevicePlan::Unit &unit : plan.units) {
    EXPECT_TRUE(unit.inPlace);
    EXPECT_EQ(unit.gather.size(), 0);
    EXPECT_EQ(unit.slice, 1280);
  }
  EXPECT_EQ(plan.masterBytes, 3 * 1280 * 2);
  EXPECT_EQ(plan.paramBytes, 3 * 1280 * 2);
  EXPECT_EQ(plan.momentBytes, 6 * 1280 * 4);
  EXPECT_EQ(plan.frozenBytes, 256 * 2);
  EXPECT_FALSE(plan.gradientsInPlace);
  EXPECT_TRUE(planDevice(m, 1, 1).gradientsInPlace);
  EXPECT_EQ(planDevice(m, 1, 1).gradientBytes, 0);
  // But for what comes from the host.
  DevicePlan offloaded = planDevice(m, 1, 2, Offload::Params);
  EXPECT_EQ(offloaded.gatherBytes, 5632);
  EXPECT_EQ(offloaded.paramBytes, 0);
  for (size_t u = 0; u < 3; ++u)
    EXPECT_EQ(offloaded.units[u].gather.begin, m.units[u].paramOffsetBytes);
  // In f32 these are the masters.
  for (Manifest::Unit &unit : m.units)
    unit.paramType = SHX_F32;
  m.units[1].frozenOffsetBytes = 5120;
  DevicePlan f32 = planDevice(m, 1, 2);
  EXPECT_EQ(f32.gatherBytes, 0);
  EXPECT_EQ(f32.paramBytes, 0);
  EXPECT_EQ(f32.masterBytes, 3 * 1280 * 4);
}

// One kernel updates all units of a type, so all have halves or none has.
TEST(DevicePlan, MastersLieInHalvesBesideTheirUpperOnes) {
  auto masters = [](auto change) {
    Manifest m = threeUnits();
    change(m);
    return planDevice(m, 1, 1).masterBytes;
  };
  EXPECT_EQ(masters([](Manifest &) {}), 3 * 1280 * 2);
  EXPECT_EQ(masters([](Manifest &m) { m.units[1].paramType = SHX_F16; }),
            1280 * (2 + 4 + 2));
  EXPECT_EQ(
      masters([](Manifest &m) { m.units[1].gatherType = GatherDtype::Int8; }),
      3 * 1280 * 4);
  EXPECT_EQ(masters([](Manifest &m) {
              m.units[1].paramType = SHX_F16;
              m.units[1].gatherType = GatherDtype::Int8;
            }),
            1280 * (2 + 4 + 2));
  Manifest cpu = threeUnits();
  cpu.target = TargetKind::CPU;
  EXPECT_FALSE(keepsMasterHalves(cpu, cpu.units[0]));
}

bool meet(const Interval &a, const Interval &b) {
  return a.begin < b.end && b.begin < a.end;
}

TEST(DevicePlan, PaddedSlicesStayApart) {
  Manifest m = threeUnits();
  for (int ranks : {2, 3, 7, 64, 1000}) {
    DevicePlan plan = planDevice(m, ranks, 1);
    for (const DevicePlan::Unit &unit : plan.units) {
      EXPECT_GE(unit.slice * ranks, 1280);
      EXPECT_GE(unit.gather.size(), unit.slice * ranks * 2);
      EXPECT_GE(unit.gradients.size(), unit.slice * ranks * 4);
      EXPECT_LE(unit.gather.end, plan.gatherBytes);
      EXPECT_LE(unit.gradients.end, plan.gradientBytes);
      EXPECT_EQ(unit.gather.begin % 256, 0);
    }
    EXPECT_GE(plan.units[1].gather.size(),
              2560 + plan.units[1].frozenSlice * ranks * 2);
    for (size_t other : {0u, 2u}) {
      EXPECT_FALSE(meet(plan.units[1].gather, plan.units[other].gather));
      EXPECT_FALSE(meet(plan.units[1].gradients, plan.units[other].gradients));
    }
    EXPECT_TRUE(meet(plan.units[0].gather, plan.units[2].gather));
  }
}

TEST(DevicePlan, ReplicatedUnitsHaveNoPadding) {
  Manifest m = threeUnits();
  for (Manifest::Unit &unit : m.units)
    unit.sharded = false;
  DevicePlan plan = planDevice(m, 7, 1);
  EXPECT_EQ(plan.gatherBytes, 0);
  EXPECT_EQ(plan.gradientBytes, 10240);
  EXPECT_EQ(plan.masterBytes, 3 * 1280 * 2);
  EXPECT_EQ(plan.paramBytes, 3 * 1280 * 2);
}

TEST(DevicePlan, GroupsOwnAndKeepTheirParts) {
  Manifest m = threeUnits();
  m.units[0].reshardGroup = 2;
  m.units[1].reshardGroup = 3; // does not divide the owners
  DevicePlan plan = planDevice(m, Topology(8, 2), 1);
  EXPECT_EQ(plan.units[0].slice, 320);
  EXPECT_EQ(plan.masterBytes, 3 * 768); // 640, aligned
  EXPECT_EQ(plan.units[0].group, 2);
  EXPECT_EQ(plan.units[0].groupSlice, 640);
  EXPECT_EQ(plan.units[1].group, 0);
  EXPECT_EQ(plan.reshardedBytes, 640 * 2);
  EXPECT_EQ(planDevice(m, Topology(2, 1), 1).reshardedBytes, 0);
}

TEST(DevicePlan, OffloadedSlicesLeaveTheDevice) {
  Manifest m = threeUnits();
  DevicePlan none = planDevice(m, 2, 1);
  DevicePlan state = planDevice(m, 2, 1, Offload::Optimizer);
  EXPECT_EQ(state.momentBytes, 0);
  EXPECT_EQ(state.masterBytes, none.masterBytes);
  EXPECT_EQ(state.hostBytes, none.momentBytes);
  EXPECT_EQ(state.stagingElements, 640); // the largest slice
  EXPECT_EQ(state.stagingBytes, kOffloadParts * 2 * 640 * 4);
  DevicePlan params = planDevice(m, 2, 1, Offload::Params);
  EXPECT_EQ(params.masterBytes + params.frozenBytes + params.paramBytes, 0);
  EXPECT_EQ(none.paramBytes, 3 * 640 * 2);
  EXPECT_EQ(params.hostBytes, none.momentBytes + none.masterBytes +
                                  none.frozenBytes + none.paramBytes);
  EXPECT_EQ(params.stagingBytes, kOffloadParts * (2 * 640 * 4 + 2 * 640 * 2));
}

TEST(DevicePlan, IsWhatAProgramForGpusIsPredictedToTake) {
  Manifest m = threeUnits();
  m.privateSpace.bytes = 1 << 20;
  DevicePlan plan = planDevice(m, 2, 1);
  EXPECT_EQ(totalBytes(planMemory(m, 2, 4)),
            plan.gatherBytes + plan.gradientBytes + plan.masterBytes +
                plan.paramBytes + plan.momentBytes + plan.reducedBytes +
                plan.frozenBytes + (1 << 20));
}

} // namespace
