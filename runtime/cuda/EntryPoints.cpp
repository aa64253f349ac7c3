// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C entry points of ABI.h that are neither a library call nor a generated
// kernel: collectives, the loss and the update.

#include "launch/Context.h"
#include "launch/Launch.h"
#include "launch/UpdateBranch.h"
#include "state/Muon.h"
#include "state/Slices.h"
#include "state/Staging.h"
#include "state/State.h"
#include "state/WeightSteps.h"

using namespace shardonnx;
using namespace shardonnx::rt::cuda;

namespace {

size_t indexOf(int32_t unit) { return static_cast<size_t>(unit); }

// Makes NaNs of every float type, where a debugging run asks for it.
void poison(Context &context, uint8_t *memory, int64_t bytes) {
  if (context.poison && !context.preparing() && bytes > 0)
    rt::cuda::check(driver().cuMemsetD8Async(deviceAddress(memory), 0xff,
                                             static_cast<size_t>(bytes),
                                             context.compute),
                    "poisoning a buffer");
}

// The next step begins with scalars of its own.
void keepScalars(Context &context) {
  const Cells &cells = context.cells;
  copyBytes(context, context.compute, cells.optimizerScalarsWithoutDecay,
            cells.scalarsWithoutDecay,
            2 * SHX_NUM_SCALARS * int64_t(sizeof(float)));
}

bool addsUpUnsharded(const Context &context) {
  return context.state->manifest.unshardedAccumulation;
}

} // namespace

extern "C" {

void shx_gather_start(ShxContext *ctx, int32_t unit) {
  if (!contextOf(ctx).leavesOut())
    contextOf(ctx).collectives->gatherStart(indexOf(unit));
}
void shx_gather_wait(ShxContext *ctx, int32_t unit) {
  Context &context = contextOf(ctx);
  if (context.leavesOut())
    return;
  context.collectives->gatherWait(indexOf(unit));
  // Of others the gather has waited.
  if (context.branch && context.state->units[indexOf(unit)].inPlace)
    context.branch->wait(indexOf(unit));
}
void shx_gather_free(ShxContext *ctx, int32_t unit) {
  Context &context = contextOf(ctx);
  if (context.leavesOut())
    return;
  const UnitState &u = context.state->units[indexOf(unit)];
  if (!u.inPlace)
    poison(context, u.gathered, u.gatherBytes.size());
  context.collectives->gatherFree(indexOf(unit));
}
void shx_gather_reshard(ShxContext *ctx, int32_t unit) {
  contextOf(ctx).collectives->gatherReshard(indexOf(unit));
  shx_gather_free(ctx, unit);
}
void shx_grad_acquire(ShxContext *ctx, int32_t unit) {
  Context &context = contextOf(ctx);
  const UnitState &u = context.state->units[indexOf(unit)];
  // Optimizers read gradients; those of what no forward reads, too.
  if (context.branch)
    context.branch->join();
  context.collectives->gradAcquire(indexOf(unit));
  bool added = addsUpUnsharded(context) && !context.firstMicrobatch;
  if (!added)
    poison(context, u.gradients, u.unit->gradientBytes());
}
void shx_reduce_start(ShxContext *ctx, int32_t unit, int32_t accumulate) {
  Context &context = contextOf(ctx);
  bool unsharded = addsUpUnsharded(context);
  if (!unsharded || context.lastMicrobatch)
    context.collectives->reduceStart(indexOf(unit),
                                     accumulate != 0 && !unsharded);
}
void shx_reduce_wait(ShxContext *ctx, int32_t unit) {
  if (!contextOf(ctx).leavesOut())
    contextOf(ctx).collectives->reduceWait(indexOf(unit));
}

void shx_loss(ShxContext *ctx, const float *loss) {
  Context &context = contextOf(ctx);
  addLoss(context, context.compute, loss, context.cells.loss,
          /*accumulate=*/true);
}

void shx_clip_grad_norm(ShxContext *ctx) {
  Context &context = contextOf(ctx);
  context.behindNorm = true;
  if (context.updatePart == UpdatePart::Optimizers)
    return;
  const Cells &cells = context.cells;
  int64_t partials = 0;
  for (const UnitState &u : context.state->units)
    u.forCounted([&](const float *gradients, int64_t count, bool repeated) {
      if (repeated)
        return;
      if (!squaresWithSum(context, u))
        squares(context, context.compute, gradients, count,
                cells.partials + partials);
      partials += squaresPartials(count);
    });
  sumDoubles(context, context.compute, cells.partials, partials, cells.squares);
  context.collectives->allGather(cells.squares, cells.allSquares, 1);
  finishNorm(context, context.compute, cells.allSquares, context.ranks,
             context.clipGradNorm, cells.norm, cells.scalars,
             cells.scalarsWithoutDecay);
  keepScalars(context);
}

void shx_optimizer_device(ShxContext *ctx, int32_t unit,
                          const ShxDeviceKernel *kernel) {
  Context &context = contextOf(ctx);
  if (context.leavesOut())
    return;
  const UnitState &u = context.state->units[indexOf(unit)];
  if (context.staging)
    context.staging->update(indexOf(unit), *kernel);
  else // Muon's matrices have their own kernels.
    u.forPieces({u.matrixElements, u.owned.size()},
                [&](const Interval &cut, const rt::Piece &piece) {
                  launchOptimizer(context, *kernel, piece.decay,
                                  u.optimizerBuffers(cut));
                });
  if (u.unit->sendsImages())
    castMasters(context, u);
  if (context.steps && context.state->offload != Offload::Params)
    context.steps->add(indexOf(unit), {0, u.owned.size()},
                       WeightSteps::source(u));
  context.collectives->updated(indexOf(unit));
  if (context.branch)
    context.branch->updated(indexOf(unit));
}

void shx_weight_steps(ShxContext *ctx) { contextOf(ctx).steps->finish(); }

void shx_muon_start_device(ShxContext *ctx, int32_t unit,
                           const ShxDeviceKernel *kernel) {
  contextOf(ctx).muon->start(indexOf(unit), *kernel);
}

void shx_muon_finish_device(ShxContext *ctx, int32_t unit,
                            const ShxDeviceKernel *kernel) {
  contextOf(ctx).muon->finish(indexOf(unit), *kernel);
}

} // extern "C"
