// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The model of devices and links against arithmetic done by hand.

#include "axis_call.h"
#include "shardonnx/Cost/AxisTime.h"
#include "shardonnx/Cost/Calibration.h"
#include "shardonnx/Cost/Exposure.h"
#include "shardonnx/Cost/LinearLayer.h"

#include <gtest/gtest.h>

using namespace shardonnx;

namespace {

constexpr double kMicro = 1e-6;

TEST(Device, RingOfOneMachine) {
  Device h100 = *deviceNamed("h100");
  // 8.4 us, then 7 steps of 3.4 us.
  EXPECT_NEAR(h100.latencySeconds(8), 32.2 * kMicro, 1e-9);
  // Each rank sends 315 of 360 MB at 360 GB/s: 875 us.
  EXPECT_NEAR(h100.gatherSeconds(360e6, 8), 907.2 * kMicro, 1e-9);
  EXPECT_NEAR(h100.reduceScatterSeconds(360e6, 8), 907.2 * kMicro, 1e-9);
  EXPECT_NEAR(h100.allReduceSeconds(360e6, 8), 1814.4 * kMicro, 1e-9);
  // 32.2 us at 360 GB/s, of which each rank sends 7/8.
  EXPECT_NEAR(double(h100.latencyBytes(8)), 13248000, 1);
  // A small one goes by the protocol of low latency: 6.6 + 7 * 0.6 us, then
  // 10.5 KB at a quarter of the wire.
  EXPECT_NEAR(h100.gatherSeconds(12e3, 8), 10.8 * kMicro + 10.5e3 / 90e9,
              1e-10);
}

TEST(Device, RingOfTwoMachines) {
  Device h100 = *deviceNamed("h100");
  // Of 15 steps two leave the machine: 8.4 + 13 * 3.4 + 2 * 14 us.
  EXPECT_NEAR(h100.latencySeconds(16), 80.6 * kMicro, 1e-9);
  // 15/16 of 3.2 GB at 0.8 of 400 GB/s.
  EXPECT_NEAR(h100.gatherSeconds(3.2e9, 16), 80.6 * kMicro + 9.375e-3, 1e-9);
}

// Eight machines' ranks of one place have a card each: 40 of 320 GB/s.
TEST(Device, RingOfCards) {
  Device h100 = *deviceNamed("h100");
  EXPECT_NEAR(h100.latencySeconds({4, 8}), (8.4 + 3 * 14) * kMicro, 1e-9);
  EXPECT_NEAR(h100.gatherSeconds(400e6, {4, 8}), 50.4 * kMicro + 300e6 / 40e9,
              1e-9);
  // Every second rank: four of a machine, which share half of its network.
  EXPECT_NEAR(h100.gatherSeconds(1.6e9, {16, 2}),
              (8.4 + 11 * 3.4 + 4 * 14) * kMicro + 1.5e9 / 160e9, 1e-9);
  // …or all of them on one machine.
  EXPECT_NEAR(h100.gatherSeconds(360e6, {4, 2}),
              (8.4 + 3 * 3.4) * kMicro + 270e6 / 360e9, 1e-9);
}

TEST(Device, AllToAll) {
  Device h100 = *deviceNamed("h100");
  // Seven eighths in one step.
  EXPECT_NEAR(h100.allToAllSeconds(360e6, 8), 11.8 * kMicro + 315e6 / 360e9,
              1e-9);
  // Of 16 parts eight leave the machine, by the rank's card.
  EXPECT_NEAR(h100.allToAllSeconds(160e6, 16), 22.4 * kMicro + 80e6 / 40e9,
              1e-9);
  EXPECT_EQ(h100.allToAllSeconds(1e9, 1), 0);
}

// What two kinds of groups take of each other's links.
TEST(Device, SharedLinks) {
  Device h100 = *deviceNamed("h100");
  // Both on one machine; a ring over machines comes by at their network's rate.
  EXPECT_EQ(h100.shareTaken(2, {4, 2}), 1);
  EXPECT_NEAR(h100.shareTaken(2, {16, 2}), 160.0 / 360, 1e-9);
  // A card for each: nothing of it passes between the ranks of the machine.
  EXPECT_EQ(h100.shareTaken(8, {32, 8}), 0);
  // Beyond the machine the cards are the same.
  EXPECT_EQ(h100.shareTaken({4, 8}, {8, 8}), 1);
  EXPECT_EQ(h100.shareTaken(8, 1), 0);
}

// A rank's 100 MB: parts of 400 that are gathered or kept of a sum by four.
TEST(AxisTime, BytesAndSeconds) {
  Device h100 = *deviceNamed("h100");
  Mesh mesh;
  mesh.set(MeshAxis::Tensor, 4);
  mesh.set(MeshAxis::Context, 2);
  auto check = [&](const char *name, double moved, double sent,
                   double seconds) {
    std::optional<AxisLaunch> launch = axisLaunch(axisCall(name, moved), mesh);
    ASSERT_TRUE(launch) << name;
    EXPECT_NEAR(bytesSent(*launch), sent, 1e-3) << name;
    EXPECT_NEAR(linkSeconds(*launch, h100), seconds, 1e-9) << name;
  };
  double ring = (8.4 + 3 * 3.4) * kMicro + 300e6 / 360e9;
  check("all_gather tensor", 500e6, 300e6, ring);
  check("reduce_scatter tensor", 500e6, 300e6, ring);
  check("all_reduce tensor", 800e6, 600e6, 2 * ring);
  // Half of 400 MB to the rank that is four places further.
  check("all_to_all context", 800e6, 200e6, 11.8 * kMicro + 200e6 / 360e9);
  // All 400 MB to another rank.
  check("part_shift context", 800e6, 400e6, 11.8 * kMicro + 400e6 / 360e9);
  h100.perMachine = 4;
  check("all_to_all context", 800e6, 200e6,
        22.4 * kMicro + 200e6 / (320e9 / 4));
  EXPECT_FALSE(axisLaunch(axisCall("part_slice context", 1), mesh));
  // Copies before and behind it.
  Manifest::Launch packed = axisCall("all_to_all context", 800e6);
  packed.writtenBytes = 1600e6;
  EXPECT_EQ(axisLaunch(packed, mesh)->packedBytes, 1600e6);
}

// Ranks of a CPU write what they give, and read what they get.
TEST(AxisTime, SharedMemory) {
  Device cpu = cpuDevice(1);
  Mesh mesh;
  mesh.set(MeshAxis::Tensor, 4);
  auto seconds = [&](const char *name, double moved) {
    return linkSeconds(*axisLaunch(axisCall(name, moved), mesh), cpu);
  };
  EXPECT_NEAR(seconds("all_gather tensor", 10e6), 20 * kMicro + 10e6 / 8e9,
              1e-9);
  EXPECT_NEAR(seconds("reduce_scatter tensor", 10e6), 20 * kMicro + 16e6 / 8e9,
              1e-9);
  EXPECT_NEAR(seconds("all_reduce tensor", 16e6), 20 * kMicro + 40e6 / 8e9,
              1e-9);
}

TEST(Device, ProductsOfEightBits) {
  // 1,403 TFLOPS in full and deep tiles; nothing is known of an A100's.
  Device h100 = *deviceNamed("h100");
  double share = h100.productShare(16384, 8192, 8192, 1);
  EXPECT_NEAR(h100.f8ProductSeconds(16384, 8192, 8192, 0),
              2.0 * 16384 * 8192 * 8192 / (1403e12 * share), 1e-9);
  Device a100 = *deviceNamed("a100-80");
  EXPECT_EQ(a100.f8ProductSeconds(16384, 8192, 8192, 0),
            a100.productSeconds(16384, 8192, 8192, 1, 0, true));
}

TEST(Device, WhatEightBitsGain) {
  Device device = *deviceNamed("h100");
  // As long as a launch takes, each: three without, seven with; by rows two
  // beside the products.
  LinearLayer small{64, 64, 64};
  EXPECT_DOUBLE_EQ(f8Gain(device, small, /*byRow=*/false), 3.0 / 7);
  EXPECT_NEAR(f8Gain(device, small, /*byRow=*/true), 3.0 / 5, 1e-3);
  // At the rates of the products alone: all three, or two of three.
  device.memoryBytesPerSecond = 1e30;
  device.launchSeconds = 0;
  LinearLayer large{16384, 4096, 14336};
  double ratio = device.f8Flops / device.halfFlops;
  EXPECT_NEAR(f8Gain(device, large, /*byRow=*/false), ratio, 1e-9);
  double wide = device.productSeconds(4096, 16384, 14336, 1, 0, true),
         all = wide + device.productSeconds(16384, 4096, 14336, 1, 0, true) +
               device.productSeconds(16384, 14336, 4096, 1, 0, true);
  EXPECT_NEAR(f8Gain(device, large, /*byRow=*/true),
              all / (wide + (all - wide) / ratio), 1e-9);
  // By bytes alone, of 2 and of 1: products read half; the weight is read to be
  // cast twice, the others once and written twice.
  device = *deviceNamed("h100");
  device.launchSeconds = 0;
  device.halfFlops = device.f8Flops = 1e30;
  LinearLayer square{1024, 1024, 1024};
  EXPECT_NEAR(f8Gain(device, square, /*byRow=*/false),
              3 * 6.0 / (3 * 4 + 2 * 3 + 2 * 4), 1e-9);
  // Products without a rate of 8 bits only lose.
  EXPECT_LT(f8Gain(*deviceNamed("a100-80"), large, /*byRow=*/false), 1);
}

TEST(Device, ProductsFillTheirTiles) {
  Device device = *deviceNamed("h100");
  device.multiprocessors = 4;
  device.tileRows = device.tileColumns = 100;
  device.tileDepth = 1000;
  device.halfFlops = 1e12;
  device.memoryBytesPerSecond = 1e30;
  // 400 x 100 are four full tiles; half of the rate goes into starting them.
  EXPECT_NEAR(device.productSeconds(400, 1000, 100, 1, 0, true),
              2 * 400 * 1000 * 100 / 0.5e12, 1e-12);
  // A fifth tile takes a second wave: small ones, 18 in five waves, are better.
  EXPECT_NEAR(device.productSeconds(450, 1000, 100, 1, 0, true),
              2 * 450 * 1000 * 100 / (0.5e12 * 0.85 * 0.9), 1e-12);
  // What is small waits for its bytes.
  device.memoryBytesPerSecond = 1e9;
  EXPECT_NEAR(device.productSeconds(1, 1, 1, 1, 1e6, true), 1e-3, 1e-12);
}

TEST(Device, RateOfAMeasuredProductIsItsOwn) {
  Device device = *deviceNamed("h100");
  // 128 of 132 tiles, and 256 of depth to start with: still what was measured.
  EXPECT_NEAR(2.0 * 2048 * 2048 * 13312 /
                  device.productSeconds(2048, 13312, 2048, 1, 0, true),
              794.5e12, 1e6);
  EXPECT_NEAR(device.halfFlops, 794.5e12 * 132 / 128 * (13312 + 256) / 13312,
              1e6);
}

TEST(Device, AttentionByLibraryAndShape) {
  Device device = *deviceNamed("h100");
  device.memoryBytesPerSecond = 1e30;
  device.attention = {{"cudnn", false, true, 64, {{1024, 1e12}, {4096, 3e12}}},
                      {"cudnn", false, true, 128, {{1024, 4e12}}},
                      {"cudnn", false, false, 128, {{1024, 5e12}}}};
  auto rate = [&](double sequence, double headDim, bool causal, bool backward,
                  const char *library = kOwnAttention) {
    return 1e12 / device.attentionSeconds(1e12, 0,
                                          {sequence, headDim, causal, backward},
                                          true, library);
  };
  // Half of the way from 1024 to 4096, as logarithms go; no further than both.
  EXPECT_NEAR(rate(2048, 64, true, false), 2e12, 1e3);
  EXPECT_NEAR(rate(512, 64, true, false), 1e12, 1e3);
  EXPECT_NEAR(rate(8192, 64, true, false), 3e12, 1e3);
  // Heads come before masks: 80 is nearer to 64, 96 to 128.
  EXPECT_NEAR(rate(1024, 80, false, false), 1e12, 1e3);
  EXPECT_NEAR(rate(1024, 96, false, false), 5e12, 1e3);
  EXPECT_NEAR(rate(1024, 96, true, false), 4e12, 1e3);
  // What nobody has measured.
  EXPECT_NEAR(rate(1024, 64, true, true), device.attentionBackward, 1e3);
  EXPECT_NEAR(rate(1024, 64, true, false, "other"), device.attentionForward,
              1e3);
  EXPECT_NEAR(rate(0, 0, true, false), device.attentionForward, 1e3);
}

TEST(Device, FilesAreChecked) {
  std::string error;
  for (const std::string &name : deviceNames())
    EXPECT_TRUE(deviceNamed(name)) << name;
  EXPECT_FALSE(parseDevice("[]", error));
  EXPECT_EQ(error, "it is no JSON object");
  EXPECT_FALSE(parseDevice("{\"name\": 3}", error));
  EXPECT_EQ(error, "'name' is missing or no text");
  EXPECT_FALSE(parseDevice(
      R"({"name": "x", "title": "x", "arch": "", "target": "cuda",
          "ranks_per_machine": {"value": 1e99, "kind": "assumed",
                                "source": "x"}})",
      error));
  EXPECT_EQ(error, "'ranks_per_machine.value' is out of range");
  EXPECT_FALSE(parseDevice(
      R"({"name": "x", "title": "x", "arch": "", "target": "cuda",
          "ranks_per_machine": {"value": 8, "kind": "guessed",
                                "source": "x"}})",
      error));
  EXPECT_EQ(error, "'ranks_per_machine.kind' is none of published, "
                   "measured, fitted and assumed");
}

