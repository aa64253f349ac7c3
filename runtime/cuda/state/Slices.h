// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Work on slices of units that the runtime itself enqueues (kernels/Slices.cu).
// As launches do, these enqueue nothing when preparing. The library calls of
// the ABI are in calls/.

#ifndef SHARDONNX_RUNTIME_CUDA_SLICES_H
#define SHARDONNX_RUNTIME_CUDA_SLICES_H

#include "../launch/Context.h"
#include "shardonnx/runtime/Manifest.h"

namespace shardonnx::rt::cuda {

/// On the compute stream: *largest, the bits of a number that is not negative,
/// becomes no less than any |x|, rounded to bf16 where products read it so; the
/// steps of e4m3 of such numbers, SHX_STEP_STRIDE apart; and x in bf16 over its
/// step, in e4m3.
void joinLargest(Context &context, int32_t dtype, const void *x, int64_t count,
                 bool toBF16, uint32_t *largest);
void takeF8Steps(Context &context, const uint32_t *largest, float *steps,
                 int64_t count);
void castToCodes(Context &context, int32_t dtype, const void *x,
                 const float *step, uint8_t *codes, int64_t count);

/// to[i] = from[i] in dtype, rounded to nearest even.
void castSlice(Context &context, CUstream stream, const float *from,
               int32_t dtype, void *to, int64_t count);

/// With --gather-dtype, of slices of whole blocks (GatherCodes.h): what masters
/// become on their way; a rounded slice's image; and the unit that the images
/// of all ranks' slices are, lying one behind the other.
void roundSlice(Context &context, const Manifest::Unit &unit, const void *from,
                void *to, int64_t count);
void encodeSlice(Context &context, CUstream stream, const Manifest::Unit &unit,
                 const void *from, void *image, int64_t count);
void decodeImages(Context &context, CUstream stream, const Manifest::Unit &unit,
                  const void *images, int64_t slice, void *to);

/// Of units whose gathers do not read the masters: what they read, from these.
/// Afterwards the update writes it.
struct UnitState;
void castMasters(Context &context, const UnitState &unit);

/// With --offload=params, what this rank owns of a unit, in param_dtype, for a
/// gather: of the trainable section and of the frozen one.
void bringOwned(Context &context, CUstream stream, const UnitState &unit,
                void *to);
void bringFrozen(Context &context, CUstream stream, const UnitState &unit,
                 void *to);

/// to[i] = from[i], or += where accumulate; from has the dtype.
void accumulateSlice(Context &context, CUstream stream, int32_t dtype,
                     const void *from, float *to, int64_t count,
                     bool accumulate);

/// to[i] = Σ from[s · stride + i] over `slices` slices, or +=: in f32, in the
/// order of the slices.
void sumSlices(Context &context, CUstream stream, int32_t dtype,
               const void *from, int64_t stride, int32_t slices, float *to,
               int64_t count, bool accumulate);

/// partials[p] = Σ x² in double over a part of `count` elements; how many parts
/// there are depends on the count alone.
int64_t squaresPartials(int64_t count);
void squares(Context &context, CUstream stream, const float *x, int64_t count,
             double *partials);

/// accumulateSlice, and the partials of the squares of what it gives.
void sumWithSquares(Context &context, CUstream stream, int32_t dtype,
                    const void *from, float *to, int64_t count, bool accumulate,
                    double *partials);

/// The same over what the norm counts of a unit, where that is all that is
/// summed and nothing is added to it afterwards: the last sum of a step then
/// leaves its norm behind.
bool squaresWithSum(const Context &context, const UnitState &unit);
void accumulateCounted(Context &context, CUstream stream, size_t unit,
                       bool accumulate);

/// *sum = Σ values in an order that the count fixes.
void sumDoubles(Context &context, CUstream stream, const double *values,
                int64_t count, double *sum);

/// From the ranks' sums of squares: *norm, without the loss scale, and in both
/// arrays of scalars SHX_CLIP and SHX_SKIP. SHX_CLIP was 1 / the loss scale,
/// and is multiplied by what torch.nn.utils.clip_grad_norm_ scales gradients
/// by; by 1 when limit is 0.
void finishNorm(Context &context, CUstream stream, const double *squares,
                int32_t ranks, double limit, double *norm, float *scalars,
                float *scalarsWithoutDecay);

/// *sum = *loss, or += where accumulate.
void addLoss(Context &context, CUstream stream, const float *loss, double *sum,
             bool accumulate);

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_SLICES_H
