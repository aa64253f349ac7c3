// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a matrix product on a CPU is cut into chunks whose packed operands fit
// into a workspace. Depends on shapes alone, never on the machine: the compiler
// plans memory by it, and a workspace holds the panels of any instruction set.

#ifndef SHARDONNX_RUNTIME_PRODUCTPLAN_H
#define SHARDONNX_RUNTIME_PRODUCTPLAN_H

#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt {

/// Of one packed operand: an element is used some thousand times before it is
/// packed again, and both operands' panels stay in the cache that cores share.
constexpr int64_t kChunkElements = 3 << 19;
constexpr int64_t kChunkDepth = 1536;
/// Chunks end between the tiles of every instruction set.
constexpr int64_t kChunkLines = 96;
constexpr int64_t kDepthStep = 32;

struct ProductPlan {
  int64_t rows, columns, depth; // of a chunk
  int64_t b, sums;              // offsets in bytes; A is first
  int64_t bytes;
};

constexpr int64_t wholeSteps(int64_t size, int64_t step) {
  return (size + step - 1) / step * step;
}

/// `size` in equal parts of at most `most`, all but the last one a multiple of
/// `step`.
constexpr int64_t evenPart(int64_t size, int64_t most, int64_t step) {
  if (size <= most)
    return size;
  int64_t parts = (size + most - 1) / most;
  return wholeSteps((size + parts - 1) / parts, step);
}

/// How many lines of `depth` a chunk may have.
constexpr int64_t chunkLines(int64_t lines, int64_t depth) {
  int64_t most = kChunkElements / (depth > 0 ? depth : 1);
  most = most / kChunkLines * kChunkLines;
  return evenPart(lines, most < kChunkLines ? kChunkLines : most, kChunkLines);
}

/// Panels of A, then of B, then the sums in f32 of a result that is stored in
/// less and whose depth is cut.
constexpr ProductPlan planProduct(int64_t m, int64_t n, int64_t k,
                                  int32_t dtypeC) {
  ProductPlan plan{};
  plan.depth = evenPart(k, kChunkDepth, kDepthStep);
  plan.rows = chunkLines(m, plan.depth);
  plan.columns = chunkLines(n, plan.depth);
  // Panels have 4, 8 or 32 rows, 24, 32 or 48 columns, in f32 or, to a whole
  // step of depth, in bf16.
  int64_t line = wholeSteps(plan.depth, kDepthStep) * 2;
  if (line < plan.depth * 4)
    line = plan.depth * 4;
  int64_t columns = wholeSteps(plan.columns, 48);
  if (columns < wholeSteps(plan.columns, 32))
    columns = wholeSteps(plan.columns, 32);
  plan.b = wholeSteps(plan.rows, 32) * line;
  plan.sums = plan.b + columns * line;
  plan.bytes = plan.sums;
  if (dtypeC != SHX_F32 && plan.depth < k)
    plan.bytes += wholeSteps(plan.rows * plan.columns, 16) * 4;
  return plan;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_PRODUCTPLAN_H
