// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_gemm: a BLAS call for each matrix of the batch. Many small matrices are
// shared out among the threads, large ones are left to the library's threads.

#include "Matrix.h"
#include "WorkspacePlan.h"
#include <cblas.h>

namespace shardonnx::rt {

// Elements that make a thread's part of a conversion worth its start.
constexpr int64_t kConvertGrain = 1 << 14;

void sgemm(int64_t m, int64_t n, int64_t k, MatrixView a, MatrixView b,
           float beta, float *c, int64_t cStride) {
  if (m <= 0 || n <= 0)
    return;
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
              b.transposed ? CblasTrans : CblasNoTrans, blasint(m), blasint(n),
              blasint(k), 1.0f, a.data, blasint(a.stride), b.data,
              blasint(b.stride), beta, c, blasint(cStride));
}

void widenMatrix(int32_t dtype, const void *from, int64_t fromStride,
                 int64_t rows, int64_t columns, float *to) {
  const Kernels &table = kernels();
  int64_t grain = ceilDiv(kConvertGrain, columns > 0 ? columns : 1);
  parallelRange(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      table.widen(dtype, floatAt(dtype, from, i * fromStride), to + i * columns,
                  columns);
  });
}

void narrowMatrix(int32_t dtype, const float *from, int64_t rows,
                  int64_t columns, void *to, int64_t toStride) {
  const Kernels &table = kernels();
  int64_t grain = ceilDiv(kConvertGrain, columns > 0 ? columns : 1);
  parallelRange(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      table.narrow(dtype, from + i * columns, floatAt(dtype, to, i * toStride),
                   columns);
  });
}

namespace {

// Below this many multiplications a matrix is too small for the library to
// use threads well.
constexpr int64_t kSmallProduct = 128 * 128 * 128;

// When B is one matrix for the whole batch and the rows of A and C go on from
// one matrix to the next, the batch is one taller product.
ShxGemm flattenBatch(const ShxGemm &desc) {
  ShxGemm flat = desc;
  if (desc.transA)
    return flat;
  int64_t rows = desc.m;
  for (int32_t i = desc.batchRank - 1; i >= 0; --i) {
    if (desc.batch[i] == 1)
      continue;
    if (desc.batchStrideB[i] != 0 || desc.batchStrideA[i] != rows * desc.lda ||
        desc.batchStrideC[i] != rows * desc.ldc)
      return flat;
    rows *= desc.batch[i];
  }
  flat.m = rows;
  flat.batchRank = 0;
  return flat;
}

class BatchedProduct {
public:
  BatchedProduct(const ShxGemm &desc, const void *a, const void *b, void *c,
                 float *workspace)
      : d(desc), plan(planGemm(desc)), a(a), b(b), c(c), workspace(workspace) {}

  void run() {
    for (int64_t begin = 0; begin < plan.batch; begin += plan.group) {
      int64_t count = plan.batch - begin;
      count = count < plan.group ? count : plan.group;
      bool share = count > 1 && (d.m * d.n * d.k <= kSmallProduct ||
                                 count >= omp_get_max_threads());
      if (share)
        parallelTasks(count, [&](int64_t i) { one(begin + i, i); });
      else
        for (int64_t i = 0; i < count; ++i)
          one(begin + i, i);
    }
  }

private:
  // The product of matrix `index` with the slot's copies.
  void one(int64_t index, int64_t slot) {
    int64_t at[3] = {0, 0, 0};
    for (int32_t i = d.batchRank - 1; i >= 0; --i) {
      int64_t here = index % d.batch[i];
      index /= d.batch[i];
      at[0] += here * d.batchStrideA[i];
      at[1] += here * d.batchStrideB[i];
      at[2] += here * d.batchStrideC[i];
    }
    float *copy = workspace + slot * (plan.a + plan.b + plan.c);
    MatrixView left = operand(d.dtypeA, floatAt(d.dtypeA, a, at[0]), d.lda,
                              d.transA, d.m, d.k, copy);
    MatrixView right = operand(d.dtypeB, floatAt(d.dtypeB, b, at[1]), d.ldb,
                               d.transB, d.k, d.n, copy + plan.a);
    float beta = d.accumulate ? 1.0f : 0.0f;
    void *to = floatAt(d.dtypeC, c, at[2]);
    if (!plan.c) {
      sgemm(d.m, d.n, d.k, left, right, beta, static_cast<float *>(to), d.ldc);
      return;
    }
    float *sum = copy + plan.a + plan.b;
    if (d.accumulate)
      widenMatrix(d.dtypeC, to, d.ldc, d.m, d.n, sum);
    sgemm(d.m, d.n, d.k, left, right, beta, sum, d.n);
    narrowMatrix(d.dtypeC, sum, d.m, d.n, to, d.ldc);
  }

  static MatrixView operand(int32_t dtype, const void *from, int64_t stride,
                            int32_t transposed, int64_t rows, int64_t columns,
                            float *copy) {
    if (dtype == SHX_F32)
      return {static_cast<const float *>(from), stride, transposed != 0};
    int64_t stored = transposed ? rows : columns;
    widenMatrix(dtype, from, stride, transposed ? columns : rows, stored, copy);
    return {copy, stored, transposed != 0};
  }

  const ShxGemm &d;
  const GemmPlan plan;
  const void *a, *b;
  void *c;
  float *workspace;
};

} // namespace
} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_gemm(ShxContext *ctx, const ShxGemm *desc, const void *a,
              const void *b, void *c, void *workspace) {
  TraceScope scope(ctx, "gemm");
  // A flattened product would need other copies than the planned ones.
  ShxGemm flat = planGemm(*desc).floats ? *desc : flattenBatch(*desc);
  BatchedProduct(flat, a, b, c, static_cast<float *>(workspace)).run();
}
