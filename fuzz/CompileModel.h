// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model of any content through a whole compilation, in this process: import,
// raise, differentiate, fuse, shard, plan, lower to LLVM IR.

#ifndef SHARDONNX_FUZZ_COMPILEMODEL_H
#define SHARDONNX_FUZZ_COMPILEMODEL_H

#include <string>

namespace shardonnx::fuzz {

enum class Made {
  Training, // the program that trains the model
  Gradients // the one that computes its outputs and all gradients once
};

struct Compiled {
  bool done = false;    // LLVM IR was made
  std::string messages; // what was said
  /// What is wrong with how it ended: a message of several lines, or a fault of
  /// the compiler; empty if nothing.
  std::string complaint;
};

/// Compiles the model in the file `path`, whose bytes these are. Dimensions
/// that are not known get small numbers.
Compiled compileModel(const std::string &path, const std::string &bytes,
                      Made made);

} // namespace shardonnx::fuzz

#endif // SHARDONNX_FUZZ_COMPILEMODEL_H
