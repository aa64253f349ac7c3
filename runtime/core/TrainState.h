// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How far a run has come, beside its weights and moments: what a checkpoint
// stores so that a run goes on from it as if it had never stopped.

#ifndef SHARDONNX_RUNTIME_TRAINSTATE_H
#define SHARDONNX_RUNTIME_TRAINSTATE_H

#include <cstdint>

namespace shardonnx::rt {

struct TrainState {
  int64_t step = 0;           // finished steps
  int64_t optimizerSteps = 0; // of them, those that changed the weights
  int64_t samples = 0;        // consumed
  double lossScale = 1;       // of float16 programs
  int64_t cleanSteps = 0;     // since lossScale last changed
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_TRAINSTATE_H
