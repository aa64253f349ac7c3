// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Inputs.h.

#include "Inputs.h"

namespace shardonnx::rt::cuda {
namespace {

// What stands behind the inputs, too.
std::vector<uint8_t *> pointersInto(uint8_t *base, const Manifest &manifest) {
  std::vector<uint8_t *> pointers;
  for (const Manifest::Input &input : manifest.inputs) {
    pointers.push_back(base);
    base += alignTo(input.bytes(), kDeviceAlignmentBytes);
  }
  pointers.push_back(base);
  return pointers;
}

} // namespace

Inputs::Inputs(const Manifest &manifest)
    : bytes(deviceInputBytes(manifest)), fixed(bytes, "inputs"),
      devicePointers(pointersInto(fixed.data(), manifest)) {
  makeDocuments(manifest);
  for (size_t i = 0; i < kBuffers; ++i) {
    Buffer buffer;
    buffer.pinned = PinnedMemory(bytes, "inputs");
    buffer.staged = DeviceMemory(bytes, "inputs");
    buffer.pointers = pointersInto(buffer.pinned.data(), manifest);
    buffers.push_back(std::move(buffer));
  }
}

// First keys are [samples, tokens of a sample].
void Inputs::makeDocuments(const Manifest &manifest) {
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    const Manifest::Input &input = manifest.inputs[i];
    if (input.kind != InputKind::FirstKeys || manifest.maxDocuments == 0)
      continue;
    firstKeys = i;
    packed.emplace(manifest.maxDocuments, input.elements(), input.shape.back(),
                   devicePointers.back());
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
  if (packed)
    packed->fill(reinterpret_cast<const int32_t *>(buffer.pointers[firstKeys]),
                 buffer.pointers.back());
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
