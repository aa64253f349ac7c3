// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Cost/Device.h"

#include <algorithm>
#include <cmath>

namespace shardonnx {
namespace {

// Of the data sheets' peaks: what large products, streaming kernels and NCCL
// reach on these devices.
constexpr double kProducts = 0.7, kMemory = 0.85, kLinks = 0.8;

// NCCL's own model of a ring (src/graph/tuning.cc, protocol Simple): seconds
// before the first step, of a step over NVLink, of one over the network.
constexpr double kRingBase = 8.4e-6, kNvlinkStep = 3.4e-6, kNetStep = 14e-6;

// One thread of a server CPU with AVX2: 32 FLOPs a cycle at 2.4 GHz; its share
// of the memory controllers; how long ranks take to see each other's counter.
constexpr double kCoreFlops = 76.8e9, kCoreBytes = 8e9, kMeet = 20e-6;
// Between machines of CPUs: 10 Gbit Ethernet.
constexpr double kEthernet = 1.25e9, kEthernetStep = 50e-6;

constexpr const char *kCpu = "cpu";

// FLOPs a second in f32, and with operands of 16 bits. Bytes a second: of the
// memory, sent by one GPU over NVLink, by a machine's
// eight network cards together (rings of NCCL use all of them).
struct DataSheet {
  const char *name;
  double f32, half, memory, nvlink, network;
};
constexpr DataSheet kGpus[] = {
    {"a100", 19.5e12, 312e12, 2.039e12, 300e9, 200e9},
    {"h100", 66.9e12, 989.4e12, 3.35e12, 450e9, 400e9},
    {"h200", 66.9e12, 989.4e12, 4.8e12, 450e9, 400e9}};

Device gpu(const DataSheet &sheet) {
  Device device;
  device.name = sheet.name;
  device.f32Flops = kProducts * sheet.f32;
  device.halfFlops = kProducts * sheet.half;
  device.memoryBytesPerSecond = kMemory * sheet.memory;
  device.within = {kLinks * sheet.nvlink, kNvlinkStep};
  device.across = {kLinks * std::min(sheet.nvlink, sheet.network), kNetStep};
  device.collectiveSeconds = kRingBase;
  device.perMachine = 8;
  return device;
}

} // namespace

Device cpuDevice(int threads) {
  Device device;
  device.name = kCpu;
  device.f32Flops = device.halfFlops = kProducts * kCoreFlops * threads;
  device.memoryBytesPerSecond = kCoreBytes * threads;
  // The communication thread of each rank copies alone.
  device.within = {kCoreBytes, 0};
  device.across = {kEthernet, kEthernetStep};
  device.collectiveSeconds = kMeet;
  device.sharedMemory = true;
  return device;
}

std::optional<Device> deviceNamed(const std::string &name) {
  if (name == kCpu)
    return cpuDevice(1);
  for (const DataSheet &sheet : kGpus)
    if (name == sheet.name)
      return gpu(sheet);
  return std::nullopt;
}

std::vector<std::string> deviceNames() {
  std::vector<std::string> names = {kCpu};
  for (const DataSheet &sheet : kGpus)
    names.emplace_back(sheet.name);
  return names;
}

Device deviceOfProgram(bool cuda, const std::string &arch, int threads) {
  if (!cuda)
    return cpuDevice(threads);
  return *deviceNamed(arch.rfind("sm_8", 0) == 0 ? "a100" : "h100");
}

double Device::workSeconds(double flops, double bytes, bool half) const {
  return std::max(flops / (half ? halfFlops : f32Flops),
                  bytes / memoryBytesPerSecond);
}

Link Device::linkOf(int64_t ranks) const {
  return perMachine != 0 && ranks > perMachine ? across : within;
}

double Device::latencySeconds(int64_t ranks) const {
  if (ranks <= 1)
    return 0;
  int64_t machines =
      perMachine == 0 ? 1 : (ranks + perMachine - 1) / perMachine;
  int64_t between = machines == 1 ? 0 : machines;
  return collectiveSeconds +
         double(ranks - 1 - std::min(between, ranks - 1)) * within.stepSeconds +
         double(std::min(between, ranks - 1)) * across.stepSeconds;
}

double Device::gatherSeconds(double bytes, int64_t ranks) const {
  if (ranks <= 1)
    return 0;
  double sent = bytes / double(ranks) * double(sharedMemory ? 1 : ranks - 1);
  return latencySeconds(ranks) + sent / linkOf(ranks).bytesPerSecond;
}

double Device::reduceScatterSeconds(double bytes, int64_t ranks) const {
  if (ranks <= 1)
    return 0;
  // With shared memory each rank reads its slice of every rank's gradients.
  double moved =
      sharedMemory ? bytes : bytes / double(ranks) * double(ranks - 1);
  return latencySeconds(ranks) + moved / linkOf(ranks).bytesPerSecond;
}

double Device::allReduceSeconds(double bytes, int64_t ranks) const {
  return reduceScatterSeconds(bytes, ranks) + gatherSeconds(bytes, ranks);
}

int64_t Device::latencyBytes(int64_t ranks) const {
  if (ranks <= 1)
    return 0;
  double perByte = (gatherSeconds(1e9, ranks) - latencySeconds(ranks)) / 1e9;
  return std::llround(latencySeconds(ranks) / perByte);
}

} // namespace shardonnx
