// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The update's entry points: the gradient norm, and the optimizer over the
// owned slices.

#include "Context.h"
#include "kernels/Pool.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace shardonnx::rt {
namespace {

// Chunks are fixed, and their sums are added in order: the same bits with any
// number of threads.
constexpr int64_t kNormChunk = 1 << 15;
constexpr int64_t kOptimizerGrain = 1 << 12;

double squares(const float *x, int64_t count) {
  constexpr int64_t kLanes = 8;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j)
      sums[j] += static_cast<double>(x[i + j]) * static_cast<double>(x[i + j]);
  double sum = 0;
  for (; i < count; ++i)
    sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (double lane : sums)
    sum += lane;
  return sum;
}

double squaresOnPool(const float *x, int64_t count) {
  int64_t chunks = (count + kNormChunk - 1) / kNormChunk;
  std::vector<double> sums(static_cast<size_t>(chunks));
#pragma omp parallel for schedule(static) if (chunks > 1)
  for (int64_t c = 0; c < chunks; ++c)
    sums[static_cast<size_t>(c)] = squares(
        x + c * kNormChunk, std::min(kNormChunk, count - c * kNormChunk));
  double sum = 0;
  for (double part : sums)
    sum += part;
  return sum;
}

// Elements of the owned slice, interval by interval.
void updatePart(Context &context, const UnitState &u, const Interval &part,
                ShxKernel kernel) {
  u.forPieces(part, [&](const Interval &cut, bool decay) {
    auto [master, gradient, moment1, moment2] = u.optimizerBuffers(cut.begin);
    void *args[] = {master, gradient, moment1, moment2,
                    decay ? context.values : context.valuesWithoutDecay};
    shx_launch(&context, kernel, args, cut.size(), kOptimizerGrain,
               "optimizer");
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
      u.forCounted([&](const float *gradients, int64_t count) {
        mine += squaresOnPool(gradients, count);
      });
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
