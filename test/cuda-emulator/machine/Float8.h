// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Floats of 8 bits: E4M3 without infinities, and E5M2.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_FLOAT8_H
#define SHARDONNX_TEST_CUDA_EMULATOR_FLOAT8_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace shardonnx::emulator {

struct Float8 {
  int mantissaBits, bias;
  float largest;

  float toFloat(uint8_t bits) const {
    int mantissa = bits & ((1 << mantissaBits) - 1);
    int exponent = (bits & 0x7f) >> mantissaBits;
    float size =
        std::ldexp(float(exponent ? mantissa | 1 << mantissaBits : mantissa),
                   std::max(exponent, 1) - bias - mantissaBits);
    if (size > largest)
      size = std::numeric_limits<float>::quiet_NaN(); // E5M2's infinity too
    return bits & 0x80 ? -size : size;
  }

  /// To nearest even; what is larger than the largest is the largest.
  uint8_t fromFloat(float value) const {
    if (value != value)
      return 0x7f;
    float size = std::min(std::fabs(value), largest);
    int exponent = size > 0 ? std::max(std::ilogb(size), 1 - bias) : 1 - bias;
    int count = int(std::nearbyint(std::ldexp(size, mantissaBits - exponent)));
    int code = count >> mantissaBits == 0
                   ? count
                   : count + ((exponent + bias - 1) << mantissaBits);
    return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
  }
};

constexpr Float8 kE4M3 = {3, 7, 448}, kE5M2 = {2, 15, 57344};

} // namespace shardonnx::emulator

#endif
