// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The update's entry points: the gradient norm, and the optimizer over the
// owned slices.

#include "Update.h"
#include "Muon.h"
#include "ProcessMemory.h"
#include "ReduceKernels.h"
#include "kernels/Pool.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace shardonnx::rt {
namespace {

constexpr int64_t kOptimizerGrain = 1 << 12;

// Of all that this rank counts of the unit and no other rank of the tensor axis
// does: from sums that the reduction has taken, else from the gradients.
double squaresOf(const UnitState &u) {
  double sum = 0;
  size_t taken = 0;
  std::vector<double> chunks;
  u.forCounted([&](const float *gradients, int64_t count, bool repeated) {
    auto length = static_cast<size_t>(normChunks(count));
    const double *squares = u.squares.data() + taken;
    if (u.squares.empty() && !repeated) {
      chunks.resize(length);
      squareSums(gradients, count, chunks.data(), /*parallel=*/true);
      squares = chunks.data();
    } else {
      taken += length;
    }
    if (repeated)
      return;
    double piece = 0;
    for (size_t c = 0; c < length; ++c)
      piece += squares[c];
    sum += piece;
  });
  return sum;
}

// What is done before anything of the unit is updated.
void beginUpdate(Context &context, size_t unit) {
  std::memcpy(context.valuesWithoutDecay, context.values,
              sizeof(context.values));
  context.valuesWithoutDecay[SHX_WEIGHT_DECAY] = 0;
  if (*context.beforeUpdate)
    (*context.beforeUpdate)(unit);
}

// What gathers read of whole blocks, where the kernel does not write it.
void roundParams(Context &context, const UnitState &u, const Interval &part) {
  const Manifest::Unit &unit = *u.unit;
  if (unit.gatherType == GatherDtype::Param)
    return;
  TraceScope scope(&context, "round parameters");
  roundSlice(u.params + part.begin * dtypeBytes(unit.paramType), unit,
             u.master + part.begin * u.elementBytes(StateArray::Master),
             part.size(), /*parallel=*/true);
}

} // namespace

void runOptimizer(Context &context, const UnitState &u,
                  const OptimizerBuffers &to, bool decay, ShxKernel kernel,
                  const char *name) {
  ShxPiece piece = to.piece;
  void *args[] = {
      to.master,     to.gradient,
      to.moments[0], to.moments[1],
      to.params,     decay ? context.values : context.valuesWithoutDecay,
      to.scales[0],  to.scales[1],
      &piece};
  int64_t step = u.blockwise() ? kStateBlock : 1;
  shx_launch(&context, kernel, args, (piece.end + step - 1) / step,
             kOptimizerGrain / step, name);
}

// Reading it is slow, and once is enough.
void measureWithPart(Context &context, int64_t elements) {
  if (elements <= context.largestPart)
    return;
  context.largestPart = elements;
  context.pssWithPart = proportionalSetBytes();
}

} // namespace shardonnx::rt

using namespace shardonnx;
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
  const UnitState &u = context.state->units[index];
  beginUpdate(context, index);
  context.communicator->updateBegin(index);
  forParts(context, index, [&](const Interval &part) {
    // Muon's matrices have their own kernels.
    u.forPieces(behind(u.matrixElements, part),
                [&](const Interval &cut, const Piece &piece) {
                  runOptimizer(context, u, u.optimizerBuffers(cut), piece.decay,
                               kernel, "optimizer");
                });
    roundParams(context, u, part);
  });
  context.communicator->updateEnd(index);
}

void shx_muon_start(ShxContext *ctx, int32_t unit, ShxKernel kernel) {
  Context &context = contextOf(ctx);
  auto index = static_cast<size_t>(unit);
  beginUpdate(context, index);
  context.muon->start(index, kernel);
}

void shx_muon_finish(ShxContext *ctx, int32_t unit, ShxKernel kernel) {
  contextOf(ctx).muon->finish(static_cast<size_t>(unit), kernel);
}

} // extern "C"
