// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrays of f32, bf16 or f16 to and from f32.

#ifndef SHARDONNX_RUNTIME_CONVERT_H
#define SHARDONNX_RUNTIME_CONVERT_H

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt {

/// to[i] = from[i] in dtype, rounded to nearest even.
void narrow(ShxDType dtype, uint8_t *to, const float *from, int64_t count);
/// to[i] = from[i], which has the dtype and any alignment.
void widen(ShxDType dtype, float *to, const uint8_t *from, int64_t count);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CONVERT_H
