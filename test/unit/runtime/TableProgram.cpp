// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program written by hand as the compiler writes one, small enough to check
// with a few lines of arithmetic (TableReference.h), with units that share
// buffers and a frozen parameter. Compiled once per layout and dtype:
//   TABLE_BF16        bf16 parameters, f32 masters
//   TABLE_MIXED       unit b has bf16 parameters, the others f32
//   TABLE_REPLICATED  no_shard
//   TABLE_KEPT        units stay gathered between the updates
//   TABLE_UNSHARDED   gradients are added up before they are reduced
// In the environment, TABLE_GRADIENT_LIMIT=X: what is larger becomes infinity,
// as in float16.
//
// prediction(x) = a[x] + bias[x % 7] + b[x]·c[x] + frozen[x % 3]
// loss = Σ ½ (prediction - label/300)² over labels other than -100

#include "shardonnx/runtime/ABI.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <unistd.h>

#define TABLE_TARGET "cpu"
#define TABLE_IN_PLACE "true"
#include "TableManifest.inc"

namespace {

constexpr int64_t kVocab = 300, kBatch = 2, kSeq = 8, kRows = kBatch * kSeq;

#if defined(TABLE_BF16)
constexpr bool kIsBF16[] = {true, true, true};
#elif defined(TABLE_MIXED)
constexpr bool kIsBF16[] = {false, true, false};
#else
constexpr bool kIsBF16[] = {false, false, false};
#endif

float param(ShxContext *ctx, int unit, int64_t at, int64_t sectionBytes = 0) {
  const uint8_t *section = ctx->params[unit] + sectionBytes;
  if (!kIsBF16[unit])
    return reinterpret_cast<const float *>(section)[at];
  uint32_t wide = uint32_t(reinterpret_cast<const uint16_t *>(section)[at])
                  << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}
// To nearest; a tie to even.
uint16_t roundToBF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
// What a kept unit's program leaves out of its microbatches.
#ifdef TABLE_KEPT
void gatherStart(ShxContext *, int32_t) {}
void gatherFree(ShxContext *, int32_t) {}
#else
void gatherStart(ShxContext *ctx, int32_t unit) { shx_gather_start(ctx, unit); }
void gatherFree(ShxContext *ctx, int32_t unit) { shx_gather_free(ctx, unit); }
#endif
// Unsharded, later microbatches add to what the first one wrote.
void clear(float *gradients, size_t count, [[maybe_unused]] bool accumulate) {
#ifdef TABLE_UNSHARDED
  if (accumulate)
    return;
#endif
  std::memset(gradients, 0, count * sizeof(float));
}
float *gradient(ShxContext *ctx, int unit) {
  return reinterpret_cast<float *>(ctx->grads[unit]);
}

// What lives in the private space.
struct Activations {
  float sum[kRows], b[kRows], c[kRows], error[kRows], loss;
};
Activations &activations(ShxContext *ctx) {
  return *reinterpret_cast<Activations *>(ctx->privateBase);
}
const int64_t *tokens(ShxContext *ctx) {
  return reinterpret_cast<const int64_t *>(ctx->inputs[0]);
}
const int64_t *labels(ShxContext *ctx) {
  return reinterpret_cast<const int64_t *>(ctx->inputs[1]);
}

void forward(ShxContext *ctx) {
  if (const char *pause = std::getenv("TABLE_PAUSE_US"))
    ::usleep(static_cast<useconds_t>(std::atoi(pause)));
  Activations &act = activations(ctx);
  const int64_t *x = tokens(ctx), *y = labels(ctx);
  gatherStart(ctx, 0);
  gatherStart(ctx, 1);
  shx_gather_wait(ctx, 0);
  for (int64_t i = 0; i < kRows; ++i)
    act.sum[i] = param(ctx, 0, x[i]) + param(ctx, 0, 512 + x[i] % 7);
  gatherFree(ctx, 0);
  gatherStart(ctx, 2);
  shx_gather_wait(ctx, 1);
  for (int64_t i = 0; i < kRows; ++i) {
    act.b[i] = param(ctx, 1, x[i]);
    act.sum[i] += param(ctx, 1, x[i] % 3, kFrozenBytes);
  }
  gatherFree(ctx, 1);
  shx_gather_wait(ctx, 2);
  act.loss = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    act.c[i] = param(ctx, 2, x[i]);
    float prediction = act.sum[i] + act.b[i] * act.c[i];
    act.error[i] = y[i] == -100 ? 0 : prediction - float(y[i]) / float(kVocab);
    act.loss += 0.5f * act.error[i] * act.error[i];
  }
  gatherFree(ctx, 2);
  shx_loss(ctx, &act.loss);
}

