// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory of the emulated devices. Device addresses lie in a range that no
// host pointer can have, so a pointer used on the wrong side is caught.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_DEVICEMEMORY_H
#define SHARDONNX_TEST_CUDA_EMULATOR_DEVICEMEMORY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

namespace shardonnx::emulator {

/// A device address is this plus where the bytes are on the host.
constexpr uint64_t kGlobalWindow = 0x0090'0000'0000'0000;

/// What an address belongs to: [low, high) and where its bytes are.
struct MemoryRange {
  uint64_t low = 0, high = 0;
  char *host = nullptr;
  int device = 0;
  /// The host's own page-locked memory, which the device may reach.
  bool pinned = false;
};

/// All allocations of the process. Red zones keep them apart.
class DeviceMemory {
public:
  static DeviceMemory &get();

  /// 0 if the device has no room.
  uint64_t allocate(int device, size_t bytes);
  bool release(uint64_t address);
  /// Takes memory that has no address: code, graphs, buffers of libraries.
  bool reserve(int device, size_t bytes);
  void unreserve(int device, size_t bytes);
  void pin(void *host, size_t bytes);
  bool unpin(void *host);

  /// The live allocation that holds the address; false if there is none.
  bool find(uint64_t address, MemoryRange &range) const;
  /// The bytes, or null if they are not all inside one allocation.
  char *translate(uint64_t address, size_t bytes) const;
  /// Why translate() gave null, in words.
  std::string describe(uint64_t address, size_t bytes) const;

  size_t total() const { return capacity; }
  size_t used(int device) const;

private:
  struct Arena {
    char *base = nullptr;
    /// Free ranges by offset.
    std::map<size_t, size_t> free;
    size_t used = 0;
  };

  DeviceMemory();
  Arena &arena(int device);

  mutable std::shared_mutex mutex;
  size_t capacity;
  std::map<int, Arena> arenas;
  std::map<uint64_t, MemoryRange> ranges;
};

/// Bytes from text such as "4G"; the fallback if it is empty or wrong.
size_t parseBytes(const char *text, size_t fallback);

} // namespace shardonnx::emulator

#endif