TEST(Device, SharedMemory) {
  Device cpu = cpuDevice(4);
  // Each rank writes a quarter at 8 GB/s, and reads its slice of all four.
  EXPECT_NEAR(cpu.gatherSeconds(8e6, 4), 270 * kMicro, 1e-9);
  EXPECT_NEAR(cpu.reduceScatterSeconds(8e6, 4), 1020 * kMicro, 1e-9);
  // 0.7 of 4 threads' 76.8 GFLOP/s, or 32 GB/s, whichever takes longer.
  EXPECT_NEAR(cpu.workSeconds(215.04e9, 0, false), 1, 1e-9);
  EXPECT_NEAR(cpu.workSeconds(1, 32e9, false), 1, 1e-9);
}

// 2 GFLOP/s and 1 GB/s of a thread explain both products, whatever their shape.
TEST(Device, ProductsAreFittedByFlopsAndBytes) {
  MeasuredRun run;
  run.threads = 2;
  Manifest::Function step;
  step.name = "first_microbatch";
  for (auto [flops, bytes] : {std::pair{8e9, 1e9}, {2e9, 2e9}}) {
    Manifest::Launch launch;
    launch.kind = "product";
    launch.name = "gemm " + std::to_string(run.manifest.launches.size());
    launch.flops = flops;
    launch.readBytes = bytes;
    run.compute[launch.name] = 3 * (flops / 2e9 + bytes / 1e9) / run.threads;
    step.launches.push_back({run.manifest.launches.size(), -1,
                             Manifest::Phase::Forward, /*count=*/3, 0});
    run.manifest.launches.push_back(launch);
  }
  run.manifest.functions.push_back(step);
  ThreadRates rates = fitRates({&run});
  EXPECT_NEAR(rates.productFlops, 2e9, 1);
  EXPECT_NEAR(rates.productBytes, 1e9, 1);
}

