// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Memory.h.

#include "Memory.h"
#include "shardonnx/runtime/ByteSize.h"
#include <cstdio>
#include <cstring>

namespace shardonnx::rt::cuda {
namespace {

class DriverAllocator : public Allocator {
public:
  CUdeviceptr allocate(int64_t bytes) override {
    CUdeviceptr address = 0;
    CUresult result = driver().cuMemAlloc(&address, static_cast<size_t>(bytes));
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
      return 0;
    check(result, "allocating ", formatBytes(bytes), " on the GPU");
    return address;
  }
  void release(CUdeviceptr address) override { driver().cuMemFree(address); }
};

} // namespace

Allocator &driverAllocator() {
  static DriverAllocator allocator;
  return allocator;
}

DeviceMemory::DeviceMemory(int64_t bytes, const std::string &what,
                           Allocator &allocator)
    : bytes(bytes), allocator(&allocator) {
  if (bytes == 0)
    return;
  begin = allocator.allocate(bytes);
  if (!begin) {
    size_t free = 0, total = 0;
    check(driver().cuMemGetInfo(&free, &total), "asking for the GPU's memory");
    fail("the GPU has not enough memory for ", what, ": ", formatBytes(bytes),
         " are needed, ", formatBytes(static_cast<int64_t>(free)), " of ",
         formatBytes(static_cast<int64_t>(total)),
         " are free; compile with a smaller --batch or with --recompute, start "
         "more ranks, or take a GPU that nothing else uses");
  }
  // The stream that clears it is ordered with none of ours.
  check(driver().cuMemsetD8(begin, 0, static_cast<size_t>(bytes)),
        "clearing the memory for ", what);
  check(driver().cuCtxSynchronize(), "clearing the memory for ", what);
}

DeviceMemory::~DeviceMemory() {
  if (begin)
    allocator->release(begin);
}

void DeviceMemory::swap(DeviceMemory &other) noexcept {
  std::swap(begin, other.begin);
  std::swap(bytes, other.bytes);
  std::swap(allocator, other.allocator);
}

void writeNow(CUdeviceptr to, const void *from, int64_t bytes,
              const std::string &what) {
  if (bytes == 0)
    return;
  check(driver().cuMemcpyHtoD(to, from, static_cast<size_t>(bytes)), what);
  check(driver().cuCtxSynchronize(), what);
}

PinnedMemory::PinnedMemory(int64_t bytes, const std::string &what)
    : bytes(bytes) {
  if (bytes == 0)
    return;
  void *address = nullptr;
  check(driver().cuMemHostAlloc(&address, static_cast<size_t>(bytes), 0),
        "allocating ", formatBytes(bytes), " of pinned host memory for ", what);
  begin = static_cast<uint8_t *>(address);
  std::memset(begin, 0, static_cast<size_t>(bytes));
}

PinnedMemory::~PinnedMemory() {
  if (begin)
    driver().cuMemFreeHost(begin);
}

} // namespace shardonnx::rt::cuda
