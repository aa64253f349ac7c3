// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix products at sizes that make several chunks, blocks and tiles, in every
// layout, on every path that products take: against sums in double.

#include "../../runtime/cpu/kernels/Product.h"
#include "cpu_kernels_util.h"
#include "shardonnx/runtime/Cpu.h"

using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

struct Shape {
  int64_t m, n, k;
};

struct Problem {
  Problem(Shape shape, bool transA, bool transB, int32_t dtype, int32_t dtypeC)
      : shape(shape), transA(transA), transB(transB),
        a(dtype, shape.m * shape.k + kShift),
        b(dtype, shape.k * shape.n + kShift),
        c(dtypeC, shape.m * (shape.n + kGap) + kShift) {
    std::mt19937 random(7);
    for (Buffer *buffer : {&a, &b, &c})
      buffer->fillRandom(random);
  }

  double left(int64_t i, int64_t z) const {
    return a.get(kShift + (transA ? z * shape.m + i : i * shape.k + z));
  }
  double right(int64_t z, int64_t j) const {
    return b.get(kShift + (transB ? j * shape.k + z : z * shape.n + j));
  }
  int64_t at(int64_t i, int64_t j) const {
    return kShift + i * (shape.n + kGap) + j;
  }

  std::vector<double> expected(bool accumulate) const {
    std::vector<double> lhs, rhs, result = c.values();
    for (int64_t i = 0; i < shape.m; ++i)
      for (int64_t z = 0; z < shape.k; ++z)
        lhs.push_back(left(i, z));
    for (int64_t j = 0; j < shape.n; ++j)
      for (int64_t z = 0; z < shape.k; ++z)
        rhs.push_back(right(z, j));
    for (int64_t i = 0; i < shape.m; ++i)
      for (int64_t j = 0; j < shape.n; ++j) {
        double sum = 0;
        const double *x = &lhs[size_t(i * shape.k)];
        const double *y = &rhs[size_t(j * shape.k)];
        for (int64_t z = 0; z < shape.k; ++z)
          sum += x[z] * y[z];
        double &to = result[size_t(at(i, j))];
        to = sum + (accumulate ? to : 0);
      }
    return result;
  }

  // Addresses are those of elements, not of vectors.
  void run(bool accumulate) { runRows(shape.m, accumulate); }
  void runRows(int64_t rows, bool accumulate) {
    auto element = [](Buffer &buffer, int64_t index) {
      return static_cast<uint8_t *>(buffer.data()) +
             index * bytesOf(buffer.dtype);
    };
    Product product{};
    product.m = rows;
    product.n = shape.n;
    product.k = shape.k;
    product.a = leftOperand(a.dtype, element(a, kShift),
                            transA ? shape.m : shape.k, transA);
    product.b = rightOperand(b.dtype, element(b, kShift),
                             transB ? shape.k : shape.n, transB);
    product.c = element(c, kShift);
    product.cStride = shape.n + kGap;
    product.cDtype = c.dtype;
    product.accumulate = accumulate;
    Workspace workspace(
        planProduct(rows, shape.n, shape.k, product.cDtype).bytes);
    multiply(product, workspace.data());
    EXPECT_TRUE(workspace.intact());
  }

  static constexpr int64_t kShift = 1, kGap = 3;
  Shape shape;
  bool transA, transB;
  Buffer a, b, c;
};

TEST(CpuProduct, EveryLayoutOnEveryPath) {
  // Several chunks of depth, of rows, of columns; less than a tile; few columns
  // and few rows, with whole vectors of B and without; pairs that an odd depth
  // does not fill.
  for (Shape shape :
       {Shape{70, 101, 1700}, Shape{1100, 50, 1540}, Shape{33, 1130, 1540},
        Shape{2, 3, 5}, Shape{208, 16, 1600}, Shape{75, 41, 300},
        Shape{21, 192, 1600}, Shape{16, 150, 300}, Shape{150, 816, 40},
        Shape{37, 60, 801}})
    for (int32_t dtype : {SHX_F32, SHX_BF16})
      for (int layout = 0; layout < 4; ++layout) {
        // The small shapes do all, each large one another kind of result.
        bool small = shape.m * shape.n < 10000;
        bool accumulate = layout % 2 == 1;
        if (!small && layout != (dtype == SHX_F32 ? 1 : 2))
          continue;
        SCOPED_TRACE(testing::Message()
                     << shape.m << "×" << shape.n << "×" << shape.k << " dtype "
                     << dtype << " layout " << layout);
        Problem p(shape, layout / 2, layout % 2, dtype, dtype);
        std::vector<double> expected = p.expected(accumulate);
        Buffer before = p.c;
        forEachProductTable([&] {
          std::memcpy(p.c.data(), before.data(),
                      size_t(before.size() * bytesOf(dtype)));
          p.run(accumulate);
          expectClose(p.c, expected, precision(dtype), "c");
        });
      }
}

// A rank with fewer rows or threads computes the same bits.
TEST(CpuProduct, RowsDoNotDependOnOthersNorOnThreads) {
  forEachProductTable([] {
    for (int32_t dtype : {SHX_F32, SHX_BF16}) {
      Problem p({300, 100, 800}, false, true, dtype, dtype);
      setPoolThreads(1);
      p.run(false);
      Buffer alone = p.c;
      setPoolThreads(3);
      p.c.fill(0);
      p.run(false);
      for (int64_t i = 0; i < 300; ++i)
        for (int64_t j = 0; j < 100; ++j)
          ASSERT_EQ(alone.get(p.at(i, j)), p.c.get(p.at(i, j)));
      p.runRows(13, false);
      for (int64_t j = 0; j < 100; ++j)
        ASSERT_EQ(alone.get(p.at(12, j)), p.c.get(p.at(12, j)));
    }
  });
}

