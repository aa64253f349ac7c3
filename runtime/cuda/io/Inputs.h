// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The way of a microbatch to the device: the host fills one of two pinned
// buffers while the device works, the copy stream brings it over, and the
// compute stream moves it to the addresses that the functions read.

#ifndef SHARDONNX_RUNTIME_CUDA_INPUTS_H
#define SHARDONNX_RUNTIME_CUDA_INPUTS_H

#include "../driver/Memory.h"
#include "../driver/Stream.h"
#include "../launch/Documents.h"
#include "shardonnx/runtime/DevicePlan.h"
#include <optional>
#include <vector>

namespace shardonnx::rt::cuda {

class Inputs {
public:
  explicit Inputs(const Manifest &manifest);

  /// [graph input] in the device, fixed.
  uint8_t *const *device() const { return devicePointers.data(); }
  /// [graph input] on the host, to be filled. Waits until the buffer's last
  /// contents are on the device.
  uint8_t *const *host();
  /// What was filled is what the compute stream sees from here on.
  void send(CUstream copy, CUstream compute);
  /// Of what was sent last; null where cuDNN is not planned for any.
  Documents *documents() { return packed ? &*packed : nullptr; }

private:
  static constexpr size_t kBuffers = kInputCopies - 1;
  struct Buffer {
    PinnedMemory pinned;
    DeviceMemory staged;
    std::vector<uint8_t *> pointers;
    Event arrived, moved;
    bool used = false;
  };

  void makeDocuments(const Manifest &manifest);

  int64_t bytes;
  DeviceMemory fixed;
  std::vector<uint8_t *> devicePointers; // and the documents' tables
  std::optional<Documents> packed;
  size_t firstKeys = 0; // which input
  std::vector<Buffer> buffers;
  size_t next = 0;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_INPUTS_H
