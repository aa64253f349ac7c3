// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ABI.h's calls that copy activations to pinned host memory and back (CUDA
// only). Its conventions hold here; a change is a change of SHX_ABI_VERSION.

#ifndef SHARDONNX_RUNTIME_HOSTABI_H
#define SHARDONNX_RUNTIME_HOSTABI_H

#include "shardonnx/runtime/ABI.h"

#ifdef __cplusplus
extern "C" {
#endif

// Copies run beside the work, those of each direction in the order of their
// starts. `copy` numbers those of a function; its four calls come in the order
// in which they stand here.
//
// Copies what the work has written so far to hostOffset of the host space.
void shx_offload_start(ShxContext *ctx, int64_t copy, const void *buffer,
                       int64_t hostOffset, int64_t bytes);
// The work behind it may write into the buffer.
void shx_offload_wait(ShxContext *ctx, int64_t copy);
// Copies it back, into a buffer that the work so far has done with.
void shx_reload_start(ShxContext *ctx, int64_t copy, void *buffer,
                      int64_t hostOffset, int64_t bytes);
// The work behind it may read the buffer.
void shx_reload_wait(ShxContext *ctx, int64_t copy);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // SHARDONNX_RUNTIME_HOSTABI_H
