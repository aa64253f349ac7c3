// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See GatherImage.h.

#include "GatherImage.h"
#include "../support/Convert.h"
#include "shardonnx/runtime/Manifest.h"
#include <algorithm>

namespace shardonnx::rt {
namespace {

bool isF8(GatherDtype type) { return type == GatherDtype::F8; }

uint8_t exponentOf(bool f8, const float *x, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max(largest, floatBits(x[i]) & 0x7fffffff);
  return gatherExponent(f8, largest);
}

// Calls body(begin, values, count) with each block's values in f32.
template <typename Body>
void forBlocks(ShxDType type, const uint8_t *from, int64_t count, Body body) {
  float values[kStateBlock];
  for (int64_t begin = 0; begin < count; begin += kStateBlock) {
    int64_t length = std::min(kStateBlock, count - begin);
    widen(type, values, from + begin * dtypeBytes(type), length);
    body(begin, values, length);
  }
}

} // namespace

void roundAsGathered(GatherDtype type, ShxDType fromType, const uint8_t *from,
                     ShxDType toType, uint8_t *to, int64_t count) {
  forBlocks(fromType, from, count, [&](int64_t begin, float *x, int64_t n) {
    if (type == GatherDtype::BF16) {
      uint8_t rounded[kStateBlock * 2];
      narrow(SHX_BF16, rounded, x, n);
      widen(SHX_BF16, x, rounded, n);
    } else {
      uint8_t exponent = exponentOf(isF8(type), x, n);
      float scale = gatherScale(exponent), inverse = gatherInverse(exponent);
      for (int64_t i = 0; i < n; ++i)
        x[i] = roundToCode(isF8(type), x[i], inverse) * scale;
    }
    narrow(toType, to + begin * dtypeBytes(toType), x, n);
  });
}

void encodeImage(GatherDtype type, ShxDType sliceType, const uint8_t *slice,
                 uint8_t *image, int64_t count) {
  forBlocks(sliceType, slice, count, [&](int64_t begin, float *x, int64_t n) {
    if (type == GatherDtype::BF16)
      return narrow(SHX_BF16, image + begin * 2, x, n);
    uint8_t exponent = exponentOf(isF8(type), x, n);
    float inverse = gatherInverse(exponent);
    for (int64_t i = 0; i < n; ++i)
      image[begin + i] =
          codeOfRounded(isF8(type), roundToCode(isF8(type), x[i], inverse));
    image[count + begin / kStateBlock] = exponent;
  });
}

void decodeImage(GatherDtype type, const uint8_t *image, ShxDType sliceType,
                 uint8_t *slice, int64_t count) {
  float values[kStateBlock];
  for (int64_t begin = 0; begin < count; begin += kStateBlock) {
    int64_t n = std::min(kStateBlock, count - begin);
    if (type == GatherDtype::BF16) {
      widen(SHX_BF16, values, image + begin * 2, n);
    } else {
      float scale = gatherScale(image[count + begin / kStateBlock]);
      for (int64_t i = 0; i < n; ++i)
        values[i] = valueOfCode(isF8(type), image[begin + i]) * scale;
    }
    narrow(sliceType, slice + begin * dtypeBytes(sliceType), values, n);
  }
}

} // namespace shardonnx::rt
