// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches of kernels/Slices.cu.

#include "Slices.h"
#include "../kernels/Shapes.h"
#include "../launch/KernelNames.h"
#include "../launch/Launch.h"
#include "Staging.h"
#include "shardonnx/runtime/GatherCodes.h"
#include <algorithm>

namespace shardonnx::rt::cuda {
namespace {

// Each thread does two packs or more, but a slice of any size keeps no more
// blocks in flight than a GPU runs at once.
int64_t sliceBlocks(int64_t count) {
  constexpr int64_t kPerBlock = int64_t(kSliceThreads) * 8 * 2;
  constexpr int64_t kMostBlocks = 2048;
  return std::min(blocksFor(count, kPerBlock), kMostBlocks);
}

} // namespace

void castSlice(Context &context, CUstream stream, const float *from,
               int32_t dtype, void *to, int64_t count) {
  static constexpr auto names = SHX_KERNEL_NAMES("shx_k_cast_slice");
  launchOn(context, stream, names(dtype), sliceBlocks(count), kSliceThreads, 0,
           from, to, count);
}

// A warp a block, and no more blocks of threads than a GPU runs at once.
static int64_t gatherGrid(int64_t blocks) {
  constexpr int64_t kMostBlocks = 2048;
  return std::min(blocksFor(blocks, kGatherThreads / 32), kMostBlocks);
}

void roundSlice(Context &context, const Manifest::Unit &unit, const void *from,
                void *to, int64_t count) {
  static constexpr auto names = SHX_KERNEL_PAIR_NAMES("shx_k_round_slice");
  int64_t blocks = stateBlocks(count);
  launch(context, names(unit.masterType, unit.paramType), gatherGrid(blocks),
         kGatherThreads, 0, int32_t(unit.gatherType), from, to, blocks);
}

void encodeSlice(Context &context, CUstream stream, const Manifest::Unit &unit,
                 const void *from, void *image, int64_t count) {
  static constexpr auto names = SHX_KERNEL_NAMES("shx_k_encode_slice");
  int64_t blocks = stateBlocks(count);
  launchOn(context, stream, names(unit.paramType), gatherGrid(blocks),
           kGatherThreads, 0, int32_t(unit.gatherType), from, image, blocks);
}

void decodeImages(Context &context, CUstream stream, const Manifest::Unit &unit,
                  const void *images, int64_t slice, void *to) {
  static constexpr auto names = SHX_KERNEL_NAMES("shx_k_decode_images");
  int64_t blocks = stateBlocks(unit.length);
  launchOn(context, stream, names(unit.paramType), gatherGrid(blocks),
           kGatherThreads, 0, int32_t(unit.gatherType), images,
           gatherImageBytes(unit.gatherType, slice), to, stateBlocks(slice),
           blocks);
}

static void copyToDevice(Context &context, CUstream stream, void *to,
                         const void *from, int64_t bytes) {
  if (context.preparing() || bytes == 0)
    return;
  if (context.staging)
    context.staging->wait(stream);
  check(driver().cuMemcpyHtoDAsync(deviceAddress(to), from,
                                   static_cast<size_t>(bytes), stream),
        "copying offloaded parameters to the GPU");
}

void castMasters(Context &context, const UnitState &u) {
  const Manifest::Unit &unit = *u.unit;
  if (u.params && unit.sendsImages())
    roundSlice(context, unit, u.master, u.params, u.owned.size());
  else if (u.params && !u.halves && !unit.inCodes())
    castSlice(context, context.compute,
              reinterpret_cast<const float *>(u.master), unit.paramType,
              u.params, u.owned.size());
}

void bringOwned(Context &context, CUstream stream, const UnitState &u,
                void *to) {
  copyToDevice(context, stream, to, u.hostParams,
               u.owned.size() * dtypeBytes(u.unit->paramType));
}

void bringFrozen(Context &context, CUstream stream, const UnitState &u,
                 void *to) {
  copyToDevice(context, stream, to, u.frozen,
               u.frozenOwned.size() * dtypeBytes(u.unit->paramType));
}

void accumulateSlice(Context &context, CUstream stream, int32_t dtype,
                     const void *from, float *to, int64_t count,
                     bool accumulate) {
  sumSlices(context, stream, dtype, from, 0, 1, to, count, accumulate);
}

void sumSlices(Context &context, CUstream stream, int32_t dtype,
               const void *from, int64_t stride, int32_t slices, float *to,
               int64_t count, bool accumulate) {
  static constexpr auto names = SHX_KERNEL_NAMES("shx_k_sum_slices");
  launchOn(context, stream, names(dtype), sliceBlocks(count), kSliceThreads, 0,
           from, to, count, stride, slices, int32_t(accumulate));
}

int64_t squaresPartials(int64_t count) {
  return blocksFor(count, kSquaresChunk);
}

void squares(Context &context, CUstream stream, const float *x, int64_t count,
             double *partials) {
  launchOn(context, stream, "shx_k_squares", squaresPartials(count),
           kSliceThreads, 0, x, partials, count);
}

bool squaresWithSum(const Context &context, const UnitState &u) {
  const State &state = *context.state;
  bool added = u.unit->sharded && state.topology.replicas > 1;
  bool kept = context.cells.partials != nullptr; // else nobody wants a norm
  return kept && !state.plan.gradientsInPlace && !added &&
         u.counted.begin == u.owned.begin && u.counted.end == u.owned.end;
}

void sumWithSquares(Context &context, CUstream stream, int32_t dtype,
                    const void *from, float *to, int64_t count, bool accumulate,
                    double *partials) {
  static constexpr auto names =
      SHX_KERNEL_NAMES("shx_k_sum_slices_and_squares");
  launchOn(context, stream, names(dtype), squaresPartials(count), kSliceThreads,
           0, from, to, partials, count, int32_t(accumulate));
}

void accumulateCounted(Context &context, CUstream stream, size_t unit,
                       bool accumulate) {
  const UnitState &u = context.state->units[unit];
  ShxDType dtype = u.unit->reduceType;
  double *partials = context.cells.partials;
  for (size_t before = 0; before < unit; ++before)
    context.state->units[before].forCounted(
        [&](const float *, int64_t count, bool repeated) {
          if (!repeated)
            partials += squaresPartials(count);
        });
  auto sum = [&](const Interval &cut, const Piece &piece) {
    const uint8_t *from =
        u.gradients + (u.owned.begin + cut.begin) * dtypeBytes(dtype);
    float *to = u.reduced + cut.begin;
    if (piece.repeated)
      return accumulateSlice(context, stream, dtype, from, to, cut.size(),
                             accumulate);
    sumWithSquares(context, stream, dtype, from, to, cut.size(), accumulate,
                   partials);
    partials += squaresPartials(cut.size());
  };
  u.forPieces({0, u.owned.size()}, sum);
}

void joinLargest(Context &context, int32_t dtype, const void *x, int64_t count,
                 bool toBF16, uint32_t *largest) {
  static constexpr auto names = SHX_KERNEL_NAMES("shx_k_largest");
  launch(context, names(dtype), sliceBlocks(count), kSliceThreads, 0, x,
         largest, count, int32_t(toBF16));
}

void castToCodes(Context &context, int32_t dtype, const void *x,
                 const float *step, uint8_t *codes, int64_t count) {
  static constexpr auto names = SHX_KERNEL_NAMES("shx_k_cast_to_codes");
  launch(context, names(dtype), sliceBlocks(count), kSliceThreads, 0, x, step,
         codes, count);
}

void takeF8Steps(Context &context, const uint32_t *largest, float *steps,
                 int64_t count) {
  launch(context, "shx_k_f8_steps", blocksFor(count, kSliceThreads),
         kSliceThreads, 0, reinterpret_cast<const float *>(largest), steps,
         count);
}

void sumDoubles(Context &context, CUstream stream, const double *values,
                int64_t count, double *sum) {
  launchOn(context, stream, "shx_k_sum_doubles", 1, kFinishThreads, 0, values,
           count, sum);
}

void finishNorm(Context &context, CUstream stream, const double *squares,
                int32_t ranks, double limit, double *norm, float *scalars,
                float *scalarsWithoutDecay) {
  launchOn(context, stream, "shx_k_norm_finish", 1, 1, 0, squares, ranks, limit,
           norm, scalars, scalarsWithoutDecay);
}

void addLoss(Context &context, CUstream stream, const float *loss, double *sum,
             bool accumulate) {
  launchOn(context, stream, "shx_k_loss_add", 1, 1, 0, loss, sum,
           int32_t(accumulate));
}

} // namespace shardonnx::rt::cuda
