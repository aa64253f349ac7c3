// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the products of rows with the matrices they choose are cut into tasks:
// by sizes alone, so that results do not depend on the number of threads. The
// compiler counts the scratch.

#ifndef SHARDONNX_RUNTIME_GROUPEDPLAN_H
#define SHARDONNX_RUNTIME_GROUPEDPLAN_H

#include "shardonnx/runtime/IndexABI.h"

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

// A thread's scratch in floats: packed rows, the result's rows, and what has to
// be widened of a matrix.
struct GroupedScratch {
  int64_t a, c, matrix, floats;
};

constexpr int64_t wholeLines(int64_t floats) { return (floats + 15) / 16 * 16; }

constexpr GroupedScratch groupedScratch(const ShxGroupedGemm &d) {
  GroupedScratch s{};
  int64_t rows = atMost(d.rows, kGroupedRows);
  int64_t columns = atMost(d.width, kGroupedColumns);
  s.a = 0;
  s.c = wholeLines(rows * d.depth);
  s.matrix = s.c + wholeLines(rows * columns);
  s.floats = s.matrix;
  if (d.dtypeMatrix != SHX_F32)
    s.floats += wholeLines(d.depth * columns);
  return s;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_GROUPEDPLAN_H
