// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A weight into few bits, as its elements come out of a file.

#ifndef SHARDONNX_RUNTIME_PACKER_H
#define SHARDONNX_RUNTIME_PACKER_H

#include "shardonnx/runtime/Packing.h"
#include <cstdint>
#include <vector>

namespace shardonnx::rt {

/// Takes all elements of a weight [rows, columns] in order, and keeps no more
/// of them in f32 than have one scale.
class Packer {
public:
  Packer(Packing packing, int64_t rows, int64_t columns);

  void add(const float *values, int64_t count);
  /// Once all have come.
  std::vector<uint8_t> finish();

private:
  void encode(const float *values, int64_t count);
  void encodeBlock(const float *values, int64_t count);
  void encodeRow(const float *values, int64_t count);
  void encodeScales();
  void putFloat(int64_t at, float value);

  Packing packing;
  int64_t elements, run; // elements that have one scale
  int64_t done = 0;
  PackedLayout layout;
  std::vector<uint8_t> bytes;
  std::vector<float> pending; // of a run that is not whole yet
  std::vector<float> largest; // of each block, NF4's
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PACKER_H
