// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory of the emulated devices.

#include "DeviceMemory.h"
#include "Order.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <sys/mman.h>

using namespace shardonnx::emulator;

namespace {
/// What is accounted for, and where allocations start.
constexpr size_t kUnit = 512;
constexpr size_t kAlign = 4096;
/// At least this much lies between two allocations.
constexpr size_t kRedZone = 4096;

size_t roundUp(size_t value, size_t to) { return (value + to - 1) / to * to; }
} // namespace

size_t shardonnx::emulator::parseBytes(const char *text, size_t fallback) {
  if (!text || !*text)
    return fallback;
  char *end;
  size_t value = std::strtoull(text, &end, 10);
  switch (*end) {
  case 'G':
  case 'g':
    return value << 30;
  case 'M':
  case 'm':
    return value << 20;
  case 'K':
  case 'k':
    return value << 10;
  default:
    return value ? value : fallback;
  }
}

DeviceMemory &DeviceMemory::get() {
  // Never destroyed: threads of streams may outlive main().
  static DeviceMemory *memory = new DeviceMemory;
  return *memory;
}

DeviceMemory::DeviceMemory()
    : capacity(parseBytes(std::getenv("SHARDONNX_EMULATOR_MEMORY"),
                          size_t(4) << 30)) {}

DeviceMemory::Arena &DeviceMemory::arena(int device) {
  Arena &result = arenas[device];
  if (!result.base) {
    // Red zones need address space beyond the capacity.
    size_t span = capacity * 4;
    void *base = mmap(nullptr, span, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
      std::perror("cuda emulator: cannot map the device's memory");
      std::abort();
    }
    result.base = static_cast<char *>(base);
    result.free[0] = span;
    addShadow(result.base, span);
  }
  return result;
}

uint64_t DeviceMemory::allocate(int device, size_t bytes) {
  std::unique_lock<std::shared_mutex> lock(mutex);
  Arena &from = arena(device);
  if (bytes > capacity || roundUp(bytes, kUnit) > capacity - from.used)
    return 0;
  size_t span = roundUp(bytes, kAlign) + kRedZone;
  for (auto hole = from.free.begin(); hole != from.free.end(); ++hole) {
    if (hole->second < span)
      continue;
    size_t offset = hole->first, rest = hole->second - span;
    from.free.erase(hole);
    if (rest)
      from.free[offset + span] = rest;
    char *host = from.base + offset;
    uint64_t address = kGlobalWindow + reinterpret_cast<uint64_t>(host);
    ranges[address] = {address, address + bytes, host, device, false};
    from.used += roundUp(bytes, kUnit);
    // Whoever reads what was never written computes with NaN.
    std::memset(host, 0xff, bytes);
    forgetMemory(host, bytes);
    return address;
  }
  return 0;
}

bool DeviceMemory::release(uint64_t address) {
  std::unique_lock<std::shared_mutex> lock(mutex);
  auto found = ranges.find(address);
  if (found == ranges.end() || found->second.pinned)
    return false;
  MemoryRange range = found->second;
  ranges.erase(found);
  Arena &to = arenas[range.device];
  size_t bytes = roundUp(range.high - range.low, kAlign);
  size_t offset = static_cast<size_t>(range.host - to.base);
  size_t span = bytes + kRedZone;
  to.used -= roundUp(range.high - range.low, kUnit);
  madvise(range.host, span, MADV_DONTNEED);
  auto next = to.free.lower_bound(offset);
  if (next != to.free.end() && next->first == offset + span) {
    span += next->second;
    next = to.free.erase(next);
  }
  if (next != to.free.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += span;
      return true;
    }
  }
  to.free[offset] = span;
  return true;
}

bool DeviceMemory::reserve(int device, size_t bytes) {
  std::unique_lock<std::shared_mutex> lock(mutex);
  Arena &from = arena(device);
  if (roundUp(bytes, kUnit) > capacity - from.used)
    return false;
  from.used += roundUp(bytes, kUnit);
  return true;
}

void DeviceMemory::unreserve(int device, size_t bytes) {
  std::unique_lock<std::shared_mutex> lock(mutex);
  arenas[device].used -= roundUp(bytes, kUnit);
}

void DeviceMemory::pin(void *host, size_t bytes) {
  std::unique_lock<std::shared_mutex> lock(mutex);
  uint64_t address = reinterpret_cast<uint64_t>(host);
  ranges[address] = {address, address + bytes, static_cast<char *>(host), 0,
                     true};
}

bool DeviceMemory::unpin(void *host) {
  std::unique_lock<std::shared_mutex> lock(mutex);
  auto found = ranges.find(reinterpret_cast<uint64_t>(host));
  if (found == ranges.end() || !found->second.pinned)
    return false;
  ranges.erase(found);
  return true;
}

bool DeviceMemory::find(uint64_t address, MemoryRange &range) const {
  std::shared_lock<std::shared_mutex> lock(mutex);
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin())
    return false;
  range = std::prev(after)->second;
  return address < range.high;
}

char *DeviceMemory::translate(uint64_t address, size_t bytes) const {
  MemoryRange range;
  if (!find(address, range) || bytes > range.high - address)
    return nullptr;
  return range.host + (address - range.low);
}

std::string DeviceMemory::describe(uint64_t address, size_t bytes) const {
  char text[256];
  std::shared_lock<std::shared_mutex> lock(mutex);
  auto after = ranges.upper_bound(address);
  if (after != ranges.begin()) {
    const MemoryRange &range = std::prev(after)->second;
    if (address - range.low < (uint64_t(1) << 40)) {
      std::snprintf(text, sizeof text,
                    "%zu bytes at 0x%llx: %lld bytes after the start of an "
                    "allocation of %llu bytes",
                    bytes, static_cast<unsigned long long>(address),
                    static_cast<long long>(address - range.low),
                    static_cast<unsigned long long>(range.high - range.low));
      return text;
    }
  }
  bool host = address >> 48 == 0;
  std::snprintf(text, sizeof text, "%zu bytes at 0x%llx, %s", bytes,
                static_cast<unsigned long long>(address),
                address < 65536 ? "a null pointer"
                : host          ? "a host pointer (not page-locked)"
                                : "in no allocation");
  return text;
}

size_t DeviceMemory::used(int device) const {
  std::shared_lock<std::shared_mutex> lock(mutex);
  auto found = arenas.find(device);
  return found == arenas.end() ? 0 : found->second.used;
}
