// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lookups and the loss of a vocabulary that the ranks of a tensor group share.

#include "kernels/SharedVocabulary.h"
#include "AxisGroup.h"
#include "Context.h"
#include "kernels/Pool.h"

using namespace shardonnx;
using namespace shardonnx::rt;

static int placeOf(ShxContext *ctx, int32_t axis) {
  return contextOf(ctx).axis->placeOn(static_cast<MeshAxis>(axis));
}

void shx_embedding_part(ShxContext *ctx, const ShxEmbeddingPart *desc,
                        const void *table, const void *ids, void *out) {
  TraceScope scope(ctx, "embedding");
  lookUpPart(*desc, placeOf(ctx, desc->axis), table, ids, out);
}

void shx_embedding_part_grad(ShxContext *ctx, const ShxEmbeddingPart *desc,
                             const void *ids, const void *dy, void *dtable,
                             void *) {
  TraceScope scope(ctx, "embedding_grad");
  addToPart(ctx, *desc, placeOf(ctx, desc->axis), ids, dy, dtable);
}

void shx_linear_cross_entropy_part(ShxContext *ctx,
                                   const ShxLinearCrossEntropyPart *desc,
                                   const void *x, const void *w,
                                   const void *labels, const float *seed,
                                   float *loss, void *dx, void *dw,
                                   void *workspace) {
  TraceScope scope(ctx, "linear_cross_entropy");
  auto gather = [&](const float *mine, float *all, int64_t count) {
    ShxAxisCollective call{};
    call.outer = call.inner = 1;
    call.sections[0] = count * desc->parts;
    call.sectionCount = 1;
    call.call = SHX_AXIS_ALL_GATHER;
    call.axis = desc->axis;
    call.parts = desc->parts;
    call.dtype = SHX_F32;
    shx_axis_collective(ctx, &call, mine, all, /*workspace=*/nullptr);
  };
  lossOfPart(*desc, placeOf(ctx, desc->axis), x, w, labels, seed, loss, dx, dw,
             workspace, gather);
}
