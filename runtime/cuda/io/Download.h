// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The state on its way to a checkpoint: copied on a stream of its own, by
// another thread than the one that enqueues training, through two pinned
// buffers of which one is copied to while the other is written to the disk.

#ifndef SHARDONNX_RUNTIME_CUDA_DOWNLOAD_H
#define SHARDONNX_RUNTIME_CUDA_DOWNLOAD_H

#include "../../core/Engine.h"
#include "../driver/Memory.h"
#include "../driver/Stream.h"
#include <array>
#include <initializer_list>

namespace shardonnx::rt::cuda {

class Download {
public:
  explicit Download(const Device &device) : device(device) {}
  /// What is read from now on is as the streams leave it that have come so far.
  void mark(std::initializer_list<CUstream> streams);
  /// On any thread: gives `bytes` bytes of the device, piece by piece.
  void read(const uint8_t *from, int64_t bytes, const Engine::Sink &sink);
  /// The same of host memory that the device writes (--offload).
  void readHost(const uint8_t *from, int64_t bytes, const Engine::Sink &sink);

private:
  struct Buffer {
    PinnedMemory memory;
    Event filled;
  };
  void fill(Buffer &buffer, const uint8_t *from, int64_t bytes);

  const Device &device;
  Stream stream;
  Event reached;
  std::array<Buffer, 2> buffers; // allocated when first read
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_DOWNLOAD_H
