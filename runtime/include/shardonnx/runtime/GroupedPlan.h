// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the products of rows with the matrices they choose are cut into tasks:
// by sizes alone, so that results do not depend on the number of threads. The
// compiler counts the scratch.

#ifndef SHARDONNX_RUNTIME_GROUPEDPLAN_H
#define SHARDONNX_RUNTIME_GROUPEDPLAN_H

#include "shardonnx/runtime/IndexABI.h"
#include "shardonnx/runtime/ProductPlan.h"
#include <initializer_list>

namespace shardonnx::rt {

constexpr int64_t kGroupedRows = 128;    // of one group, packed at once
constexpr int64_t kGroupedColumns = 256; // of the result of a task

constexpr int64_t atMost(int64_t value, int64_t most) {
  return value < most ? value : most;
}

// Bytes for the group of each row, and for where the next row of each goes.
constexpr int64_t groupRowsScratch(const ShxGroupRows &d) {
  return (d.rows + d.groups) * 4;
}

// A thread's scratch in bytes: gathered rows, the result's rows in f32 (or, for
// the gradient, those that are gathered of it), the sums of a gradient that is
// stored in less, and the workspace of the product.
struct GroupedScratch {
  int64_t a, c, sums, product, bytes;
};

constexpr int64_t wholeLines(int64_t bytes) { return wholeSteps(bytes, 64); }

constexpr GroupedScratch groupedScratch(const ShxGroupedGemm &d,
                                        bool gradient) {
  GroupedScratch s{};
  int64_t rows = atMost(d.rows, kGroupedRows);
  int64_t columns = atMost(d.width, kGroupedColumns);
  s.a = 0;
  s.c = wholeLines(rows * d.depth * (d.dtypeA == SHX_F32 ? 4 : 2));
  s.sums = s.c + wholeLines(rows * columns * 4);
  s.product = s.sums;
  if (gradient && d.dtypeMatrix != SHX_F32)
    s.product += wholeLines(d.depth * columns * 4);
  // Fewer rows may have the larger workspace: chunks are taller.
  int64_t product = 0;
  for (int64_t lines = 1; lines <= rows; ++lines)
    for (int64_t width : {columns, d.width % kGroupedColumns}) {
      ProductPlan plan = gradient ? planProduct(d.depth, width, lines, SHX_F32)
                                  : planProduct(lines, width, d.depth, SHX_F32);
      product = product < plan.bytes ? plan.bytes : product;
    }
  s.bytes = s.product + product;
  return s;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_GROUPEDPLAN_H
