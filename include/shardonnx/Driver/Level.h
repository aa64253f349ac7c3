// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The levels that a model passes through, by the names that `--emit` and
// `--dump-dir` use. No MLIR here.

#ifndef SHARDONNX_DRIVER_LEVEL_H
#define SHARDONNX_DRIVER_LEVEL_H

#include "shardonnx/runtime/Spelling.h"

namespace shardonnx {

/// Where a compilation can stop, in order.
enum class Level { Onnx, NN, Grad, FSDP, Schedule, Memory, PTX, LLVM, Object };

template <> struct Spellings<Level> {
  static constexpr Spelling<Level> table[] = {
      {Level::Onnx, "onnx"},
      {Level::NN, "nn"},
      {Level::Grad, "grad"},
      {Level::FSDP, "fsdp"},
      {Level::Schedule, "schedule"},
      {Level::Memory, "memory"},
      {Level::PTX, "ptx", "with --target=cuda: the kernels"},
      {Level::LLVM, "llvm"},
      {Level::Object, "obj"}};
};

} // namespace shardonnx

#endif // SHARDONNX_DRIVER_LEVEL_H
