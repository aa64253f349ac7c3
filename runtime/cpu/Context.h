// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What generated code holds a pointer to: the head that it knows (ShxContext),
// and behind it what the runtime's entry points need.

#ifndef SHARDONNX_RUNTIME_CPU_CONTEXT_H
#define SHARDONNX_RUNTIME_CPU_CONTEXT_H

#include "AxisGroup.h"
#include "Communicator.h"
#include "shardonnx/runtime/ABI.h"

namespace shardonnx::rt {

class Muon;

struct Context : ShxContext {
  State *state = nullptr;
  Communicator *communicator = nullptr;
  AxisGroup *axis = nullptr;
  Muon *muon = nullptr;   // null: the program has no matrices of its
  Trace *trace = nullptr; // null: none
  float values[SHX_NUM_SCALARS] = {}; // ShxContext::scalars
  float valuesWithoutDecay[SHX_NUM_SCALARS] = {};
  /// The engine's; may be empty. Before a unit's optimizer.
  const std::function<void(size_t unit)> *beforeUpdate = nullptr;
  double clipGradNorm = 0;   // 0: off
  double gradNorm = 0;       // of the step, before clipping
  double offloadSeconds = 0; // of the step: updates of what is offloaded
  /// Elements of the largest part of an offloaded slice so far, and the
  /// process's proportional set size while it was in memory.
  int64_t largestPart = 0, pssWithPart = 0;
  double lossSum = 0; // of the microbatches since it was cleared
};

inline Context &contextOf(ShxContext *context) {
  return *static_cast<Context *>(context);
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_CONTEXT_H
