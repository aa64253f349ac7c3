// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See GemmEpilogue.h.

#include "GemmEpilogue.h"
#include "../kernels/GemmShapes.h"
#include "../launch/Launch.h"
#include "../plan/GemmPlan.h"
#include <algorithm>

namespace shardonnx::rt::cuda {
namespace {

constexpr int kPackElements = 8; // that kernels load and store at once

// By dtype; launches keep the names.
constexpr const char *kEpilogue[] = {"shx_k_gemm_epilogue_f32",
                                     "shx_k_gemm_epilogue_bf16",
                                     "shx_k_gemm_epilogue_f16"};
constexpr const char *kColumnSums[] = {
    "shx_k_column_sums_f32", "shx_k_column_sums_bf16", "shx_k_column_sums_f16"};
constexpr const char *kColumnTotals[] = {"shx_k_column_totals_f32",
                                         "shx_k_column_totals_bf16",
                                         "shx_k_column_totals_f16"};

bool packed(std::initializer_list<const void *> addresses, int64_t columns,
            int64_t ld) {
  uintptr_t bits = 0;
  for (const void *address : addresses)
    bits |= reinterpret_cast<uintptr_t>(address);
  return (bits & 15) == 0 && columns % kPackElements == 0 &&
         ld % kPackElements == 0;
}

// to[column] = the sum of the column's `rows` elements, in an order that
// depends on the shape alone.
void columnSums(Context &context, const void *from, int32_t dtype, int64_t rows,
                int64_t columns, int64_t ld, void *to, int32_t dtypeTo,
                void *workspace, int64_t bytes) {
  int64_t most = bytes / (columns * int64_t(sizeof(float)));
  int64_t splits =
      std::max<int64_t>(1, std::min(most, blocksFor(rows, kRowsPerSplit)));
  splits = std::min(splits, kGemmColumnSplits); // a second kernel adds these
  int64_t rowsPerSplit = blocksFor(rows, splits);
  splits = blocksFor(rows, rowsPerSplit);
  auto *partial = static_cast<float *>(workspace);
  int64_t blocks = blocksFor(columns, kColumnsPerBlock);
  launch(context, kColumnSums[dtype], Dim(blocks, splits), kColumnsPerBlock, 0,
         from, partial, rows, columns, ld, rowsPerSplit,
         int32_t(packed({from}, columns, ld)));
  launch(context, kColumnTotals[dtypeTo], blocks, kColumnsPerBlock, 0,
         static_cast<const float *>(partial), to, columns, splits);
}

} // namespace

void enqueueEpilogue(Context &context, const GemmProblem &p,
                     const GemmOperands &operands, void *workspace) {
  int64_t rows = p.columns, columns = p.rows; // the library's are transposed
  if (p.epilogue == SHX_EPILOGUE_BGRAD) {
    if (p.transLeft)
      fail("a product's bias gradient is asked for from a transposed operand, "
           "which this runtime has no kernel for: recompile with a compiler of "
           "the same version");
    columnSums(context, operands.b, p.dtypeIn, p.k, columns, p.ldLeft,
               operands.bias, p.dtypeOut, workspace, p.workspaceBytes);
    return;
  }
  bool packs =
      packed({operands.c, operands.bias, operands.aux}, columns, p.ldResult);
  int64_t count = rows * (packs ? columns / kPackElements : columns);
  launch(context, kEpilogue[p.dtypeOut], blocksFor(count, kEpilogueThreads),
         kEpilogueThreads, 0, operands.c,
         static_cast<const void *>(operands.bias), operands.aux, rows, columns,
         p.ldResult, p.epilogue, int32_t(packs));
}

} // namespace shardonnx::rt::cuda