// Of a measured machine's two threads: together in one rank, or alone in two,
// and four ranks take turns.
TEST(Device, MeasuredRatesAreTheRanks) {
  Device device = *deviceNamed("cpu");
  device.machineThreads = 2;
  ThreadRates alone, together;
  alone.productFlops = 10;
  together.productFlops = 8;
  device.f32Measured = {alone, together};
  EXPECT_EQ(withThreads(device, 2, 1).f32Rates->productFlops, 16);
  EXPECT_EQ(withThreads(device, 1, 2).f32Rates->productFlops, 10);
  EXPECT_EQ(withThreads(device, 1, 4).f32Rates->productFlops, 5);
  EXPECT_FALSE(withThreads(device, 1, 2).halfRates);
}

// A quarter of the products' rate, and what it moves at the kernels'.
TEST(Device, DepthwiseConvolutionsTakeTheProductsRate) {
  Device device = *deviceNamed("cpu");
  ThreadRates rates;
  rates.productFlops = 8e9;
  rates.rowBytes = 1e9;
  device.f32Rates = rates;
  device.launchSeconds = 0;
  Manifest manifest;
  Manifest::Launch launch;
  launch.kind = "convolution";
  launch.name = "depthwise_conv";
  launch.flops = 4e9;
  launch.readBytes = 1e9;
  EXPECT_NEAR(
      launchSeconds(manifest, launch, Manifest::Phase::Forward, device, ""), 3,
      1e-9);
}

TEST(Device, OneRankWaitsForNobody) {
  for (const std::string &name : deviceNames()) {
    Device device = *deviceNamed(name);
    EXPECT_EQ(device.gatherSeconds(1e9, 1), 0);
    EXPECT_EQ(device.reduceScatterSeconds(1e9, 1), 0);
    EXPECT_EQ(device.latencyBytes(1), 0);
  }
  EXPECT_FALSE(deviceNamed("h1000"));
}

TEST(Device, OfProgram) {
  EXPECT_EQ(deviceOfProgram(true, "sm_80,sm_90", 1).name, "a100-80");
  EXPECT_EQ(deviceOfProgram(true, "sm_90", 1).name, "h100");
  EXPECT_EQ(deviceOfProgram(false, "native", 2).f32Flops,
            cpuDevice(2).f32Flops);
}

} // namespace
