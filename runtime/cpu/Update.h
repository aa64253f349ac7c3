// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walking a unit's owned slice with the optimizer's kernels.

#ifndef SHARDONNX_RUNTIME_CPU_UPDATE_H
#define SHARDONNX_RUNTIME_CPU_UPDATE_H

#include "Context.h"
#include <algorithm>

namespace shardonnx::rt {

/// Runs a kernel of the optimizer over a piece of the slice.
void runOptimizer(Context &context, const UnitState &unit,
                  const OptimizerBuffers &buffers, bool decay, ShxKernel kernel,
                  const char *name);

/// A part of an offloaded slice is gone when the step ends, and memory with it:
/// what the step takes is seen here.
void measureWithPart(Context &context, int64_t elements);

/// Calls visit(part) with all of the slice; of an offloaded one part by part,
/// the next one being read meanwhile.
template <typename Visit>
void forParts(Context &context, size_t unit, Visit visit) {
  const State &state = *context.state;
  int64_t count = state.units[unit].owned.size();
  if (!state.offloads)
    return visit(Interval{0, count});
  double begun = monotonicSeconds();
  for (int64_t begin = 0; begin < count; begin += kFilePartElements) {
    int64_t end = std::min(begin + kFilePartElements, count);
    if (end < count)
      state.prefetch(unit, end);
    else
      state.prefetch(unit + 1, 0);
    visit(Interval{begin, end});
    measureWithPart(context, end - begin);
    state.evict(unit, begin);
  }
  context.offloadSeconds += monotonicSeconds() - begun;
}

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_UPDATE_H
