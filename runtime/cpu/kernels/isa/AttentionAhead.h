// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows of operands that are asked for while something else is computed: a head
// is a short piece of each row, and the CPU does not see where the next piece
// lies.

#ifndef SHARDONNX_RUNTIME_CPU_ISA_ATTENTIONAHEAD_H
#define SHARDONNX_RUNTIME_CPU_ISA_ATTENTIONAHEAD_H

#include "AttentionUnits.h"

namespace shardonnx::rt::SHX_ISA {

class Ahead {
public:
  /// Joins the end of the queue; what finds no place is read when it is needed.
  void add(const Rows &rows) {
    if (rows.count > 0 && end < kMost)
      queue[end++] = rows;
  }

  /// Asks for some more rows of the queue: a few lines after each product, so
  /// that what the products themselves read need not wait.
  void fetch() {
    for (int64_t lines = 0; lines < kLinesAtOnce && begin < end;) {
      Rows &from = queue[begin];
      const char *row = static_cast<const char *>(from.data);
      int64_t bytes = from.dim * (from.dtype == SHX_F32 ? 4 : 2);
      for (int64_t at = 0; at < bytes; at += kLine, ++lines)
        __builtin_prefetch(row + at);
      __builtin_prefetch(row + bytes - 1);
      from.data = from.row(1);
      if (--from.count == 0 && ++begin == end)
        begin = end = 0;
    }
  }

private:
  static constexpr int64_t kLine = 64, kLinesAtOnce = 12;
  static constexpr int kMost = 16;
  Rows queue[kMost];
  int begin = 0, end = 0;
};

} // namespace shardonnx::rt::SHX_ISA

#endif // SHARDONNX_RUNTIME_CPU_ISA_ATTENTIONAHEAD_H
