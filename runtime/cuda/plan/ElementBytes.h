// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The size of an element, for the plans of workspaces.

#ifndef SHARDONNX_RUNTIME_CUDA_ELEMENTBYTES_H
#define SHARDONNX_RUNTIME_CUDA_ELEMENTBYTES_H

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt::cuda {

constexpr int64_t bytesOf(int32_t dtype) {
  return dtype == SHX_F32 || dtype == SHX_I32    ? 4
         : dtype == SHX_BF16 || dtype == SHX_F16 ? 2
         : dtype == SHX_I64                      ? 8
                                                 : 1;
}

/// What only products multiply, with steps beside it.
constexpr bool isF8(int32_t dtype) {
  return dtype == SHX_F8E4M3 || dtype == SHX_F8E5M2;
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_ELEMENTBYTES_H
