// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiled with -O3 -march=native -ffast-math, so that the compiler may use its
// vector math library.

#include "Reference.h"
#include "shardonnx/runtime/ABI.h"
#include <algorithm>
#include <cmath>

void referenceBiasGelu(const float *x, const float *bias, float *y,
                       int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < width; ++i) {
      float v = x[r * width + i] + bias[i];
      float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
      y[r * width + i] = 0.5f * v * (1.0f + tanhf(inner));
    }
}

void referenceLayerNorm(const float *x, const float *weight, const float *bias,
                        float *y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *row = x + r * width;
    float mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i)
      mean += row[i];
    mean /= width;
    for (int64_t i = 0; i < width; ++i)
      variance += (row[i] - mean) * (row[i] - mean);
    float rstd = 1.0f / sqrtf(variance / width + 1e-5f);
    for (int64_t i = 0; i < width; ++i)
      y[r * width + i] = (row[i] - mean) * rstd * weight[i] + bias[i];
  }
}

void referenceSoftmax(const float *x, float *y, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *row = x + r * width;
    float *out = y + r * width;
    float largest = row[0], sum = 0;
    for (int64_t i = 1; i < width; ++i)
      largest = std::max(largest, row[i]);
    for (int64_t i = 0; i < width; ++i) {
      out[i] = expf(row[i] - largest);
      sum += out[i];
    }
    for (int64_t i = 0; i < width; ++i)
      out[i] /= sum;
  }
}

void referenceColumnSum(const float *x, float *y, int64_t rows, int64_t width) {
  std::fill(y, y + width, 0.0f);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < width; ++i)
      y[i] += x[r * width + i];
}

void referenceAdamW(float *p, const float *g, float *m, float *v,
                    const float *s, int64_t length) {
  float step = s[SHX_LR] / s[SHX_BIAS_CORRECTION1];
  float correction = 1.0f / sqrtf(s[SHX_BIAS_CORRECTION2]);
  float decay = 1.0f - s[SHX_LR] * s[SHX_WEIGHT_DECAY];
  float beta1 = s[SHX_BETA1], beta2 = s[SHX_BETA2], eps = s[SHX_EPS];
  float clip = s[SHX_CLIP];
  for (int64_t i = 0; i < length; ++i) {
    float grad = g[i] * clip;
    m[i] = beta1 * m[i] + (1 - beta1) * grad;
    v[i] = beta2 * v[i] + (1 - beta2) * grad * grad;
    p[i] = p[i] * decay - step * m[i] / (sqrtf(v[i]) * correction + eps);
  }
}
