// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of TableDeviceProgram.cpp. Every parameter is a pointer, as in
// what the compiler generates; the optimizer's last ones are a piece's members.

#include "shardonnx/runtime/ABI.h"

namespace {

constexpr int64_t kVocab = 300, kRows = 16;

#ifdef TABLE_BF16
struct Param {
  uint16_t bits;
  __device__ operator float() const {
    return __uint_as_float(uint32_t(bits) << 16);
  }
};
/// What a master has beyond its parameter (MasterHalves.h).
using Master = int16_t;
__device__ float masterOf(const Master *p, const Param *params, int64_t i) {
  return __uint_as_float((uint32_t(params[i].bits) << 16) + int32_t(p[i]));
}
__device__ void setMaster(Master *p, Param *params, int64_t i, float value) {
  uint32_t bits = __float_as_uint(value);
  params[i].bits = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  p[i] = Master(min(int32_t(bits - (uint32_t(params[i].bits) << 16)), 0x7fff));
}
#else
using Param = float;
using Master = float;
__device__ float masterOf(const Master *p, const Param *, int64_t i) {
  return p[i];
}
__device__ void setMaster(Master *p, Param *, int64_t i, float value) {
  p[i] = value;
}
#endif

} // namespace

extern "C" {

__global__ void table_a(const int64_t *x, const Param *a, const Param *bias,
                        float *sum) {
  int64_t i = threadIdx.x;
  sum[i] = a[x[i]] + bias[x[i] % 7];
}

__global__ void table_b(const int64_t *x, const Param *table,
                        const Param *frozen, float *b, float *sum) {
  int64_t i = threadIdx.x;
  b[i] = table[x[i]];
  sum[i] += frozen[x[i] % 3];
}

__global__ void table_c(const int64_t *x, const int64_t *y, const Param *table,
                        const float *sum, const float *b, float *c,
                        float *error, float *loss) {
  *loss = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    c[i] = table[x[i]];
    float prediction = sum[i] + b[i] * c[i];
    error[i] = y[i] == -100 ? 0 : prediction - float(y[i]) / float(kVocab);
    *loss += 0.5f * error[i] * error[i];
  }
}

__global__ void table_grad(const int64_t *x, const float *error,
                           const Param *other, const float *scale, float *d) {
  for (int64_t i = 0; i < kRows; ++i)
    d[x[i]] += error[i] * *scale * other[x[i]];
}

__global__ void table_grad_a(const int64_t *x, const float *error,
                             const float *scale, float *d, float *dBias) {
  for (int64_t i = 0; i < kRows; ++i) {
    d[x[i]] += error[i] * *scale;
    dBias[x[i] % 7] += error[i] * *scale;
  }
}

__global__ void table_adamw(Master *masters, const float *g, float *m, float *v,
                            Param *params, const float *s, const float *,
                            const float *, int64_t, int64_t begin,
                            int64_t end) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < begin || i >= end)
    return;
  if (s[SHX_SKIP] != 0)
    return;
  float limit = s[SHX_CLIP_VALUE];
  float grad = fminf(fmaxf(g[i] * s[SHX_CLIP], -limit), limit);
  float p = masterOf(masters, params, i);
  p -= s[SHX_LR] * s[SHX_WEIGHT_DECAY] * p;
  m[i] = s[SHX_BETA1] * m[i] + (1 - s[SHX_BETA1]) * grad;
  v[i] = s[SHX_BETA2] * v[i] + (1 - s[SHX_BETA2]) * grad * grad;
  float root = sqrtf(v[i] / s[SHX_BIAS_CORRECTION2]) + s[SHX_EPS];
  p -= s[SHX_LR] * (m[i] / s[SHX_BIAS_CORRECTION1]) / root;
  setMaster(masters, params, i, p);
}

} // extern "C"
