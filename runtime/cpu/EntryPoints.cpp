// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C entry points of ABI.h and MeshABI.h for collectives and the loss.

#include "Context.h"
#include "shardonnx/runtime/MeshABI.h"

using shardonnx::rt::contextOf;

extern "C" {

void shx_gather_start(ShxContext *ctx, int32_t unit) {
  contextOf(ctx).communicator->gatherStart(static_cast<size_t>(unit));
}
void shx_gather_wait(ShxContext *ctx, int32_t unit) {
  contextOf(ctx).communicator->gatherWait(static_cast<size_t>(unit));
}
void shx_gather_free(ShxContext *ctx, int32_t unit) {
  contextOf(ctx).communicator->gatherFree(static_cast<size_t>(unit));
}
// The next gather costs the same from everyone: the unit exists once.
void shx_gather_reshard(ShxContext *ctx, int32_t unit) {
  shx_gather_free(ctx, unit);
}
void shx_grad_acquire(ShxContext *ctx, int32_t unit) {
  contextOf(ctx).communicator->gradAcquire(static_cast<size_t>(unit));
}
void shx_reduce_start(ShxContext *ctx, int32_t unit, int32_t accumulate) {
  contextOf(ctx).communicator->reduceStart(static_cast<size_t>(unit),
                                           accumulate != 0);
}
void shx_reduce_wait(ShxContext *ctx, int32_t unit) {
  contextOf(ctx).communicator->reduceWait(static_cast<size_t>(unit));
}
void shx_axis_collective(ShxContext *ctx, const ShxAxisCollective *desc,
                         const void *from, void *to, void * /*workspace*/) {
  contextOf(ctx).axis->run(*desc, static_cast<const uint8_t *>(from),
                           static_cast<uint8_t *>(to));
}
void shx_loss(ShxContext *ctx, const float *loss) {
  contextOf(ctx).lossSum += static_cast<double>(*loss);
}

} // extern "C"
