// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gather, scatter, top k and sums of lines against loops over every element, on
// one thread and on several: the bits must be the same.

#include "cumsum_problem.h"
#include "index_problem.h"
#include "shardonnx/runtime/Cpu.h"

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

TEST(CpuIndex, Gathers) {
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    IndexProblem p = drawIndexing(random);
    Buffer data = drawData(p.d.dtype, p.dataSize, random);
    Buffer indices = drawIndices(p, random), values(p.d.dtype, p.valueSize);
    setPoolThreads(1 + int(random() % 4));
    shx_gather(nullptr, &p.d, data.data(), indices.data(), values.data(), "");
    EXPECT_TRUE(values.guardsIntact());
    walk(p, indices, [&](int64_t from, int64_t to) {
      ASSERT_EQ(values.get(to), data.get(from));
    });
    if (HasFatalFailure())
      return;
  }
}

TEST(CpuIndex, ScattersInOrderOnAnyNumberOfThreads) {
  std::mt19937 random(2);
  for (int i = 0; i < 100; ++i) {
    IndexProblem p = drawIndexing(random);
    p.d.reduction = int32_t(random() % 5);
    Buffer data = drawData(p.d.dtype, p.dataSize, random);
    Buffer indices = drawIndices(p, random);
    Buffer values = drawData(p.d.dtype, p.valueSize, random);
    double largest;
    std::vector<double> expected = scattered(p, data, indices, values, largest);
    Buffer before = data;
    setPoolThreads(1);
    shx_scatter(nullptr, &p.d, indices.data(), values.data(), data.data(), "");
    EXPECT_TRUE(data.guardsIntact());
    // Larger products are not what a double holds exactly.
    for (int64_t e = 0; largest < 1e6 && e < data.size(); ++e)
      ASSERT_EQ(data.get(e), expected[size_t(e)]) << "element " << e;
    for (int threads : {2, 3, 4}) {
      Buffer again = before;
      setPoolThreads(threads);
      shx_scatter(nullptr, &p.d, indices.data(), values.data(), again.data(),
                  "");
      ASSERT_TRUE(again == data) << threads << " threads";
    }
  }
}

TEST(CpuIndex, SaysWhatIsOutside) {
  ShxIndexing d{};
  d.rank = d.components = 1;
  d.dims[0] = d.indexStride[0] = d.valueStride[0] = d.indexedStride[0] = 1;
  d.indexedSize[0] = 5;
  d.indexDtype = SHX_I64;
  float data[5] = {}, value = 0;
  int64_t index = 5;
  EXPECT_EXIT(
      shx_gather(nullptr, &d, data, &index, &value, "node 'g' (Gather)"),
      ::testing::ExitedWithCode(1),
      "error: index 5 of node 'g' \\(Gather\\) is outside of its axis "
      "of 5 elements");
  index = -6;
  EXPECT_EXIT(shx_scatter(nullptr, &d, &index, &value, data, "node 's'"),
              ::testing::ExitedWithCode(1), "error: index -6 of node 's'");
}

// Several blocks of each.
TEST(CpuGroupedGemm, MultipliesAndSums) {
  std::mt19937 random(5);
  for (int i = 0; i < 30; ++i) {
    ShxGroupedGemm d{};
    d.rows = pick(random, {1, 20, 300});
    d.groups = pick(random, {1, 4, 9});
    d.depth = pick(random, {1, 7, 40});
    d.width = pick(random, {1, 33, 270});
    d.lda = d.depth + int64_t(random() % 3);
    d.ldc = d.width + int64_t(random() % 3);
    d.transposed = random() % 2;
    d.dtypeA = int32_t(random() % 3);
    d.dtypeMatrix = int32_t(random() % 3);
    d.dtypeC = int32_t(random() % 3);
    GroupedProblem p(d, random);
    setPoolThreads(1 + int(random() % 4));
    Buffer list = p.routes(), gradient = p.matrices, product = p.c;
    auto *routes = static_cast<int32_t *>(list.data());
    shx_group_rows(nullptr, &p.sort, p.indices.data(), routes, "");
    p.expectRoutes(list);
    shx_grouped_gemm_grad(nullptr, &d, p.a.data(), p.c.data(), routes,
                          gradient.data());
    expectClose(gradient, p.gradients(), precision(d.dtypeMatrix), "gradient");
    shx_grouped_gemm(nullptr, &d, p.a.data(), p.matrices.data(), routes,
                     product.data());
    expectClose(product, p.products(), precision(d.dtypeC), "product");
    if (HasFatalFailure())
      return;
  }
}

TEST(CpuTopK, RanksLines) {
  std::mt19937 random(3);
  for (int i = 0; i < 100 && !HasFatalFailure(); ++i) {
    TopKProblem p(random, {1, 5, 60});
    Buffer values(p.d.dtype, p.lines * p.d.k),
        indices(SHX_I64, p.lines * p.d.k);
    setPoolThreads(1 + int(random() % 4));
    shx_top_k(nullptr, &p.d, p.from.data(), values.data(),
              static_cast<int64_t *>(indices.data()));
    p.expectRanks(values, indices);
  }
}

TEST(CpuCumSum, EveryAxisAndType) {
  std::mt19937 random(11);
  for (int i = 0; i < 100 && !HasFatalFailure(); ++i) {
    CumSumProblem p(random, int32_t(i % 5));
    Buffer to(p.d.dtype, p.from.size()), copy = p.from;
    bool inPlace = random() % 3 == 0;
    Buffer &result = inPlace ? copy : to;
    setPoolThreads(1 + int(random() % 4));
    shx_cumsum(nullptr, &p.d, copy.data(), result.data());
    EXPECT_TRUE(result.guardsIntact());
    p.expectSums(result);
  }
}

} // namespace
