// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Frozen weights of few bits. A packed weight [rows, columns] lies as bytes in
// its unit's frozen section, so it is sharded, gathered and saved as it is;
// what multiplies with it decodes it first. The layouts, from the begin:
//   bf16  the elements
//   int8  an int8 for each element, then an f32 for each row: the row's largest
//         magnitude (Dettmers et al. 2022, LLM.int8()'s vectors)
//   nf4   four bits for each element, the first of a byte high; an f32 for each
//         256 blocks of 64 elements, and the mean; a byte for each block. A
//         block's scale is the mean plus the f32 times the byte's entry of the
//         dynamic map (Dettmers et al. 2023, QLoRA's double quantisation)
// Tables and rounding are those of bitsandbytes.

#ifndef SHARDONNX_RUNTIME_PACKING_H
#define SHARDONNX_RUNTIME_PACKING_H

#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/Spelling.h"

namespace shardonnx {

enum class Packing { BF16, Int8, NF4 };

template <> struct Spellings<Packing> {
  static constexpr Spelling<Packing> table[] = {
      {Packing::BF16, "bf16", "rounded"},
      {Packing::Int8, "int8", "8 bits, a scale for each row"},
      {Packing::NF4, "nf4", "QLoRA's 4 bits, doubly quantised"}};
};

constexpr int64_t kPackedBlock = 64;  // elements with one scale
constexpr int64_t kPackedGroup = 256; // blocks whose scales have one
constexpr int64_t kPackedWord = 4;    // packed weights are of whole words

/// Where the parts begin, in bytes; `codes` are at 0.
struct PackedLayout {
  int64_t scales = 0;      // f32: of rows, or of groups and then the mean
  int64_t blockScales = 0; // a byte each
  int64_t bytes = 0;
};

constexpr int64_t blocksOf(int64_t elements) {
  return (elements + kPackedBlock - 1) / kPackedBlock;
}
constexpr int64_t groupsOf(int64_t elements) {
  return (blocksOf(elements) + kPackedGroup - 1) / kPackedGroup;
}

constexpr PackedLayout packedLayout(Packing packing, int64_t rows,
                                    int64_t columns) {
  int64_t n = rows * columns;
  PackedLayout layout;
  if (packing == Packing::BF16) {
    layout.scales = layout.blockScales = layout.bytes =
        alignTo(n * 2, kPackedWord);
  } else if (packing == Packing::Int8) {
    layout.scales = alignTo(n, kPackedWord);
    layout.blockScales = layout.bytes = layout.scales + rows * 4;
  } else {
    layout.scales = alignTo((n + 1) / 2, kPackedWord);
    layout.blockScales = layout.scales + (groupsOf(n) + 1) * 4;
    layout.bytes = alignTo(layout.blockScales + blocksOf(n), kPackedWord);
  }
  return layout;
}

/// Of int8: what scales are multiplied with, LLM.int8()'s 1 / 127.
constexpr float kPackedInt8Step = 7.874015718698502e-3f;

/// The quantiles of a normal distribution, -1 and 1 among them.
struct NF4Table {
  float values[16] = {
      -1.0f,
      -0.6961928009986877f,
      -0.5250730514526367f,
      -0.39491748809814453f,
      -0.28444138169288635f,
      -0.18477343022823334f,
      -0.09105003625154495f,
      0.0f,
      0.07958029955625534f,
      0.16093020141124725f,
      0.24611230194568634f,
      0.33791524171829224f,
      0.44070982933044434f,
      0.5626170039176941f,
      0.7229568362236023f,
      1.0f,
  };
};

/// Dettmers 2015's 8 bits with a varying number of them for the exponent, in
/// rising order: 0, 1, and ±10^(i-6) times the middles of 2^i equal parts of
/// [0.1, 1] for i in 0…6, rounded as torch.linspace's.
struct DynamicMap {
  float values[256] = {};

  constexpr DynamicMap() {
    constexpr float kPowers[7] = {1e-6f, 1e-5f, 1e-4f, 1e-3f,
                                  1e-2f, 1e-1f, 1.0f};
    constexpr int kZero = 127;
    int at = 0;
    for (int i = 0; i < 7; ++i)
      for (int part = 0; part < (1 << i); ++part, ++at) {
        float middle = (bound(part, 1 << i) + bound(part + 1, 1 << i)) / 2;
        values[kZero + 1 + at] = kPowers[i] * middle;
        values[kZero - 1 - at] = -values[kZero + 1 + at];
      }
    values[255] = 1.0f;
  }

private:
  static constexpr float bound(int i, int parts) {
    constexpr float kBegin = 0.1f, kEnd = 1.0f;
    float step = (kEnd - kBegin) / static_cast<float>(parts);
    double exact =
        i < (parts + 1) / 2
            ? static_cast<double>(kBegin) + static_cast<double>(step) * i
            : static_cast<double>(kEnd) -
                  static_cast<double>(step) * (parts - i);
    return static_cast<float>(exact);
  }
};

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_PACKING_H
