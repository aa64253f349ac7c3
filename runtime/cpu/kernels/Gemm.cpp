// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_gemm: a product for each matrix of the batch. Many small matrices are
// shared out among the threads, large ones are computed by all of them.

#include "Matrix.h"
#include "Product.h"
#include "WorkspacePlan.h"

namespace shardonnx::rt {
namespace {

// Up to so many multiplications a matrix is too small for several threads.
constexpr int64_t kSmallProduct = 128 * 128 * 128;

class BatchedProduct {
public:
  BatchedProduct(const ShxGemm &flat, const void *a, const void *b, void *c,
                 void *workspace)
      : d(flat), plan(planGemm(flat)), a(a), b(b), c(c),
        workspace(static_cast<char *>(workspace)) {}

  void run() const {
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
  // The product of matrix `index` in a slot of the workspace.
  void one(int64_t index, int64_t slot) const {
    int64_t at[3] = {0, 0, 0};
    for (int32_t i = d.batchRank - 1; i >= 0; --i) {
      int64_t here = index % d.batch[i];
      index /= d.batch[i];
      at[0] += here * d.batchStrideA[i];
      at[1] += here * d.batchStrideB[i];
      at[2] += here * d.batchStrideC[i];
    }
    Product product{};
    product.m = d.m;
    product.n = d.n;
    product.k = d.k;
    product.a = leftOperand(d.dtypeA, floatAt(d.dtypeA, a, at[0]), d.lda,
                            d.transA != 0);
    product.b = rightOperand(d.dtypeB, floatAt(d.dtypeB, b, at[1]), d.ldb,
                             d.transB != 0);
    product.c = floatAt(d.dtypeC, c, at[2]);
    product.cStride = d.ldc;
    product.cDtype = d.dtypeC;
    product.accumulate = d.accumulate != 0;
    multiply(product, workspace + slot * plan.slot);
  }

  const ShxGemm &d;
  const GemmPlan plan;
  const void *a, *b;
  void *c;
  char *workspace;
};

} // namespace
} // namespace shardonnx::rt

using namespace shardonnx::rt;

void shx_gemm(ShxContext *ctx, const ShxGemm *desc, const void *a,
              const void *b, void *c, void *workspace) {
  TraceScope scope(ctx, *desc);
  ShxGemm flat = flattenBatch(*desc);
  BatchedProduct(flat, a, b, c, workspace).run();
}
