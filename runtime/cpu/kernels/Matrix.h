// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products by the BLAS library, and what they need around them: float
// matrices widened to f32 and back by the pool.

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

struct MatrixView {
  const float *data;
  int64_t stride;
  bool transposed;
};

/// c = a·b + beta·c, a being m×k and b k×n after transposition.
void sgemm(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b,
           float beta, float *c, int64_t cStride);

/// A strided matrix of a float type to or from a dense f32 one.
void widenMatrix(int32_t dtype, const void *from, int64_t fromStride,
                 int64_t rows, int64_t columns, float *to);
void narrowMatrix(int32_t dtype, const float *from, int64_t rows,
                  int64_t columns, void *to, int64_t toStride);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_MATRIX_H
