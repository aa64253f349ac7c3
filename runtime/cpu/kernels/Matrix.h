// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements of matrices of any float type.

#ifndef SHARDONNX_RUNTIME_CPU_MATRIX_H
#define SHARDONNX_RUNTIME_CPU_MATRIX_H

#include "Kernels.h"
#include "Pool.h"
#include <cmath>
#include <type_traits>

namespace shardonnx::rt {

inline int64_t floatBytes(int32_t dtype) { return dtype == SHX_F32 ? 4 : 2; }

inline const void *floatAt(int32_t dtype, const void *base, int64_t index) {
  return static_cast<const char *>(base) + index * floatBytes(dtype);
}
inline void *floatAt(int32_t dtype, void *base, int64_t index) {
  return static_cast<char *>(base) + index * floatBytes(dtype);
}

inline int64_t indexAt(int32_t dtype, const void *base, int64_t i) {
  return dtype == SHX_I64 ? static_cast<const int64_t *>(base)[i]
                          : static_cast<const int32_t *>(base)[i];
}

/// Integers never are.
template <typename T> bool isNotANumber(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return std::isnan(value);
  return false;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_MATRIX_H
