// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How parameters cross the links in 8 bits (--gather-dtype), on hosts and in
// kernels. kStateBlock elements, counted from the begin of their unit, have one
// scale: the least power of two with which the largest of them is a code. So
// rounding cuts digits and changes none, the values of codes are exact in bf16
// and f32, and to encode them again gives the same codes.

#ifndef SHARDONNX_RUNTIME_GATHERCODES_H
#define SHARDONNX_RUNTIME_GATHERCODES_H

#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/UpdateTypes.h"
#include <cstring>

#ifdef __CUDACC__
#define SHX_ANYWHERE __host__ __device__
#else
#define SHX_ANYWHERE
#endif

namespace shardonnx {

// A block's scale is 2^(exponent - bias); of one with a NaN or an infinity, a
// NaN.
constexpr int kScaleBias = 127;
constexpr uint8_t kScaleIsNaN = 255;
constexpr int64_t kImageAlignmentBytes = 16;

// Of so many elements of a slice: codes, then a byte for each block's exponent.
constexpr int64_t gatherImageBytes(GatherDtype type, int64_t elements) {
  if (type == GatherDtype::BF16)
    return elements * 2;
  return alignTo(elements + stateBlocks(elements), kImageAlignmentBytes);
}

SHX_ANYWHERE inline uint32_t floatBits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
SHX_ANYWHERE inline float floatOfBits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

// From the bits of the largest magnitude of a block.
SHX_ANYWHERE inline uint8_t gatherExponent(bool f8, uint32_t largest) {
  constexpr uint32_t kInfinity = 0x7f800000, kMantissa = 0x7fffff;
  if (largest >= kInfinity)
    return kScaleIsNaN;
  // The largest codes are 448 = 1.75 · 2^8 and 127 = 1.984375 · 2^6.
  int exponent = int(largest >> 23) - (f8 ? 8 : 6);
  exponent += (largest & kMantissa) > (f8 ? 0x600000u : 0x7e0000u);
  return uint8_t(exponent < 1 ? 1 : exponent);
}
SHX_ANYWHERE inline float gatherScale(uint8_t exponent) {
  uint32_t quiet = exponent == kScaleIsNaN ? 0x400000 : 0;
  return floatOfBits(uint32_t(exponent) << 23 | quiet);
}
SHX_ANYWHERE inline float gatherInverse(uint8_t exponent) {
  return exponent == kScaleIsNaN ? 0
                                 : floatOfBits(uint32_t(254 - exponent) << 23);
}

// x over its scale, to the nearest value of a code, of two the even one. An
// addition cuts what lies below the last digit of the sum.
SHX_ANYWHERE inline float roundToCode(bool f8, float x, float inverse) {
  constexpr float kOnes = 12582912, kLeastCodes = 24576; // 1.5 · 2^23, 2^14
  if (inverse == 0) // the scale says what there is
    return 0;
  x *= inverse;
  if (!f8)
    return (x + kOnes) - kOnes;
  uint32_t bits = floatBits(x);
  float normal = floatOfBits((bits + 0x7ffff + (bits >> 20 & 1)) & ~0xfffffu);
  float subnormal = (x + kLeastCodes) - kLeastCodes;
  bool isNormal = (bits & 0x7fffffff) >= 0x3c800000; // 2^-6
  return isNormal ? normal : subnormal;
}
SHX_ANYWHERE inline uint8_t codeOfRounded(bool f8, float x) {
  if (!f8)
    return uint8_t(int8_t(x));
  uint32_t bits = floatBits(x), magnitude = bits & 0x7fffffff;
  uint32_t subnormal = uint32_t(floatOfBits(magnitude) * 512);
  uint32_t code =
      magnitude >= 0x3c800000 ? (magnitude >> 20) - (120 << 3) : subnormal;
  return uint8_t((bits >> 24 & 0x80) | code);
}
SHX_ANYWHERE inline float valueOfCode(bool f8, uint8_t code) {
  if (!f8)
    return float(int8_t(code));
  uint32_t magnitude = code & 0x7f;
  float value = magnitude < 8 ? float(magnitude) / 512
                              : floatOfBits((magnitude << 20) + (120u << 23));
  return code & 0x80 ? -value : value;
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_GATHERCODES_H
