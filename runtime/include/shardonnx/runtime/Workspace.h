// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How much workspace each library call needs, in bytes: asked by the memory
// planner at compile time, relied on by the runtime. Independent of the number
// of threads; what grows with threads is the scratch of Scratch below.

#ifndef SHARDONNX_RUNTIME_WORKSPACE_H
#define SHARDONNX_RUNTIME_WORKSPACE_H

#include "shardonnx/runtime/ABI.h"
#include <cstdint>

namespace shardonnx {

// Operands that are not f32 are widened into the workspace, a non-f32 or
// accumulated-in-lower-precision result is computed there first.
int64_t gemmWorkspaceBytes(const ShxGemm &desc);
int64_t attentionGradWorkspaceBytes(const ShxAttention &desc);
int64_t linearCrossEntropyWorkspaceBytes(const ShxLinearCrossEntropy &desc);

// Rows per chunk: 16 MiB of f32 logits, but at least 256 rows, below which the
// products lose more than 5 % of their speed. A multiple of 16, at most `rows`.
int64_t linearCrossEntropyChunkRows(int64_t rows, int64_t vocab);

// Scratch that each thread of the pool keeps for these calls.
int64_t attentionScratchBytes(const ShxAttention &desc);
int64_t attentionGradScratchBytes(const ShxAttention &desc);
int64_t crossEntropyScratchBytes(const ShxCrossEntropy &desc);

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_WORKSPACE_H
