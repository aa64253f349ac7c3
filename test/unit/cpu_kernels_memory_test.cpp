// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Embedding, copy with conversion, zero and launch on the pool.

#include "../../runtime/cpu/kernels/SharedVocabulary.h"
#include "copy_problem.h"
#include "shardonnx/runtime/Cpu.h"
#include <atomic>
#include <mutex>
#include <vector>

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

ShxEmbedding randomEmbedding(std::mt19937 &random) {
  ShxEmbedding d{};
  d.rows = pick(random, {1, 3, 50, 200});
  d.width = pick(random, {1, 7, 32, 100});
  d.vocab = pick(random, {1, 5, 60});
  d.ldOut = d.width + int64_t(random() % 3);
  d.tableDtype = int32_t(random() % 3);
  d.outDtype = int32_t(random() % 3);
  d.accumulate = random() % 2;
  d.idDtype = random() % 2 ? SHX_I64 : SHX_I32;
  d.paddingIdx = random() % 2 ? 0 : -1;
  return d;
}

TEST(CpuEmbedding, LooksUpAndConverts) {
  std::mt19937 random(2);
  for (int i = 0; i < 60; ++i) {
    ShxEmbedding d = randomEmbedding(random);
    Buffer table(d.tableDtype, d.vocab * d.width), ids(d.idDtype, d.rows),
        out(d.outDtype, d.rows * d.ldOut);
    table.fillRandom(random);
    out.fill(0.5);
    for (int64_t r = 0; r < d.rows; ++r)
      ids.set(r, double(random() % uint64_t(d.vocab)));
    shx_embedding(nullptr, &d, table.data(), ids.data(), out.data());
    EXPECT_TRUE(out.guardsIntact());
    for (int64_t r = 0; r < d.rows; ++r)
      for (int64_t x = 0; x < d.ldOut; ++x) {
        double expected =
            x < d.width
                ? roundToDtype(d.outDtype,
                               table.get(int64_t(ids.get(r)) * d.width + x))
                : 0.5;
        ASSERT_EQ(out.get(r * d.ldOut + x), expected);
      }
  }
}

// Of a table that ranks share, each finds its rows, and what they find adds up
// to the whole's; so do their gradients.
TEST(CpuEmbedding, Parts) {
  std::mt19937 random(6);
  for (int i = 0; i < 40; ++i) {
    ShxEmbedding d = randomEmbedding(random);
    int64_t parts = pick(random, {2, 3}), rows = d.vocab * parts;
    d.paddingIdx = -1;
    d.tableDtype = d.outDtype = random() % 2 ? SHX_F32 : SHX_BF16;
    Buffer table(d.tableDtype, rows * d.width), ids(d.idDtype, d.rows),
        dy(d.outDtype, d.rows * d.ldOut);
    table.fillRandom(random);
    dy.fillRandom(random);
    for (int64_t r = 0; r < d.rows; ++r) // some from the end
      ids.set(r, double(random() % uint64_t(rows)) -
                     double(random() % 4 == 0 ? rows : 0));
    auto rowOf = [&](int64_t at) {
      auto id = int64_t(ids.get(at));
      return id < 0 ? id + rows : id;
    };
    for (int64_t rank = 0; rank < parts; ++rank) {
      d.accumulate = 0;
      ShxEmbeddingPart desc{d, d.vocab * parts, 0, int32_t(parts)};
      int64_t first = rank * d.vocab;
      Buffer mine(d.tableDtype, d.vocab * d.width),
          dmine(d.tableDtype, mine.size()), out(d.outDtype, d.rows * d.ldOut);
      for (int64_t e = 0; e < mine.size(); ++e)
        mine.set(e, table.get(first * d.width + e));
      out.fill(0.5);
      rt::lookUpPart(desc, rank, mine.data(), ids.data(), out.data());
      rt::addToPart(nullptr, desc, rank, ids.data(), dy.data(), dmine.data());
      EXPECT_TRUE(out.guardsIntact() && dmine.guardsIntact());
      std::vector<double> expected(size_t(mine.size()));
      for (int64_t r = 0; r < d.rows; ++r) {
        int64_t row = rowOf(r) - first;
        bool has = row >= 0 && row < d.vocab;
        for (int64_t x = 0; x < d.width; ++x) {
          ASSERT_EQ(out.get(r * d.ldOut + x),
                    has ? mine.get(row * d.width + x) : 0);
          if (has)
            expected[size_t(row * d.width + x)] += dy.get(r * d.ldOut + x);
        }
      }
      expectClose(dmine, expected, precision(d.tableDtype), "dtable");
    }
  }
}

