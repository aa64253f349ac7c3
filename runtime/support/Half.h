// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// bf16 and f16 to and from f32, written so that compilers vectorise the loops
// around them.

#ifndef SHARDONNX_RUNTIME_HALF_H
#define SHARDONNX_RUNTIME_HALF_H

#include <cstdint>
#include <cstring>

namespace shardonnx::rt {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

inline float toFloat(float x) { return x; }
inline float toFloat(BFloat16 x) {
  uint32_t wide = uint32_t(x.bits) << 16;
  float out;
  std::memcpy(&out, &wide, 4);
  return out;
}
inline float toFloat(Float16 x) {
  _Float16 half;
  std::memcpy(&half, &x.bits, 2);
  return static_cast<float>(half);
}

template <typename T> T fromFloat(float x);
template <> inline float fromFloat<float>(float x) { return x; }
/// Rounds to nearest even; a NaN stays one.
template <> inline BFloat16 fromFloat<BFloat16>(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  uint32_t quiet = (bits >> 16) | 0x40;
  bool isNaN = (bits & 0x7fffffff) > 0x7f800000;
  return {static_cast<uint16_t>(isNaN ? quiet : rounded)};
}
template <> inline Float16 fromFloat<Float16>(float x) {
  _Float16 half = static_cast<_Float16>(x);
  Float16 out;
  std::memcpy(&out.bits, &half, 2);
  return out;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_HALF_H
