// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Upload.h.

#include "Upload.h"
#include "../../support/Convert.h"
#include "shardonnx/runtime/Manifest.h"
#include <algorithm>
#include <cstring>

namespace shardonnx::rt::cuda {
namespace {

constexpr size_t kBuffers = 2;
constexpr int64_t kBufferElements = 1 << 20;

} // namespace

Upload::Upload(CUstream stream) : stream(stream) {
  for (size_t i = 0; i < kBuffers; ++i) {
    Buffer buffer;
    buffer.memory = PinnedMemory(
        kBufferElements * static_cast<int64_t>(sizeof(float)), "weights");
    buffers.push_back(std::move(buffer));
  }
}

void Upload::writeFilled(uint8_t *to, int64_t bytes, int64_t count,
                         const FillHost &fill) {
  for (int64_t at = 0; at < count; at += kBufferElements) {
    int64_t n = std::min(kBufferElements, count - at);
    Buffer &buffer = buffers[next];
    if (buffer.used)
      buffer.sent.synchronize("waiting for weights to be copied");
    fill(buffer.memory.data(), at, n);
    check(driver().cuMemcpyHtoDAsync(deviceAddress(to + at * bytes),
                                     buffer.memory.data(),
                                     static_cast<size_t>(n * bytes), stream),
          "copying weights to the GPU");
    buffer.sent.record(stream);
    buffer.used = true;
    next = (next + 1) % kBuffers;
  }
}

void Upload::write(uint8_t *to, ShxDType dtype, const float *values,
                   int64_t count) {
  writeFilled(to, dtypeBytes(dtype), count,
              [&](uint8_t *memory, int64_t at, int64_t n) {
                narrow(dtype, memory, values + at, n);
              });
}

void Upload::writeBytes(uint8_t *to, const uint8_t *bytes, int64_t count) {
  writeFilled(to, 1, count, [&](uint8_t *memory, int64_t at, int64_t n) {
    std::memcpy(memory, bytes + at, static_cast<size_t>(n));
  });
}

} // namespace shardonnx::rt::cuda
