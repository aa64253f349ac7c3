// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Noise.h.

#include "Noise.h"
#include <algorithm>
#include <random>
#include <vector>

namespace shardonnx::rt::cuda {
namespace {

// What is made by the host; copies of it on the device are the rest. A prime
// number of words, so that rows of a matrix differ.
constexpr int64_t kWords = 262'147;

std::vector<uint16_t> drawHalves(size_t count) {
  std::mt19937_64 generator(1);
  std::vector<uint16_t> halves(count);
  for (uint16_t &half : halves) {
    auto bits = static_cast<uint32_t>(generator() >> 32);
    // Sign, 0x3f, a byte: within [0.5, 2) as bf16, [1.75, 2) as f16, and the
    // upper half of an f32.
    half = static_cast<uint16_t>((bits & 0x8000u) | 0x3f00u | (bits & 0xffu));
  }
  return halves;
}

} // namespace

void fillWithNoise(const DeviceMemory &memory, CUstream stream) {
  int64_t bytes = memory.size() / 4 * 4;
  if (bytes == 0)
    return;
  int64_t done = std::min(bytes, kWords * 4);
  std::vector<uint16_t> halves = drawHalves(static_cast<size_t>(done) / 2);
  check(driver().cuMemcpyHtoDAsync(memory.address(), halves.data(),
                                   static_cast<size_t>(done), stream),
        "filling memory with noise");
  for (; done < bytes; done += std::min(done, bytes - done))
    check(driver().cuMemcpyDtoDAsync(
              memory.address() + static_cast<CUdeviceptr>(done),
              memory.address(),
              static_cast<size_t>(std::min(done, bytes - done)), stream),
          "filling memory with noise");
  check(driver().cuStreamSynchronize(stream), "filling memory with noise");
}

} // namespace shardonnx::rt::cuda
