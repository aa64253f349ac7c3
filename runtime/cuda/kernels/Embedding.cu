// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// out[i, :] = table[ids[i], :], a warp a row. Ids count from the end of the
// table when negative. One outside of it gives NaN, and the step ends with an
// error (Cells::outside). Rows that are not here give zero.

#include "Device.cuh"
#include "Shapes.h"

namespace shardonnx::rt::cuda {
namespace {

// packed: width, strides and addresses allow 16-byte accesses.
template <int32_t Table, int32_t Out>
__device__ void
lookUp(const void *__restrict__ table, const void *__restrict__ ids,
       void *__restrict__ out, int64_t *outside, int64_t rows, TableRows part,
       int64_t width, int64_t ldOut, int32_t idDtype, int32_t packed) {
  int64_t row = int64_t(blockIdx.x) * (kEmbeddingThreads / kWarp) + warp();
  if (row >= rows)
    return;
  Stored<Out> *to = typed<Out>(out, row * ldOut);
  int64_t id = placeWithin(indexAt(idDtype, ids, row), part.all,
                           lane() == 0 ? outside : nullptr);
  int64_t place = id - part.first;
  if (id < 0 || place < 0 || place >= part.count) {
    float none = id < 0 ? __int_as_float(0x7fffffff) : 0.f;
    for (int64_t x = lane(); x < width; x += kWarp)
      to[x] = Float<Out>::narrow(none);
    return;
  }
  const Stored<Table> *from = typed<Table>(table, place * width);
  if (packed) {
#pragma unroll 4
    for (int64_t x = lane() * kPack; x < width; x += kWarp * kPack)
      storePack<Out>(to + x, loadPack<Table>(from + x));
    return;
  }
  for (int64_t x = lane(); x < width; x += kWarp)
    to[x] = Float<Out>::narrow(Float<Table>::widen(from[x]));
}

} // namespace
} // namespace shardonnx::rt::cuda

#define SHX_EMBEDDING(suffix, Table, Out)                                      \
  extern "C" __global__ void __launch_bounds__(                                \
      shardonnx::rt::cuda::kEmbeddingThreads)                                  \
      shx_k_embedding_##suffix(                                                \
          const void *table, const void *ids, void *out, int64_t *outside,     \
          int64_t rows, shardonnx::rt::cuda::TableRows part, int64_t width,    \
          int64_t ldOut, int32_t idDtype, int32_t packed) {                    \
    shardonnx::rt::cuda::lookUp<Table, Out>(                                   \
        table, ids, out, outside, rows, part, width, ldOut, idDtype, packed);  \
  }
SHX_FOR_FLOAT_PAIRS(SHX_EMBEDDING)
