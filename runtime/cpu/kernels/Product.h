// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one interface to matrix products. Sums are f32 and taken in an order that
// the shapes and the CPU's instruction set decide: not the number of threads,
// and for a row of C not even the number of rows.

#ifndef SHARDONNX_RUNTIME_CPU_PRODUCT_H
#define SHARDONNX_RUNTIME_CPU_PRODUCT_H

#include "Kernels.h"
#include "shardonnx/runtime/ProductPlan.h"

namespace shardonnx::rt {

/// C = A·B (+ C), A being m×k and B k×n.
struct Product {
  int64_t m, n, k;
  ProductOperand a, b;
  void *c;
  int64_t cStride;
  int32_t cDtype = SHX_F32;
  bool accumulate = false;
  /// An f32 operand beside a bf16 one may be rounded to bf16.
  bool mayRound = false;
};

/// A row-major matrix, used as it is stored or transposed, as A and as B.
ProductOperand leftOperand(int32_t dtype, const void *data, int64_t stride,
                           bool transposed);
ProductOperand rightOperand(int32_t dtype, const void *data, int64_t stride,
                            bool transposed);

/// workspace: planProduct's bytes, aligned to a cache line. On the pool, or
/// within one of its tasks by the task's thread alone.
void multiply(const Product &product, void *workspace);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_PRODUCT_H