TEST(CpuEmbedding, Gradient) {
  std::mt19937 random(4);
  for (int i = 0; i < 80; ++i) {
    ShxEmbedding d = randomEmbedding(random);
    Buffer dtable(d.tableDtype, d.vocab * d.width), ids(d.idDtype, d.rows),
        dy(d.outDtype, d.rows * d.ldOut);
    dtable.fillRandom(random);
    dy.fillRandom(random);
    std::vector<double> expected;
    for (int64_t x = 0; x < dtable.size(); ++x)
      expected.push_back(d.accumulate ? dtable.get(x) : 0);
    for (int64_t r = 0; r < d.rows; ++r) {
      int64_t id = int64_t(random() % uint64_t(d.vocab));
      ids.set(r, double(id));
      for (int64_t x = 0; id != d.paddingIdx && x < d.width; ++x)
        expected[size_t(id * d.width + x)] += dy.get(r * d.ldOut + x);
    }
    shx_embedding_grad(nullptr, &d, ids.data(), dy.data(), dtable.data(),
                       nullptr);
    // Half a unit in the last place: the sum is rounded once.
    double tolerance = d.tableDtype == SHX_F32    ? 1e-6
                       : d.tableDtype == SHX_BF16 ? 0.501 / 128
                                                  : 0.501 / 1024;
    expectClose(dtable, expected, tolerance, "dtable");
    if (HasFatalFailure())
      return;
  }
}

TEST(CpuEmbedding, GradientHasTheSameBitsForAnyNumberOfThreads) {
  std::mt19937 random(6);
  ShxEmbedding d{};
  d.rows = 3000;
  d.width = d.ldOut = 200;
  d.vocab = 20;
  d.idDtype = SHX_I64;
  d.paddingIdx = -1;
  Buffer ids(SHX_I64, d.rows), dy(SHX_F32, d.rows * d.width);
  dy.fillRandom(random);
  for (int64_t r = 0; r < d.rows; ++r)
    ids.set(r, double(random() % 20));
  rt::setPoolThreads(1);
  Buffer expected(SHX_F32, d.vocab * d.width);
  shx_embedding_grad(nullptr, &d, ids.data(), dy.data(), expected.data(),
                     nullptr);
  for (int threads = 2; threads <= 4; ++threads) {
    rt::setPoolThreads(threads);
    Buffer dtable(SHX_F32, d.vocab * d.width);
    shx_embedding_grad(nullptr, &d, ids.data(), dy.data(), dtable.data(),
                       nullptr);
    EXPECT_EQ(dtable, expected);
  }
}

void checkCopy(std::mt19937 &random, bool large, int32_t from, int32_t to) {
  CopyProblem p(random, large);
  p.d.srcDtype = from;
  p.d.dstDtype = to;
  p.d.accumulate = from <= SHX_F16 && to <= SHX_F16 && random() % 3 == 0;
  Buffer src(from, p.sizeSrc), dst(to, p.sizeDst);
  src.fillRandom(random, from == SHX_I64 || from == SHX_I32 ? 1000 : 2);
  dst.fillRandom(random, 2);
  std::vector<double> expected = p.expected(src, dst);
  shx_copy(nullptr, &p.d, src.data(), dst.data());
  EXPECT_TRUE(dst.guardsIntact());
  for (int64_t i = 0; i < p.sizeDst; ++i)
    ASSERT_EQ(dst.get(i), expected[size_t(i)])
        << "rank " << p.d.rank << " " << from << " to " << to << " at " << i;
}

TEST(CpuCopy, EveryPairOfTypes) {
  std::mt19937 random(8);
  for (int32_t from = SHX_F32; from <= SHX_I1; ++from)
    for (int32_t to = SHX_F32; to <= SHX_I1; ++to)
      for (int i = 0; i < 12; ++i) {
        checkCopy(random, false, from, to);
        if (HasFatalFailure())
          return;
      }
}

TEST(CpuCopy, LargeF32) {
  std::mt19937 random(9);
  for (int i = 0; i < 60; ++i) {
    checkCopy(random, true, SHX_F32, SHX_F32);
    if (HasFatalFailure())
      return;
  }
}

// Complex numbers of which the axes change places: in tiles, in lines, and
// where they do not begin at whole pairs.
TEST(CpuCopy, TransposesPairs) {
  std::mt19937 random(31);
  for (int64_t rows : {3, 8, 70, 129})
    for (int64_t columns : {2, 9, 65})
      for (int64_t first : {0, 1, 2}) {
        ShxCopy d{};
        d.rank = 3;
        const int64_t dims[] = {columns, rows, 2};
        const int64_t src[] = {2, 2 * columns, 1}, dst[] = {2 * rows, 2, 1};
        std::copy_n(dims, 3, d.dims);
        std::copy_n(src, 3, d.srcStride);
        std::copy_n(dst, 3, d.dstStride);
        Buffer from(SHX_F32, 2 * rows * columns + first),
            to(SHX_F32, 2 * rows * columns);
        from.fillRandom(random);
        rt::setPoolThreads(1 + int(random() % 3));
        shx_copy(nullptr, &d, static_cast<float *>(from.data()) + first,
                 to.data());
        EXPECT_TRUE(to.guardsIntact());
        for (int64_t i = 0; i < to.size(); ++i)
          ASSERT_EQ(to.get(i), from.get(first + i / 2 / rows * 2 +
                                        i / 2 % rows * 2 * columns + i % 2));
      }
}

