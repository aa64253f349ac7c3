// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The GPU of this rank: its context, its limits and its memory.

#ifndef SHARDONNX_RUNTIME_CUDA_DEVICE_H
#define SHARDONNX_RUNTIME_CUDA_DEVICE_H

#include "Driver.h"
#include <cstdint>
#include <optional>
#include <string>

namespace shardonnx::rt::cuda {

/// Dense bf16 FLOP/s that the maker states for a device of this name; nothing
/// when it is not known.
std::optional<double> peakFlops(const std::string &deviceName);

/// The oldest architecture that programs are built for: 8.0.
constexpr int kOldestMajor = 8;
/// The oldest driver, by the CUDA that it brings: R580.
constexpr int kOldestDriver = 13000;

/// Throws when there is no GPU, or no driver.
void requireDevices();

class Device {
public:
  /// Takes the GPU of the rank with this number on its machine, among those
  /// that CUDA_VISIBLE_DEVICES leaves, and makes its context the thread's.
  explicit Device(int localRank);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const std::string &name() const { return deviceName; }
  /// 16 bytes that no other GPU has.
  std::string uuid() const;
  /// As /sys/bus/pci/devices names it.
  std::string pciBus() const;
  int major() const { return capability[0]; }
  int minor() const { return capability[1]; }
  int arch() const { return capability[0] * 10 + capability[1]; }
  int multiprocessors() const { return processors; }
  /// Dynamic shared memory that a block may ask for.
  int sharedBytesPerBlock() const { return sharedBytes; }
  int driverVersion() const { return version; } // 13000: CUDA 13.0
  CUcontext context() const { return handle; }
  /// For threads other than the one that made it.
  void makeCurrent() const;

  struct Memory {
    int64_t free = 0, total = 0;
    int64_t used() const { return total - free; }
  };
  Memory memory() const;

private:
  int attribute(CUdevice_attribute which) const;

  CUdevice device = 0;
  CUcontext handle = nullptr;
  std::string deviceName;
  int capability[2] = {};
  int processors = 0, sharedBytes = 0, version = 0;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_DEVICE_H
