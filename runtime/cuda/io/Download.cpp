// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Download.h.

#include "Download.h"
#include <algorithm>

namespace shardonnx::rt::cuda {
namespace {

constexpr int64_t kBufferBytes = 8 << 20;

} // namespace

void Download::mark(std::initializer_list<CUstream> streams) {
  for (CUstream other : streams) {
    reached.record(other);
    reached.wait(stream);
  }
}

void Download::fill(Buffer &buffer, const uint8_t *from, int64_t bytes) {
  if (buffer.memory.size() == 0)
    buffer.memory = PinnedMemory(kBufferBytes, "a checkpoint");
  check(driver().cuMemcpyDtoHAsync(buffer.memory.data(), deviceAddress(from),
                                   static_cast<size_t>(bytes), stream),
        "copying a checkpoint from the GPU");
  buffer.filled.record(stream);
}

void Download::read(const uint8_t *from, int64_t bytes,
                    const Engine::Sink &sink) {
  device.makeCurrent();
  auto sizeAt = [&](int64_t at) { return std::min(kBufferBytes, bytes - at); };
  if (bytes > 0)
    fill(buffers[0], from, sizeAt(0));
  size_t now = 0;
  for (int64_t at = 0; at < bytes; at += kBufferBytes, now = 1 - now) {
    if (int64_t next = at + kBufferBytes; next < bytes)
      fill(buffers[1 - now], from + next, sizeAt(next));
    buffers[now].filled.synchronize("waiting for a checkpoint's bytes");
    sink(buffers[now].memory.data(), sizeAt(at));
  }
}

void Download::readHost(const uint8_t *from, int64_t bytes,
                        const Engine::Sink &sink) {
  device.makeCurrent();
  stream.synchronize("waiting for a checkpoint's bytes");
  for (int64_t at = 0; at < bytes; at += kBufferBytes)
    sink(from + at, std::min(kBufferBytes, bytes - at));
}

} // namespace shardonnx::rt::cuda
