// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who computes attention on CUDA: asked by the compiler, which says it in its
// log and plans the workspace, and by the runtime, which does it. Needs neither
// a GPU nor CUDA.

#ifndef SHARDONNX_RUNTIME_CUDAATTENTION_H
#define SHARDONNX_RUNTIME_CUDAATTENTION_H

#include "shardonnx/runtime/ABI.h"

namespace shardonnx {

// Why cuDNN is not asked for this attention, in words that complete "…because";
// null when it is. docs/cuda.md tells what was tried.
const char *cudnnRefusal(const ShxAttention &desc, bool hasMask, bool grad);

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_CUDAATTENTION_H
