// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops that generated kernels are compared with, as one would write them.

#ifndef SHARDONNX_BENCHMARKS_KERNELS_REFERENCE_REFERENCE_H
#define SHARDONNX_BENCHMARKS_KERNELS_REFERENCE_REFERENCE_H

#include <cstdint>

void referenceBiasGelu(const float *x, const float *bias, float *y,
                       int64_t rows, int64_t width);
void referenceLayerNorm(const float *x, const float *weight, const float *bias,
                        float *y, int64_t rows, int64_t width);
void referenceSoftmax(const float *x, float *y, int64_t rows, int64_t width);
void referenceColumnSum(const float *x, float *y, int64_t rows, int64_t width);
void referenceAdamW(float *p, const float *g, float *m, float *v,
                    const float *scalars, int64_t length);

#endif // SHARDONNX_BENCHMARKS_KERNELS_REFERENCE_REFERENCE_H
