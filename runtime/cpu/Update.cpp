// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The update's entry points: the gradient norm, and the optimizer over the
// owned slices.

#include "Context.h"
#include "ReduceKernels.h"
#include "kernels/Pool.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace shardonnx::rt {
namespace {

constexpr int64_t kOptimizerGrain = 1 << 12;

// Of all that this rank counts of the unit: from sums that the reduction has
// taken, else from the gradients.
double squaresOf(const UnitState &u) {
  double sum = 0;
  size_t taken = 0;
  std::vector<double> chunks;
  u.forCounted([&](const float *gradients, int64_t count) {
    auto length = static_cast<size_t>(normChunks(count));
    const double *squares = u.squares.data() + taken;
    if (u.squares.empty()) {
      chunks.resize(length);
      squareSums(gradients, count, chunks.data(), /*parallel=*/true);
      squares = chunks.data();
    } else {
      taken += length;
    }
    double piece = 0;
    for (size_t c = 0; c < length; ++c)
      piece += squares[c];
    sum += piece;
  });
  return sum;
}

// Elements of the owned slice, interval by interval.
void updatePart(Context &context, const UnitState &u, const Interval &part,
                ShxKernel kernel) {
  u.forPieces(part, [&](const Interval &cut, bool decay) {
    OptimizerBuffers to = u.optimizerBuffers(cut);
    void *args[] = {
        to.master,     to.gradient,
        to.moments[0], to.moments[1],
        to.params,     decay ? context.values : context.valuesWithoutDecay,
        to.scales[0],  to.scales[1],
        &to.piece};
    int64_t step = u.blockwise() ? kStateBlock : 1;
    shx_launch(&context, kernel, args, (to.piece.end + step - 1) / step,
               kOptimizerGrain / step, "optimizer");
  });
}

// Part by part, the next one being read meanwhile.
void updateOffloaded(Context &context, size_t unit, ShxKernel kernel) {
  const State &state = *context.state;
  const UnitState &u = state.units[unit];
  double begun = monotonicSeconds();
  int64_t count = u.owned.size();
  for (int64_t begin = 0; begin < count; begin += kOffloadElements) {
    int64_t end = std::min(begin + kOffloadElements, count);
    if (end < count)
      state.prefetch(unit, end);
    else
      state.prefetch(unit + 1, 0);
    updatePart(context, u, {begin, end}, kernel);
    state.evict(unit, begin);
  }
  context.offloadSeconds += monotonicSeconds() - begun;
}

} // namespace
} // namespace shardonnx::rt

using namespace shardonnx::rt;

extern "C" {

void shx_clip_grad_norm(ShxContext *ctx) {
  Context &context = contextOf(ctx);
  double mine = 0;
  {
    TraceScope scope(ctx, "grad_norm");
    for (const UnitState &u : context.state->units)
      mine += squaresOf(u);
  }
  // The gradients have the loss scale.
  auto unscale = static_cast<double>(context.values[SHX_CLIP]);
  context.gradNorm = std::sqrt(context.communicator->sumNorms(mine)) * unscale;
  double factor = 1; // as torch.nn.utils.clip_grad_norm_ does
  if (context.clipGradNorm > 0)
    factor = std::min(context.clipGradNorm / (context.gradNorm + 1e-6), 1.0);
  context.values[SHX_CLIP] = static_cast<float>(factor * unscale);
  context.values[SHX_SKIP] = std::isfinite(context.gradNorm) ? 0 : 1;
}

void shx_optimizer(ShxContext *ctx, int32_t unit, ShxKernel kernel) {
  Context &context = contextOf(ctx);
  auto index = static_cast<size_t>(unit);
  UnitState &u = context.state->units[index];
  std::memcpy(context.valuesWithoutDecay, context.values,
              sizeof(context.values));
  context.valuesWithoutDecay[SHX_WEIGHT_DECAY] = 0;
  if (*context.beforeUpdate)
    (*context.beforeUpdate)(index);
  context.communicator->updateBegin(index);
  if (context.state->offloads)
    updateOffloaded(context, index, kernel);
  else
    updatePart(context, u, {0, u.owned.size()}, kernel);
  context.communicator->updateEnd(index);
}

} // extern "C"
