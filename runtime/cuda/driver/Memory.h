// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Memory of the device, and host memory that the device copies from and to.

#ifndef SHARDONNX_RUNTIME_CUDA_MEMORY_H
#define SHARDONNX_RUNTIME_CUDA_MEMORY_H

#include "Device.h"
#include <cstdint>
#include <string>
#include <utility>

namespace shardonnx::rt::cuda {

/// Where a space's memory comes from: the driver, or the communicator for what
/// collectives touch.
class Allocator {
public:
  virtual ~Allocator() = default;
  /// Returns 0 when there is not enough. Aligned to 256 bytes at least.
  virtual CUdeviceptr allocate(int64_t bytes) = 0;
  virtual void release(CUdeviceptr address) = 0;
};
Allocator &driverAllocator();

/// A workspace begins at a multiple of 64 bytes; cuBLASLt takes one at 256
/// only, and others are kept to what their authors test. Leaves out what lies
/// before.
constexpr int64_t kLibraryAlignmentBytes = 256;
inline void alignWorkspace(void *&workspace, int64_t &bytes) {
  auto begin = reinterpret_cast<uintptr_t>(workspace);
  auto before = static_cast<int64_t>(-begin % kLibraryAlignmentBytes);
  workspace = static_cast<uint8_t *>(workspace) + before;
  bytes = bytes > before ? bytes - before : 0;
}

/// One allocation; zero bytes are none.
class DeviceMemory {
public:
  DeviceMemory() = default;
  /// When there is not enough throws an Error that says what for, how much,
  /// and how much is free. The contents are zero.
  DeviceMemory(int64_t bytes, const std::string &what,
               Allocator &allocator = driverAllocator());
  DeviceMemory(DeviceMemory &&other) noexcept { swap(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceMemory();

  uint8_t *data() const { return devicePointer<uint8_t>(begin); }
  CUdeviceptr address() const { return begin; }
  int64_t size() const { return bytes; }

private:
  void swap(DeviceMemory &other) noexcept;
  CUdeviceptr begin = 0;
  int64_t bytes = 0;
  Allocator *allocator = nullptr;
};

/// Copies from host memory that is not pinned, and waits until it is there:
/// cuMemcpyHtoD may return as soon as it has read the last of `from`, and the
/// stream that it writes on is ordered with none of ours.
void writeNow(CUdeviceptr to, const void *from, int64_t bytes,
              const std::string &what);

/// Host memory that copies do not have to go around. Zero at first.
class PinnedMemory {
public:
  PinnedMemory() = default;
  PinnedMemory(int64_t bytes, const std::string &what);
  PinnedMemory(PinnedMemory &&other) noexcept { swap(other); }
  PinnedMemory &operator=(PinnedMemory &&other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedMemory();

  uint8_t *data() const { return begin; }
  int64_t size() const { return bytes; }

private:
  void swap(PinnedMemory &other) noexcept {
    std::swap(begin, other.begin);
    std::swap(bytes, other.bytes);
  }
  uint8_t *begin = nullptr;
  int64_t bytes = 0;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_MEMORY_H