void overflow(float *gradients, int64_t count) {
  const char *text = std::getenv("TABLE_GRADIENT_LIMIT");
  float limit = text ? float(std::atof(text)) : INFINITY;
  for (int64_t i = 0; i < count; ++i)
    if (std::fabs(gradients[i]) > limit)
      gradients[i] = INFINITY;
}

// Backward reads the parameters again, as a sharded program does.
void microbatch(ShxContext *ctx, int32_t accumulate) {
  forward(ctx);
  Activations &act = activations(ctx);
  const int64_t *x = tokens(ctx);
  float scale = ctx->scalars[SHX_LOSS_SCALE];
  for (int unit = 2; unit >= 1; --unit) {
    int other = unit == 2 ? 1 : 2;
    gatherStart(ctx, other);
    shx_grad_acquire(ctx, unit);
    float *d = gradient(ctx, unit);
    clear(d, 512, accumulate != 0);
    shx_gather_wait(ctx, other);
    for (int64_t i = 0; i < kRows; ++i)
      d[x[i]] += act.error[i] * scale * param(ctx, other, x[i]);
    gatherFree(ctx, other);
    overflow(d, 512);
    shx_reduce_start(ctx, unit, accumulate);
  }
  shx_grad_acquire(ctx, 0);
  float *d = gradient(ctx, 0);
  clear(d, 768, accumulate != 0);
  for (int64_t i = 0; i < kRows; ++i) {
    d[x[i]] += act.error[i] * scale;
    d[512 + x[i] % 7] += act.error[i] * scale;
  }
  overflow(d, 768);
  shx_reduce_start(ctx, 0, accumulate);
}

void adamw(void *const *args, int64_t begin, int64_t end) {
  auto *p = static_cast<float *>(args[0]);
  auto *g = static_cast<const float *>(args[1]);
  auto *m = static_cast<float *>(args[2]), *v = static_cast<float *>(args[3]);
  auto *params = static_cast<uint16_t *>(args[4]);
  auto *s = static_cast<const float *>(args[5]);
  if (s[SHX_SKIP] != 0)
    return;
  float limit = s[SHX_CLIP_VALUE];
  for (int64_t i = begin; i < end; ++i) {
    float grad = std::min(std::max(g[i] * s[SHX_CLIP], -limit), limit);
    p[i] -= s[SHX_LR] * s[SHX_WEIGHT_DECAY] * p[i];
    m[i] = s[SHX_BETA1] * m[i] + (1 - s[SHX_BETA1]) * grad;
    v[i] = s[SHX_BETA2] * v[i] + (1 - s[SHX_BETA2]) * grad * grad;
    float root = std::sqrt(v[i] / s[SHX_BIAS_CORRECTION2]) + s[SHX_EPS];
    p[i] -= s[SHX_LR] * (m[i] / s[SHX_BIAS_CORRECTION1]) / root;
    if (params)
      params[i] = roundToBF16(p[i]);
  }
}

} // namespace

extern "C" {

void shx_first_microbatch(ShxContext *ctx) { microbatch(ctx, 0); }
void shx_next_microbatch(ShxContext *ctx) { microbatch(ctx, 1); }
void shx_eval_microbatch(ShxContext *ctx) { forward(ctx); }
void shx_update(ShxContext *ctx) {
#ifdef TABLE_KEPT
  for (int32_t unit : {0, 1, 2})
    shx_gather_free(ctx, unit);
#endif
  for (int32_t unit : {2, 1, 0})
    shx_reduce_wait(ctx, unit);
  shx_clip_grad_norm(ctx);
  for (int32_t unit : {0, 1, 2}) {
    shx_optimizer(ctx, unit, adamw);
#ifdef TABLE_KEPT
    shx_gather_start(ctx, unit);
#endif
  }
}

} // extern "C"
