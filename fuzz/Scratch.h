// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The readers take paths: a folder for the files of one target, in memory where
// the machine has such a file system, emptied when the process ends.

#ifndef SHARDONNX_FUZZ_SCRATCH_H
#define SHARDONNX_FUZZ_SCRATCH_H

#include <cstddef>
#include <string>

namespace shardonnx::fuzz {

class Scratch {
public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  /// Writes a file, over what it held, and returns its path.
  std::string write(const std::string &name, const void *bytes, size_t size);

  const std::string folder;
};

} // namespace shardonnx::fuzz

#endif // SHARDONNX_FUZZ_SCRATCH_H
