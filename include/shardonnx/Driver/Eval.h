// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx eval`: a graph as it is, run once. No MLIR here, so that the
// command line's parser need not compile against it.

#ifndef SHARDONNX_DRIVER_EVAL_H
#define SHARDONNX_DRIVER_EVAL_H

#include "shardonnx/runtime/Choices.h"

#include <string>
#include <vector>

namespace shardonnx {

struct EvalOptions {
  std::string model;
  std::vector<std::string> inputs; // NAME=FILE.npy
  std::string outputDir;
  bool gradients = false;
  DropoutMode dropout = DropoutMode::Graph;
  bool strictNumerics = false;
};

/// Returns an exit code; errors have been printed by then.
int runEval(const EvalOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_EVAL_H
