// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a run's log (`--log FILE.jsonl`) says of memory, to stand beside what
// was predicted.

#ifndef SHARDONNX_LIB_DRIVER_RUNLOG_H
#define SHARDONNX_LIB_DRIVER_RUNLOG_H

#include "mlir/Support/LLVM.h"
#include "shardonnx/Support/Diagnostics.h"

#include <optional>
#include <string>
#include <vector>

namespace shardonnx {

/// Bytes of the largest rank, the most over the steps of the log.
struct RunMemory {
  int64_t steps = 0;
  int64_t tokens = 0;   // of a step, all ranks; 0: not told
  int64_t planned = 0;  // peak_bytes
  int64_t measured = 0; // pss_bytes
  /// The GPU's context and what it loaded; not part of `measured`.
  std::optional<int64_t> context;
  /// Of the steps at equal distances, the last one among them.
  struct Point {
    int64_t step = 0;
    std::optional<double> loss, milliseconds, tokensPerSecond;
    int64_t measured = 0;
  };
  std::vector<Point> points;
};

/// Fails, with the line at fault, if the file is not such a log.
mlir::FailureOr<RunMemory> readRunLog(const std::string &path,
                                      Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_RUNLOG_H