// What is read where it lies gives the bits of what is packed.
TEST(CpuProduct, PackedOrNotTheSameBits) {
  forEachKernelTable([] {
    Kernels lying = kernels(), packing = lying;
    ProductKernels packed = *packing.f32Product;
    ASSERT_NE(packed.multiplyStrided, nullptr);
    packed.multiplyStrided = nullptr;
    packing.f32Product = &packed;
    for (Shape shape : {Shape{112, 16, 500}, Shape{20, 96, 500},
                        Shape{112, 96, 1700}, Shape{150, 816, 40}})
      for (int layout = 0; layout < 4; ++layout) {
        Problem p(shape, layout / 2, layout % 2, SHX_F32, SHX_F32);
        auto resultOf = [&](const Kernels &table) {
          p.c.fill(1);
          withKernels("f32", table, nullptr, nullptr, [&] { p.run(true); });
          return p.c.values();
        };
        EXPECT_EQ(resultOf(lying), resultOf(packing))
            << shape.m << " layout " << layout;
      }
  });
}

void setBits(Buffer &buffer, int64_t index, uint32_t f32, uint16_t f16) {
  uint8_t *at =
      static_cast<uint8_t *>(buffer.data()) + index * bytesOf(buffer.dtype);
  uint16_t half = buffer.dtype == SHX_BF16 ? uint16_t(f32 >> 16) : f16;
  if (buffer.dtype == SHX_F32)
    std::memcpy(at, &f32, 4);
  else
    std::memcpy(at, &half, 2);
}

// NaN and infinity reach the rows and columns that they belong to, no others.
TEST(CpuProduct, SpecialValuesStayInTheirRowsAndColumns) {
  forEachProductTable([] {
    for (int32_t dtype : {SHX_F32, SHX_BF16, SHX_F16}) {
      Problem p({19, 50, 33}, false, false, dtype, SHX_F32);
      setBits(p.a, Problem::kShift + 17 * 33 + 32, 0x7fc00000, 0x7e00);
      setBits(p.b, Problem::kShift + 4 * 50 + 49, 0x7f800000, 0x7c00);
      p.run(false);
      for (int64_t i = 0; i < 19; ++i)
        for (int64_t j = 0; j < 50; ++j) {
          double value = p.c.get(p.at(i, j));
          EXPECT_EQ(std::isnan(value), i == 17) << i << " " << j;
          if (i != 17)
            EXPECT_EQ(std::isinf(value), j == 49) << i << " " << j;
        }
    }
  });
}

// Where a product may round f32 to bf16 beside bf16, it does as the type does.
TEST(CpuProduct, RoundsToNearestEven) {
  if (!hasBf16())
    GTEST_SKIP() << "this CPU has no instruction for bf16";
  withKernels("avx512-bf16", v4::kernelTable, nullptr, &bf16::bf16Product, [] {
    constexpr int64_t kSize = 40;
    std::mt19937 random(3);
    Buffer x(SHX_F32, kSize * kSize), one(SHX_BF16, kSize * kSize),
        c(SHX_F32, kSize * kSize);
    x.fillRandom(random);
    one.fill(0);
    for (int64_t i = 0; i < kSize; ++i)
      one.set(i * (kSize + 1), 1);
    for (bool transposed : {false, true}) {
      Product product{};
      product.m = product.n = product.k = kSize;
      product.a = leftOperand(SHX_F32, x.data(), kSize, transposed);
      product.b = rightOperand(SHX_BF16, one.data(), kSize, false);
      product.c = c.data();
      product.cStride = kSize;
      product.mayRound = true;
      Workspace workspace(planProduct(kSize, kSize, kSize, SHX_F32).bytes);
      multiply(product, workspace.data());
      for (int64_t i = 0; i < kSize; ++i)
        for (int64_t j = 0; j < kSize; ++j)
          EXPECT_EQ(c.get(i * kSize + j),
                    roundToDtype(SHX_BF16, x.get(transposed ? j * kSize + i
                                                            : i * kSize + j)));
    }
  });
}

// Where dot products of pairs take longer than to widen them, pairs are AMX's.
TEST(CpuProduct, PairsWhereTheyAreFast) {
  for (bool dots : {false, true}) {
    Kernels plain = kernelsOf("x86-64-v4", dots);
    EXPECT_EQ(plain.bf16Product, nullptr);
    EXPECT_EQ(plain.bf16Attention, nullptr);
    Kernels pairs = kernelsOf("avx512-bf16", dots);
    EXPECT_EQ(pairs.bf16Product, dots ? &bf16::bf16Product : nullptr);
    EXPECT_EQ(pairs.bf16Attention, dots ? &bf16::attentionKernels : nullptr);
    Kernels tiles = kernelsOf("amx-bf16", dots);
    EXPECT_EQ(tiles.bf16Product, &amx::bf16Product);
    EXPECT_EQ(tiles.bf16Attention, pairs.bf16Attention);
    EXPECT_EQ(tiles.f32Product, v4::kernelTable.f32Product);
  }
}

TEST(CpuProduct, ProductsOfNothing) {
  Product product{};
  Buffer c(SHX_BF16, 6);
  c.fill(3);
  product.m = 2;
  product.n = 3;
  product.c = c.data();
  product.cStride = 3;
  product.cDtype = SHX_BF16;
  product.accumulate = true;
  multiply(product, nullptr);
  EXPECT_EQ(c.get(5), 3);
  product.accumulate = false;
  multiply(product, nullptr);
  EXPECT_EQ(c.get(0), 0);
  EXPECT_EQ(c.get(5), 0);
}

} // namespace
