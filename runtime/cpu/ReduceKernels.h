// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arithmetic of the collectives between processes of one machine: casting
// a slice into the gathered unit, and summing a slice of every rank's
// gradients. At the speed of memory on one thread; `parallel` uses the rank's
// pool, for the issuing thread alone.

#ifndef SHARDONNX_RUNTIME_REDUCEKERNELS_H
#define SHARDONNX_RUNTIME_REDUCEKERNELS_H

#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Manifest.h"
#include <cstddef>
#include <cstdint>

namespace shardonnx::rt {

/// out[i] (+)= Σ_r sources[r][i]: one source after the other is added to what
/// is there. So the bits depend neither on timing nor, over the microbatches of
/// a step, on how many ranks they are dealt to. The sources are of `dtype`, the
/// sum is f32.
void sumSlices(float *out, const void *const *sources, size_t ranks,
               int64_t count, ShxDType dtype, bool accumulate,
               bool parallel = false);

/// The same, rounded once to the sources' dtype, in which `out` is; it may be
/// one of them.
void sumAlike(void *out, const void *const *sources, size_t ranks,
              int64_t count, ShxDType dtype, bool parallel = false);

/// Elements whose squares are added up together, in double, from the first on:
/// sums of these in their order are a norm's.
inline constexpr int64_t kNormChunk = 1 << 15;
inline int64_t normChunks(int64_t count) {
  return (count + kNormChunk - 1) / kNormChunk;
}

/// squares[c] = Σ x² of the c-th chunk.
void squareSums(const float *x, int64_t count, double *squares,
                bool parallel = false);

/// The same of what sumSlices makes, while it is in a cache.
void sumSlicesAndSquares(float *out, const void *const *sources, size_t ranks,
                         int64_t count, ShxDType dtype, bool accumulate,
                         double *squares, bool parallel = false);

/// out[i] = convert(in[i]).
void castSlice(void *out, ShxDType dtype, const float *in, int64_t count,
               bool parallel = false);

/// out[i] = what in[i], a master, becomes on its way (GatherImage.h).
void roundSlice(void *out, const Manifest::Unit &unit, const void *in,
                int64_t count, bool parallel = false);

/// memcpy by several threads.
void copySlice(void *out, const void *in, int64_t bytes, bool parallel = false);

/// Fills memory with NaNs of every float type.
void poison(void *memory, int64_t bytes);

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_REDUCEKERNELS_H
