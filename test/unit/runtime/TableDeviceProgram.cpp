// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The program of TableProgram.cpp for GPUs, written by hand as the compiler
// writes one: host functions that launch the kernels of TableKernels.cu, whose
// PTX is TABLE_PTX. TABLE_FAULT: a program that reads where nothing is.
// TABLE_EARLY: what a step reads first is gathered by the update before.

#include "shardonnx/runtime/ABI.h"
#include <initializer_list>

#define TABLE_TARGET "cuda"
#define TABLE_IN_PLACE "false"
#include "TableManifest.inc"

// The image: bytes of a file, and a null byte behind them.
asm(".section .rodata\n"
    "table_ptx: .incbin \"" TABLE_PTX "\"\n"
    "table_ptx_end: .byte 0\n"
    ".previous\n");
extern "C" const char table_ptx[], table_ptx_end[];

namespace {

constexpr int64_t kParamBytes = kFrozenBytes / 512;

// What lives in the private space: four arrays of 16 floats, and the loss.
float *activation(ShxContext *ctx, int index) {
  return reinterpret_cast<float *>(ctx->privateBase) + 16 * index;
}
enum { Sum, B, C, Error, Loss };

void *param(ShxContext *ctx, int unit, int64_t element = 0) {
  return ctx->params[unit] + element * kParamBytes;
}
void *scalar(ShxContext *ctx, int index) {
  return const_cast<float *>(ctx->scalars + index);
}

void launch(ShxContext *ctx, const ShxDeviceKernel &kernel,
            std::initializer_list<void *> arguments) {
  shx_launch_device(ctx, &kernel, arguments.begin());
}

constexpr ShxDeviceKernel kA = {"table_a", 16, 0, 1, 0, 4};
constexpr ShxDeviceKernel kB = {"table_b", 16, 0, 1, 0, 5};
constexpr ShxDeviceKernel kC = {"table_c", 1, 0, 1, 0, 8};
constexpr ShxDeviceKernel kGrad = {"table_grad", 1, 0, 1, 0, 5};
constexpr ShxDeviceKernel kGradA = {"table_grad_a", 1, 0, 1, 0, 5};
constexpr ShxDeviceKernel kAdamW = {"table_adamw", 64, 0, 0, 64, 7};

#ifdef TABLE_EARLY
constexpr bool kEarly = true;
#else
constexpr bool kEarly = false;
#endif

void forward(ShxContext *ctx, bool early) {
  uint8_t *x = ctx->inputs[0], *y = ctx->inputs[1];
#ifdef TABLE_FAULT
  x = nullptr;
#endif
  if (!early) {
    shx_gather_start(ctx, 0);
    shx_gather_start(ctx, 1);
  }
  shx_gather_wait(ctx, 0);
  launch(ctx, kA, {x, param(ctx, 0), param(ctx, 0, 512), activation(ctx, Sum)});
  shx_gather_free(ctx, 0);
  shx_gather_start(ctx, 2);
  shx_gather_wait(ctx, 1);
  launch(ctx, kB,
         {x, param(ctx, 1), ctx->params[1] + kFrozenBytes, activation(ctx, B),
          activation(ctx, Sum)});
  shx_gather_free(ctx, 1);
  shx_gather_wait(ctx, 2);
  launch(ctx, kC,
         {x, y, param(ctx, 2), activation(ctx, Sum), activation(ctx, B),
          activation(ctx, C), activation(ctx, Error), activation(ctx, Loss)});
  shx_gather_free(ctx, 2);
  shx_loss(ctx, activation(ctx, Loss));
}

void microbatch(ShxContext *ctx, int32_t accumulate) {
  forward(ctx, kEarly && !accumulate);
  uint8_t *x = ctx->inputs[0];
  for (int unit = 2; unit >= 1; --unit) {
    int other = unit == 2 ? 1 : 2;
    shx_gather_start(ctx, other);
    shx_grad_acquire(ctx, unit);
    shx_zero(ctx, ctx->grads[unit], 512 * sizeof(float));
    shx_gather_wait(ctx, other);
    launch(ctx, kGrad,
           {x, activation(ctx, Error), param(ctx, other),
            scalar(ctx, SHX_LOSS_SCALE), ctx->grads[unit]});
    shx_gather_free(ctx, other);
    shx_reduce_start(ctx, unit, accumulate);
  }
  shx_grad_acquire(ctx, 0);
  shx_zero(ctx, ctx->grads[0], 768 * sizeof(float));
  launch(ctx, kGradA,
         {x, activation(ctx, Error), scalar(ctx, SHX_LOSS_SCALE), ctx->grads[0],
          ctx->grads[0] + 512 * sizeof(float)});
  shx_reduce_start(ctx, 0, accumulate);
}

} // namespace

extern "C" {

void shx_first_microbatch(ShxContext *ctx) { microbatch(ctx, 0); }
void shx_next_microbatch(ShxContext *ctx) { microbatch(ctx, 1); }
void shx_eval_microbatch(ShxContext *ctx) { forward(ctx, /*early=*/false); }
void shx_update(ShxContext *ctx) {
  for (int32_t unit : {2, 1, 0})
    shx_reduce_wait(ctx, unit);
  shx_clip_grad_norm(ctx);
  for (int32_t unit : {0, 1, 2}) {
    shx_optimizer_device(ctx, unit, &kAdamW);
    if (kEarly && unit < 2)
      shx_gather_start(ctx, unit);
  }
}

const ShxDeviceImage shx_device_images[] = {
    {SHX_PTX, 80, table_ptx, uint64_t(table_ptx_end - table_ptx) + 1}};
const int32_t shx_device_image_count = 1;
const uint8_t shx_constants[] = {1, 2, 3, 4};
const uint64_t shx_constants_size = sizeof(shx_constants);

} // extern "C"
