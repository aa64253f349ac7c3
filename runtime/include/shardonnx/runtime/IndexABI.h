// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ABI.h's calls that choose elements: by indices that are data, and by rank.
// Its conventions hold here; a change is a change of SHX_ABI_VERSION.

#ifndef SHARDONNX_RUNTIME_INDEXABI_H
#define SHARDONNX_RUNTIME_INDEXABI_H

#include "shardonnx/runtime/ABI.h"

#ifdef __cplusplus
extern "C" {
#endif

// What becomes of an element of the data when a value is scattered to it.
typedef enum ShxReduction {
  SHX_REDUCE_NONE = 0, // the last value in row-major order stays
  SHX_REDUCE_ADD = 1,
  SHX_REDUCE_MUL = 2,
  SHX_REDUCE_MIN = 3,
  SHX_REDUCE_MAX = 4,
} ShxReduction;

// The value at position (i0, i1, …) belongs to the element
//   Σ i·dataStride + Σ_c index_c·indexedStride[c]   of the data, where
//   index_c = indices[Σ i·indexStride + c·componentStride]
// (from the end of the axis when negative). One descriptor is ONNX's Gather on
// any axis, GatherElements and GatherND, and, written to instead of read, their
// Scatter counterparts. Along the axes with dataStride ≠ 0 elements of
// different positions are different ones.
typedef struct ShxIndexing {
  int64_t dims[SHX_MAX_RANK];
  int64_t dataStride[SHX_MAX_RANK];
  int64_t indexStride[SHX_MAX_RANK];
  int64_t valueStride[SHX_MAX_RANK];
  int64_t indexedSize[SHX_MAX_RANK], indexedStride[SHX_MAX_RANK];
  int64_t componentStride;
  int32_t rank, components;
  int32_t dtype;      // of data and values
  int32_t indexDtype; // SHX_I64 or SHX_I32
  int32_t reduction;  // of ShxReduction, scatter only
  int32_t reserved;
} ShxIndexing;

// values = the elements. `what` names the node in the message that ends the
// program when an index lies outside of its axis.
void shx_gather(ShxContext *ctx, const ShxIndexing *desc, const void *data,
                const void *indices, void *values, const char *what);
// The elements become, or are combined with, the values: for each element in
// the row-major order of the positions, whatever the number of threads.
void shx_scatter(ShxContext *ctx, const ShxIndexing *desc, const void *indices,
                 const void *values, void *data, const char *what);

// The k largest elements of each line, sorted; of equal ones the first comes
// first. NaN is the largest. Lines are counted by dims, elements of a line lie
// the axis strides apart.
typedef struct ShxTopK {
  int64_t dims[SHX_MAX_RANK]; // of the lines
  int64_t fromStride[SHX_MAX_RANK], valueStride[SHX_MAX_RANK],
      indexStride[SHX_MAX_RANK];
  int64_t size, k; // of a line, of its result
  int64_t fromAxisStride, valueAxisStride, indexAxisStride;
  int32_t rank; // of the lines
  int32_t dtype;
  int32_t smallest;  // the k smallest instead, the smallest first
  int32_t lastFirst; // of equal ones the last comes first
} ShxTopK;
// Bytes of scratch for each element of a line.
#define SHX_TOP_K_SCRATCH 16
void shx_top_k(ShxContext *ctx, const ShxTopK *desc, const void *from,
               void *values, int64_t *indices);

// Rows sorted by the group that each chooses: routes is where each group begins
// among them, and where the last ends (groups + 1 numbers), then the rows,
// those of a group in ascending order.
#define SHX_MOST_GROUPS 8192
typedef struct ShxGroupRows {
  int64_t rows, groups; // rows < 2^31
  int32_t indexDtype;
  int32_t reserved;
} ShxGroupRows;
void shx_group_rows(ShxContext *ctx, const ShxGroupRows *desc,
                    const void *indices, int32_t *routes, const char *what);

// out[i, :] = a[i, :]·matrices[the group of i], each matrix depth × width,
// stored transposed with `transposed`: what a mixture of experts computes,
// without a copy of an expert for each row. Matrices are contiguous.
typedef struct ShxGroupedGemm {
  int64_t rows, groups, depth, width;
  int64_t lda, ldc; // of the rows of a and out
  int32_t transposed;
  int32_t dtypeA, dtypeMatrix, dtypeC;
} ShxGroupedGemm;
void shx_grouped_gemm(ShxContext *ctx, const ShxGroupedGemm *desc,
                      const void *a, const void *matrices,
                      const int32_t *routes, void *out);
// matrices[g] = Σ a[i, :]ᵀ·c[i, :] over the rows of group g, depth elements of
// a by width elements of c, in the order of the rows.
void shx_grouped_gemm_grad(ShxContext *ctx, const ShxGroupedGemm *desc,
                           const void *a, const void *c, const int32_t *routes,
                           void *matrices);

#ifdef __cplusplus
}
#endif

#endif // SHARDONNX_RUNTIME_INDEXABI_H
