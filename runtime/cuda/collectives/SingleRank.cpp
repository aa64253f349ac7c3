// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SingleRank.h.

#include "SingleRank.h"
#include "../launch/Launch.h"
#include "../state/Slices.h"
#include "../state/State.h"

namespace shardonnx::rt::cuda {

void SingleRank::gatherStart(size_t unit) {
  const UnitState &u = context.state->units[unit];
  if (u.inPlace)
    return;
  bringOwned(context, context.compute, u, u.gathered);
  bringFrozen(context, context.compute, u,
              u.gathered + u.unit->frozenOffsetBytes);
}

void SingleRank::reduceStart(size_t unit, bool accumulate) {
  const UnitState &u = context.state->units[unit];
  if (context.state->plan.gradientsInPlace)
    return;
  if (squaresWithSum(context, u))
    return accumulateCounted(context, context.compute, unit, accumulate);
  accumulateSlice(context, context.compute, u.unit->reduceType, u.gradients,
                  u.reduced, u.unit->length, accumulate);
}

void SingleRank::allGather(const double *mine, double *all, size_t count) {
  copyBytes(context, context.compute, all, mine,
            static_cast<int64_t>(count * sizeof(double)));
}

} // namespace shardonnx::rt::cuda
