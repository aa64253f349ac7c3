// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A compiled graph's memory, and the process that runs it.

#ifndef SHARDONNX_LIB_DRIVER_EVALRUN_H
#define SHARDONNX_LIB_DRIVER_EVALRUN_H

#include "EvalArrays.h"
#include "shardonnx/Object/Object.h"

namespace shardonnx {

/// A buffer of the program, in the order of ShxContext::inputs.
struct EvalBuffer {
  std::string name;
  mlir::RankedTensorType type;
  std::string file; // that its bytes come from; empty: none, or `value`
  int64_t offset = 0;
  mlir::DenseElementsAttr value; // instead of a file
  std::string output;            // path that it is written to; empty: none
  /// Ids lie in [-limit, limit) where limit is not 0, labels in [0, limit) or
  /// are the one that is ignored.
  int64_t limit = 0;
  std::optional<int64_t> ignoredLabel; // of labels
};

/// What shardonnx-eval is given.
struct EvalJob {
  llvm::ArrayRef<ObjectBytes> objects;
  std::vector<EvalBuffer> buffers;
  int64_t privateBytes = 0;
};

/// Runs the program; each output's file then holds a .npy.
mlir::LogicalResult runEvalJob(EvalJob &job, Diagnostics &diagnostics);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_EVALRUN_H
