// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory one worker needs to run blocks of a launch, one after the other.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_BLOCKRUNNER_H
#define SHARDONNX_TEST_CUDA_EMULATOR_BLOCKRUNNER_H

#include "Access.h"
#include "Machine.h"
#include <memory>
#include <vector>

namespace shardonnx::emulator {

class BlockRunner {
public:
  explicit BlockRunner(const Launch &launch);
  /// Throws Fault.
  void run(const Launch &launch, uint64_t linear);

  uint64_t executed = 0;

private:
  void prepare(const Launch &launch, uint64_t linear);
  void fillSpecials(const Launch &launch, Warp &warp);

  Block block;
  GlobalView view;
  SharedShadow shadow;
  struct Free {
    void operator()(char *p) const;
  };
  using Memory = std::unique_ptr<char, Free>;
  static Memory allocate(size_t bytes);
  Memory frames, specials, shared, locals;
};

} // namespace shardonnx::emulator

#endif
