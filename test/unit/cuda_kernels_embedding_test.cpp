// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Embedding and its gradient on the device: shapes with and without 16-byte
// accesses, ids that are even, rare, or all the same.

#include "../../runtime/cuda/plan/EmbeddingPlan.h"
#include "cuda_kernels_util.h"
#include "shardonnx/runtime/Workspace.h"
#include <array>

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

// The pairs of types that kernels exist for.
bool belongTogether(int32_t first, int32_t second) {
  return first == SHX_F32 || second == SHX_F32 || first == second;
}

ShxEmbedding randomEmbedding(std::mt19937 &random) {
  ShxEmbedding d{};
  d.rows = pick(random, {1, 3, 50, 127, 128, 129, 600});
  d.width = pick(random, {1, 7, 8, 32, 100, 264});
  d.vocab = pick(random, {1, 5, 60, 700});
  d.ldOut = d.width + pick(random, {0, 0, 1, 8});
  do {
    d.tableDtype = int32_t(random() % 3);
    d.outDtype = int32_t(random() % 3);
  } while (!belongTogether(d.tableDtype, d.outDtype));
  d.accumulate = random() % 2;
  d.idDtype = random() % 2 ? SHX_I64 : SHX_I32;
  d.paddingIdx = random() % 2 ? 0 : -1;
  return d;
}

testing::Message describe(const ShxEmbedding &d) {
  return testing::Message()
         << d.rows << " rows of " << d.width << " (" << d.ldOut << "), vocab "
         << d.vocab << ", dtypes " << d.tableDtype << d.outDtype
         << ", accumulate " << d.accumulate << ", padding " << d.paddingIdx;
}

TEST(CudaEmbedding, LooksUpAndConverts) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(2);
  for (int i = 0; i < 60; ++i) {
    ShxEmbedding d = randomEmbedding(random);
    SCOPED_TRACE(describe(d));
    Buffer table(d.tableDtype, d.vocab * d.width), ids(d.idDtype, d.rows),
        out(d.outDtype, d.rows * d.ldOut);
    table.fillRandom(random);
    out.fill(0.5);
    for (int64_t r = 0; r < d.rows; ++r)
      ids.set(r, double(random() % uint64_t(d.vocab)));
    DeviceBuffer onTable(table), onIds(ids),
        onOut(out, bytesOf(d.outDtype) * int64_t(random() % 3 == 0));
    device.call([&] {
      shx_embedding(&device.context(), &d, onTable.data(), onIds.data(),
                    onOut.data());
    });
    Buffer result = onOut.download();
    for (int64_t r = 0; r < d.rows; ++r)
      for (int64_t x = 0; x < d.ldOut; ++x) {
        int64_t from = int64_t(ids.get(r)) * d.width + x;
        double expected =
            x < d.width ? roundToDtype(d.outDtype, table.get(from)) : 0.5;
        ASSERT_EQ(result.get(r * d.ldOut + x), expected);
      }
  }
}

// Ids count from the end of the table when negative. One outside of it gives
// NaN and is told, and nothing beyond the table is read.
TEST(CudaEmbedding, NegativeAndOutside) {
  CudaDevice &device = CudaDevice::get();
  for (int32_t type : {SHX_I32, SHX_I64})
    for (int64_t width : {3, 16}) {
      ShxEmbedding d{};
      d.rows = 6;
      d.vocab = 4;
      d.width = d.ldOut = width;
      d.idDtype = type;
      Buffer table(SHX_F32, d.vocab * width), ids(type, d.rows),
          out(SHX_F32, d.rows * width);
      for (int64_t i = 0; i < table.size(); ++i)
        table.set(i, double(i));
      const int64_t given[] = {-1, 0, -4, -5, 3, 4};
      const int64_t rows[] = {3, 0, 0, -1, 3, -1};
      for (int64_t r = 0; r < d.rows; ++r)
        ids.set(r, double(given[r]));
      DeviceBuffer onTable(table), onIds(ids), onOut(out);
      DeviceValue<std::array<int64_t, 3>> outside;
      device.context().cells.outside = outside.data()->data();
      device.call([&] {
        shx_embedding(&device.context(), &d, onTable.data(), onIds.data(),
                      onOut.data());
      });
      device.context().cells.outside = nullptr;
      Buffer result = onOut.download();
      for (int64_t r = 0; r < d.rows; ++r)
        for (int64_t x = 0; x < width; ++x)
          if (rows[r] < 0)
            EXPECT_TRUE(std::isnan(result.get(r * width + x)));
          else
            EXPECT_EQ(result.get(r * width + x), double(rows[r] * width + x));
      std::array<int64_t, 3> told = outside.get();
      EXPECT_EQ(told[0], 1);
      EXPECT_TRUE(told[1] == -5 || told[1] == 4);
      EXPECT_EQ(told[2], 4);
    }
}

