// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights on their way to the device, through two pinned buffers that are
// filled in turn.

#ifndef SHARDONNX_RUNTIME_CUDA_UPLOAD_H
#define SHARDONNX_RUNTIME_CUDA_UPLOAD_H

#include "../driver/Memory.h"
#include "../driver/Stream.h"
#include "shardonnx/runtime/ABI.h"
#include <functional>
#include <vector>

namespace shardonnx::rt::cuda {

/// fill(memory, at, n) makes elements [at, at + n) of an array, in host memory.
using FillHost = std::function<void(uint8_t *memory, int64_t at, int64_t n)>;

class Upload {
public:
  explicit Upload(CUstream stream);
  /// Makes to[i] = values[i] in dtype, once the stream comes to it.
  void write(uint8_t *to, ShxDType dtype, const float *values, int64_t count);

  /// Makes to[i] = bytes[i], likewise.
  void writeBytes(uint8_t *to, const uint8_t *bytes, int64_t count);

  /// Likewise what `fill` makes: `count` elements of `bytes` each.
  void writeFilled(uint8_t *to, int64_t bytes, int64_t count,
                   const FillHost &fill);

private:
  struct Buffer {
    PinnedMemory memory;
    Event sent;
    bool used = false;
  };
  CUstream stream;
  std::vector<Buffer> buffers;
  size_t next = 0;
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_UPLOAD_H
