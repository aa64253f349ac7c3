// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Convert.h.

#include "Convert.h"
#include "Half.h"

namespace shardonnx::rt {
namespace {

template <typename T>
void narrowRun(uint8_t *to, const float *from, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    reinterpret_cast<T *>(to)[i] = fromFloat<T>(from[i]);
}

template <typename T>
void widenRun(float *to, const uint8_t *from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    to[i] = toFloat(value);
  }
}

} // namespace

void narrow(ShxDType dtype, uint8_t *to, const float *from, int64_t count) {
  switch (dtype) {
  case SHX_BF16:
    return narrowRun<BFloat16>(to, from, count);
  case SHX_F16:
    return narrowRun<Float16>(to, from, count);
  default:
    return narrowRun<float>(to, from, count);
  }
}

void widen(ShxDType dtype, float *to, const uint8_t *from, int64_t count) {
  switch (dtype) {
  case SHX_BF16:
    return widenRun<BFloat16>(to, from, count);
  case SHX_F16:
    return widenRun<Float16>(to, from, count);
  default:
    return widenRun<float>(to, from, count);
  }
}

} // namespace shardonnx::rt
