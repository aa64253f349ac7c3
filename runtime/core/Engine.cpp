// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the engines of all devices do alike.

#include "Engine.h"

namespace shardonnx::rt {

MemoryUse largestUse(Control &control) {
  MemoryUse use;
  for (int r = 0; r < control.ranks(); ++r) {
    RankBlock &block = control.block(r);
    use.planned = std::max(use.planned, block.peakBytes.load());
    use.measured = std::max(use.measured, block.pssBytes.load());
  }
  return use;
}

} // namespace shardonnx::rt