TEST(CpuCopy, LongRunsAreSharedOut) {
  std::mt19937 random(10);
  ShxCopy d{};
  d.rank = 1;
  d.dims[0] = 100001;
  d.srcStride[0] = d.dstStride[0] = 1;
  d.srcDtype = SHX_BF16;
  d.dstDtype = SHX_F32;
  Buffer src(SHX_BF16, d.dims[0]), dst(SHX_F32, d.dims[0]);
  src.fillRandom(random);
  shx_copy(nullptr, &d, src.data(), dst.data());
  EXPECT_TRUE(dst.guardsIntact());
  for (int64_t i = 0; i < d.dims[0]; ++i)
    ASSERT_EQ(dst.get(i), src.get(i));
}

TEST(CpuCopy, NarrowingKeepsSpecialValues) {
  const double values[] = {
      0.0,    -0.0,  INFINITY, -INFINITY,     1e-40, 65504, 65520, 1e39,
      3.4e38, -1e-8, 6e-8,     1 + 1.0 / 256, NAN,   2,     -3,    0.1};
  for (int32_t to : {SHX_BF16, SHX_F16}) {
    ShxCopy d{};
    d.rank = 1;
    d.dims[0] = 16;
    d.srcStride[0] = d.dstStride[0] = 1;
    d.dstDtype = to;
    Buffer src(SHX_F32, 16), dst(to, 16);
    for (int i = 0; i < 16; ++i)
      src.set(i, values[i]);
    shx_copy(nullptr, &d, src.data(), dst.data());
    double largest = to == SHX_F16 ? 65504 : 3.3895313892515355e38;
    for (int i = 0; i < 16; ++i) {
      double expected = roundToDtype(to, src.get(i));
      if (std::fabs(expected) > largest)
        expected = std::copysign(INFINITY, expected);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(dst.get(i)));
      else
        EXPECT_EQ(dst.get(i), expected) << values[i];
    }
  }
}

TEST(CpuPool, ZeroFillsExactly) {
  for (int64_t bytes : {0, 1, 100, 1000003}) {
    Buffer buffer(SHX_I1, bytes);
    buffer.fill(1);
    shx_zero(nullptr, buffer.data(), bytes);
    EXPECT_TRUE(buffer.guardsIntact());
    for (int64_t i = 0; i < bytes; ++i)
      ASSERT_EQ(buffer.get(i), 0);
  }
}

// Adds 1 to each index; the last argument counts calls that break the grain.
void countKernel(void *const *args, int64_t begin, int64_t end) {
  auto *counts = static_cast<int32_t *>(args[0]);
  auto *misaligned = static_cast<std::atomic<int> *>(args[1]);
  int64_t grain = *static_cast<int64_t *>(args[2]);
  if (begin % grain)
    ++*misaligned;
  for (int64_t i = begin; i < end; ++i)
    ++counts[i];
}

TEST(CpuPool, LaunchCoversTheRangeOnce) {
  for (int threads = 1; threads <= 4; ++threads) {
    rt::setPoolThreads(threads);
    for (int64_t count : {0, 1, 5, 64, 1000})
      for (int64_t grain : {1, 7, 64}) {
        std::vector<int32_t> counts(size_t(count), 0);
        std::atomic<int> misaligned{0};
        void *args[] = {counts.data(), &misaligned, &grain};
        shx_launch(nullptr, countKernel, args, count, grain, "count");
        EXPECT_EQ(misaligned, 0);
        for (int32_t c : counts)
          EXPECT_EQ(c, 1);
      }
  }
}

int traced = 0, parts = 0;

TEST(CpuPool, TraceSeesEachCall) {
  rt::setKernelTrace([](ShxContext *, const char *name, int thread,
                        int64_t begin, int64_t end) {
    static std::mutex mutex; // the pool's threads tell, too
    std::lock_guard<std::mutex> lock(mutex);
    EXPECT_STREQ(name, "zero");
    EXPECT_LE(begin, end);
    ++(thread == rt::kWholeCall ? traced : parts);
  });
  std::vector<char> bytes(1 << 20, 1);
  shx_zero(nullptr, bytes.data(), 1 << 20);
  rt::setKernelTrace(nullptr);
  shx_zero(nullptr, bytes.data(), 1);
  EXPECT_EQ(traced, 1);
  EXPECT_NE(parts, 1); // of each thread, where there are several
}

} // namespace