struct GradProblem {
  GradProblem(const ShxEmbedding &d, std::mt19937 &random)
      : d(d), ids(d.idDtype, d.rows), dy(d.outDtype, d.rows * d.ldOut),
        dtable(d.tableDtype, d.vocab * d.width) {
    dtable.fillRandom(random);
    dy.fillRandom(random);
    // Some ids are much more frequent than others.
    for (int64_t r = 0; r < d.rows; ++r)
      ids.set(r, double(random() % 2 ? random() % uint64_t(d.vocab)
                                     : random() % uint64_t(1 + d.vocab / 50)));
  }

  Buffer run() const {
    CudaDevice &device = CudaDevice::get();
    DeviceBuffer onIds(ids), onDy(dy), onTable(dtable);
    DeviceBytes workspace(cudaLibraries().embeddingGrad(d));
    device.call([&] {
      shx_embedding_grad(&device.context(), &d, onIds.data(), onDy.data(),
                         onTable.data(), workspace.data());
    });
    EXPECT_TRUE(workspace.intact());
    return onTable.download();
  }

  std::vector<double> expected() const {
    std::vector<double> sums;
    for (int64_t x = 0; x < dtable.size(); ++x)
      sums.push_back(d.accumulate ? dtable.get(x) : 0);
    for (int64_t r = 0; r < d.rows; ++r) {
      auto id = int64_t(ids.get(r));
      for (int64_t x = 0; id != d.paddingIdx && x < d.width; ++x)
        sums[size_t(id * d.width + x)] += dy.get(r * d.ldOut + x);
    }
    return sums;
  }

  void check() const {
    SCOPED_TRACE(describe(d));
    Buffer result = run();
    // Half a unit in the last place: the sum is rounded once.
    double tolerance = d.tableDtype == SHX_F32    ? 1e-6
                       : d.tableDtype == SHX_BF16 ? 0.501 / 128
                                                  : 0.501 / 1024;
    expectClose(result, expected(), tolerance, "dtable");
  }

  ShxEmbedding d;
  Buffer ids, dy, dtable;
};

TEST(CudaEmbeddingGrad, GeneratedShapes) {
  std::mt19937 random(4);
  for (int i = 0; i < 60; ++i) {
    GradProblem(randomEmbedding(random), random).check();
    if (HasFatalFailure())
      return;
  }
}

ShxEmbedding plain(int64_t rows, int64_t width, int64_t vocab) {
  ShxEmbedding d{};
  d.rows = rows;
  d.width = d.ldOut = width;
  d.vocab = vocab;
  d.idDtype = SHX_I64;
  d.paddingIdx = -1;
  return d;
}

// One pass, two, and three; several tiles of each kernel.
TEST(CudaEmbeddingGrad, SortsAnyVocabulary) {
  std::mt19937 random(6);
  for (int64_t vocab : {2, 512, 513, 50257, 262144, 262145}) {
    GradProblem(plain(4500, 1, vocab), random).check();
    if (HasFatalFailure())
      return;
  }
}

// Negative ids mean the rows that they are counted to.
TEST(CudaEmbeddingGrad, NegativeIds) {
  std::mt19937 random(11);
  GradProblem p(plain(600, 12, 30), random), negative = p;
  for (int64_t r = 0; r < p.d.rows; r += 2)
    negative.ids.set(r, p.ids.get(r) - 30);
  EXPECT_EQ(negative.run(), p.run());
}

// The work of one id is spread over tiles, and joined.
TEST(CudaEmbeddingGrad, OneHotRow) {
  std::mt19937 random(7);
  for (int64_t rows : {128, 256, 1000}) {
    // Wider than the columns of one block, too.
    GradProblem p(plain(rows, rows == 256 ? 1032 : 40, 9), random);
    for (int64_t r = 0; r < rows; ++r)
      p.ids.set(r, r == rows / 2 ? 8 : 4);
    p.check();
  }
}

TEST(CudaEmbeddingGrad, SameBitsInEveryRun) {
  std::mt19937 random(8);
  GradProblem p(plain(1500, 24, 40), random);
  Buffer first = p.run();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(p.run(), first);
}

TEST(CudaEmbeddingGrad, NoRows) {
  std::mt19937 random(9);
  GradProblem(plain(0, 8, 5), random).check();
}

TEST(CudaEmbeddingGrad, PlanCoversTheVocabulary) {
  for (int64_t vocab = 1; vocab < (int64_t(1) << 31); vocab = vocab * 3 + 1) {
    auto plan = rt::cuda::planEmbeddingGrad(plain(100, 8, vocab));
    EXPECT_GE(int64_t(1) << (plan.passes * plan.digitBits), vocab);
    EXPECT_LE(plan.digitBits, rt::cuda::kMaxDigitBits);
  }
}

} // namespace
