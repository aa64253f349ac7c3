// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a run's `--trace FILE.json` measured of communication, for `inspect` to
// show beside what it predicts.

#ifndef SHARDONNX_LIB_DRIVER_TRACELOG_H
#define SHARDONNX_LIB_DRIVER_TRACELOG_H

#include "shardonnx/Support/Diagnostics.h"

#include "llvm/ADT/StringMap.h"

#include <string>

namespace shardonnx {

/// Milliseconds per step, means over the trace's ranks.
struct MeasuredExposure {
  struct Unit {
    double gather = 0, reduce = 0, exposed = 0;
  };
  std::string program; // of the run, as its file was called
  int64_t ranks = 0;
  llvm::StringMap<Unit> units;
  double exposed = 0; // also of what no unit has: the norm, the loss
};

/// Reads the summary at the end of a trace. On failure the error has been
/// printed.
mlir::FailureOr<MeasuredExposure> readTrace(const std::string &path,
                                            Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_TRACELOG_H
