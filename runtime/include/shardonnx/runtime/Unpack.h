// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Packed weights back to f32, on the host.

#ifndef SHARDONNX_RUNTIME_UNPACK_H
#define SHARDONNX_RUNTIME_UNPACK_H

#include "shardonnx/runtime/Packing.h"
#include <algorithm>
#include <cstring>

namespace shardonnx {

class Unpacker {
public:
  Unpacker(Packing packing, int64_t rows, int64_t columns, const void *packed)
      : packing(packing), columns(columns), elements(rows * columns),
        layout(packedLayout(packing, rows, columns)),
        bytes(static_cast<const uint8_t *>(packed)) {}

  /// Elements [begin, end) of the weight.
  void decode(int64_t begin, int64_t end, float *to) const {
    while (begin < end) {
      int64_t run = packing == Packing::Int8 ? columns : kPackedBlock;
      int64_t stop = std::min(end, (begin / run + 1) * run);
      if (packing == Packing::NF4)
        decodeBlock(begin, stop, to);
      else if (packing == Packing::Int8)
        decodeRow(begin, stop, to);
      else
        decodeBF16(begin, stop, to);
      to += stop - begin;
      begin = stop;
    }
  }

private:
  float scaleAt(int64_t index) const {
    float scale;
    std::memcpy(&scale, bytes + layout.scales + index * 4, sizeof(scale));
    return scale;
  }
  void decodeBF16(int64_t begin, int64_t end, float *to) const {
    for (int64_t i = begin; i < end; ++i) {
      uint16_t half;
      std::memcpy(&half, bytes + i * 2, sizeof(half));
      uint32_t bits = static_cast<uint32_t>(half) << 16;
      std::memcpy(to + (i - begin), &bits, sizeof(bits));
    }
  }
  void decodeRow(int64_t begin, int64_t end, float *to) const {
    float scale = scaleAt(begin / columns);
    for (int64_t i = begin; i < end; ++i)
      to[i - begin] = static_cast<float>(static_cast<int8_t>(bytes[i])) *
                      scale * kPackedInt8Step;
  }
  void decodeBlock(int64_t begin, int64_t end, float *to) const {
    int64_t block = begin / kPackedBlock;
    // In f64 the product is exact, so no compiler rounds it and the sum once.
    double product =
        static_cast<double>(kMap.values[bytes[layout.blockScales + block]]) *
        static_cast<double>(scaleAt(block / kPackedGroup));
    float scale = static_cast<float>(product) + scaleAt(groupsOf(elements));
    float values[16];
    for (int i = 0; i < 16; ++i)
      values[i] = kTable.values[i] * scale;
    for (int64_t i = begin; i < end; ++i)
      to[i - begin] = values[i % 2 ? bytes[i / 2] & 15 : bytes[i / 2] >> 4];
  }

  static constexpr NF4Table kTable = {};
  static constexpr DynamicMap kMap = {};

  Packing packing;
  int64_t columns, elements;
  PackedLayout layout;
  const uint8_t *bytes;
};

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_UNPACK_H
