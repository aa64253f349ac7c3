// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Inputs.h.

#include "Inputs.h"

namespace shardonnx::rt::cuda {
namespace {

int64_t bytesOf(const Manifest &manifest) {
  int64_t bytes = 0;
  for (const Manifest::Input &input : manifest.inputs)
    bytes += alignTo(input.bytes(), kDeviceAlignmentBytes);
  return bytes;
}

std::vector<uint8_t *> pointersInto(uint8_t *base, const Manifest &manifest) {
  std::vector<uint8_t *> pointers;
  for (const Manifest::Input &input : manifest.inputs) {
    pointers.push_back(base);
    base += alignTo(input.bytes(), kDeviceAlignmentBytes);
  }
  return pointers;
}

} // namespace

Inputs::Inputs(const Manifest &manifest)
    : bytes(bytesOf(manifest)), fixed(bytes, "inputs"),
      devicePointers(pointersInto(fixed.data(), manifest)) {
  for (size_t i = 0; i < kBuffers; ++i) {
    Buffer buffer;
    buffer.pinned = PinnedMemory(bytes, "inputs");
    buffer.staged = DeviceMemory(bytes, "inputs");
    buffer.pointers = pointersInto(buffer.pinned.data(), manifest);
    buffers.push_back(std::move(buffer));
  }
}

uint8_t *const *Inputs::host() {
  Buffer &buffer = buffers[next];
  if (buffer.used)
    buffer.arrived.synchronize("waiting for a batch to be copied");
  return buffer.pointers.data();
}

void Inputs::send(CUstream copy, CUstream compute) {
  Buffer &buffer = buffers[next];
  if (buffer.used)
    buffer.moved.wait(copy);
  auto size = static_cast<size_t>(bytes);
  check(driver().cuMemcpyHtoDAsync(buffer.staged.address(),
                                   buffer.pinned.data(), size, copy),
        "copying a batch to the GPU");
  buffer.arrived.record(copy);
  buffer.arrived.wait(compute);
  check(driver().cuMemcpyDtoDAsync(fixed.address(), buffer.staged.address(),
                                   size, compute),
        "moving a batch on the GPU");
  buffer.moved.record(compute);
  buffer.used = true;
  next = (next + 1) % kBuffers;
}

} // namespace shardonnx::rt::cuda
