// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The matrix product and both cross-entropies against their definitions in
// double: odd sizes, strides, broadcast batches, every float type.

#include "loss_problem.h"
#include "shardonnx/runtime/Cpu.h"
#include "shardonnx/runtime/Workspace.h"

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

// A random product: batch dims may be broadcast on either operand.
struct GemmProblem {
  explicit GemmProblem(std::mt19937 &random) {
    desc.m = pick(random, {1, 2, 7, 16, 33, 70});
    desc.n = pick(random, {1, 3, 8, 17, 64, 65});
    desc.k = pick(random, {1, 2, 9, 32, 50});
    desc.transA = random() % 2;
    desc.transB = random() % 2;
    desc.lda = (desc.transA ? desc.m : desc.k) + int64_t(random() % 3);
    desc.ldb = (desc.transB ? desc.k : desc.n) + int64_t(random() % 3);
    desc.ldc = desc.n + int64_t(random() % 3);
    desc.dtypeA = int32_t(random() % 3);
    desc.dtypeB = int32_t(random() % 3);
    desc.dtypeC = int32_t(random() % 3);
    desc.accumulate = random() % 2;
    desc.batchRank = int32_t(random() % 4);
    int64_t a = (desc.transA ? desc.k : desc.m) * desc.lda;
    int64_t b = (desc.transB ? desc.n : desc.k) * desc.ldb;
    int64_t c = desc.m * desc.ldc;
    for (int32_t i = desc.batchRank - 1; i >= 0; --i) {
      desc.batch[i] = pick(random, {1, 2, 3});
      desc.batchStrideA[i] = random() % 4 == 0 ? 0 : a;
      desc.batchStrideB[i] = random() % 2 == 0 ? 0 : b;
      desc.batchStrideC[i] = c;
      a *= desc.batchStrideA[i] ? desc.batch[i] : 1;
      b *= desc.batchStrideB[i] ? desc.batch[i] : 1;
      c *= desc.batch[i];
    }
    sizeA = a;
    sizeB = b;
    sizeC = c;
  }

  std::vector<double> expected(const Buffer &a, const Buffer &b,
                               const Buffer &c) const {
    std::vector<double> result(static_cast<size_t>(sizeC));
    for (int64_t i = 0; i < sizeC; ++i)
      result[size_t(i)] = c.get(i);
    int64_t batch = 1;
    for (int32_t i = 0; i < desc.batchRank; ++i)
      batch *= desc.batch[i];
    for (int64_t index = 0; index < batch; ++index) {
      int64_t atA = 0, atB = 0, atC = 0, rest = index;
      for (int32_t i = desc.batchRank - 1; i >= 0; --i) {
        int64_t here = rest % desc.batch[i];
        rest /= desc.batch[i];
        atA += here * desc.batchStrideA[i];
        atB += here * desc.batchStrideB[i];
        atC += here * desc.batchStrideC[i];
      }
      for (int64_t y = 0; y < desc.m; ++y)
        for (int64_t x = 0; x < desc.n; ++x) {
          int64_t at = atC + y * desc.ldc + x;
          double sum = desc.accumulate ? c.get(at) : 0;
          for (int64_t z = 0; z < desc.k; ++z)
            sum += a.get(atA +
                         (desc.transA ? z * desc.lda + y : y * desc.lda + z)) *
                   b.get(atB +
                         (desc.transB ? x * desc.ldb + z : z * desc.ldb + x));
          result[size_t(at)] = sum;
        }
    }
    return result;
  }

  ShxGemm desc{};
  int64_t sizeA, sizeB, sizeC;
};

void generatedProducts() {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    GemmProblem p(random);
    Buffer a(p.desc.dtypeA, p.sizeA), b(p.desc.dtypeB, p.sizeB),
        c(p.desc.dtypeC, p.sizeC);
    for (Buffer *buffer : {&a, &b, &c})
      buffer->fillRandom(random);
    std::vector<double> expected = p.expected(a, b, c);
    Workspace workspace(cpuLibraries().gemm(p.desc));
    shx_gemm(nullptr, &p.desc, a.data(), b.data(), c.data(), workspace.data());
    EXPECT_TRUE(workspace.intact());
    expectClose(c, expected, precision(p.desc.dtypeC), "c");
    if (testing::Test::HasFatalFailure())
      return;
  }
}

TEST(CpuGemm, GeneratedProducts) { forEachProductTable(generatedProducts); }

// Panels of both operands, and sums of a narrow result whose depth is cut.
TEST(CpuGemm, WorkspaceHoldsPackedOperands) {
  ShxGemm desc{};
  desc.m = 64;
  desc.n = 96;
  desc.k = 1000;
  EXPECT_EQ(cpuLibraries().gemm(desc), (64 + 96) * 1000 * 4);
  desc.dtypeC = SHX_BF16;
  EXPECT_EQ(cpuLibraries().gemm(desc), (64 + 96) * 1000 * 4);
  desc.k = 2048;
  EXPECT_EQ(cpuLibraries().gemm(desc), (64 + 96) * 1024 * 4 + 64 * 96 * 4);
  desc.m = desc.n = desc.k = 1 << 20;
  EXPECT_LE(cpuLibraries().gemm(desc), 17 << 20);
}

TEST(CpuGemm, LargeBatchInNarrowTypesKeepsWorkspaceBounded) {
  ShxGemm desc{};
  desc.m = desc.n = desc.k = desc.lda = desc.ldb = desc.ldc = 256;
  desc.dtypeA = desc.dtypeB = desc.dtypeC = SHX_BF16;
  desc.batchRank = 1;
  desc.batch[0] = 20;
  desc.batchStrideA[0] = desc.batchStrideB[0] = desc.batchStrideC[0] =
      256 * 256;
  EXPECT_LE(cpuLibraries().gemm(desc), 8 << 20);
  std::mt19937 random(1);
  Buffer a(SHX_BF16, 20 * 256 * 256), b(SHX_BF16, a.size()),
      c(SHX_BF16, a.size());
  a.fillRandom(random);
  b.fill(0);
  for (int64_t i = 0; i < 20 * 256; ++i)
    b.set(i / 256 * 256 * 256 + i % 256 * 257, 2); // twice the identity
  Workspace workspace(cpuLibraries().gemm(desc));
  shx_gemm(nullptr, &desc, a.data(), b.data(), c.data(), workspace.data());
  EXPECT_TRUE(workspace.intact());
  for (int64_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(c.get(i), 2 * a.get(i));
}

float run(LossProblem &p, bool gradients) {
  float result = NAN;
  Workspace workspace(cpuLibraries().linearCrossEntropy(p.d));
  shx_linear_cross_entropy(nullptr, &p.d, p.x.data(), p.w.data(),
                           p.labels.data(), gradients ? &p.seed : nullptr,
                           &result, gradients ? p.dx.data() : nullptr,
                           gradients ? p.dw.data() : nullptr, workspace.data());
  EXPECT_TRUE(workspace.intact());
  return result;
}

void checkLoss(const ShxLinearCrossEntropy &d) {
  SCOPED_TRACE(testing::Message()
               << "rows " << d.rows << " width " << d.width << " vocab "
               << d.vocab << " chunk " << d.chunkRows << " transW " << d.transW
               << " dtypes " << d.dtypeX << d.dtypeW << d.dtypeDw << " cap "
               << d.softcap << " accumulate " << d.accumulateDw);
  LossProblem p(d);
  p.reference();
  double tolerance = 1e-5 * std::max(1.0, p.loss);
  EXPECT_NEAR(run(p, false), p.loss, tolerance);
  EXPECT_NEAR(run(p, true), p.loss, tolerance);
  // Beside bf16 rows and weights the gradient of the logits is rounded, too.
  bool rounds = d.dtypeX == SHX_BF16 && d.dtypeW == SHX_BF16;
  expectClose(p.dx, p.dxExpected, precision(d.dtypeX), "dx");
  expectClose(p.dw, p.dwExpected, precision(rounds ? d.dtypeX : d.dtypeDw),
              "dw");
}

void generatedLosses() {
  std::mt19937 random(11);
  for (int i = 0; i < 80; ++i) {
    ShxLinearCrossEntropy d{};
    d.rows = pick(random, {1, 2, 15, 33, 70});
    d.width = pick(random, {1, 5, 16, 40});
    d.vocab = pick(random, {1, 2, 7, 31, 100, 257});
    d.chunkRows = std::min(d.rows, pick(random, {1, 16, 64}));
    d.ignoreIndex = -100;
    d.ldx = d.width + int64_t(random() % 3);
    d.lddx = d.width + int64_t(random() % 3);
    d.transW = random() % 2;
    d.dtypeX = int32_t(random() % 3);
    d.dtypeW = int32_t(random() % 3);
    d.dtypeDw = int32_t(random() % 3);
    d.accumulateDw = random() % 2;
    d.labelDtype = random() % 2 ? SHX_I64 : SHX_I32;
    d.softcap = random() % 3 == 0 ? 2.0f : 0;
    checkLoss(d);
    if (testing::Test::HasFatalFailure())
      return;
  }
}

TEST(CpuLinearCrossEntropy, GeneratedShapes) {
  forEachProductTable(generatedLosses);
}

// More words than are packed at once.
TEST(CpuLinearCrossEntropy, LargeVocabulary) {
  for (int32_t transW : {0, 1}) {
    ShxLinearCrossEntropy d{};
    d.rows = 2;
    d.chunkRows = 1;
    d.width = 8;
    d.vocab = 600000;
    d.ldx = d.lddx = d.width;
    d.ignoreIndex = -100;
    d.transW = transW;
    d.dtypeW = SHX_BF16;
    d.labelDtype = SHX_I64;
    checkLoss(d);
  }
}

TEST(CpuLinearCrossEntropy, ChunkRows) {
  auto chunkRows = [](int64_t rows, int64_t vocab) {
    ShxLinearCrossEntropy d{};
    d.rows = rows;
    d.vocab = vocab;
    return cpuLibraries().chunkRows(d);
  };
  EXPECT_EQ(chunkRows(100, 8192), 100);
  for (int64_t vocab : {1, 2, 50, 8192, 50257, 128256}) {
    int64_t chunk = chunkRows(1 << 20, vocab);
    EXPECT_EQ(chunk % 16, 0);
    EXPECT_GE(chunk, 16);
  }
}

TEST(CpuCrossEntropy, GeneratedShapes) {
  std::mt19937 random(17);
  for (int i = 0; i < 40; ++i) {
    ShxCrossEntropy d{};
    d.rows = pick(random, {1, 3, 255, 256, 300});
    d.classes = pick(random, {1, 2, 8, 33, 130});
    d.ignoreIndex = -100;
    d.dtype = int32_t(random() % 3);
    d.labelDtype = random() % 2 ? SHX_I64 : SHX_I32;
    Buffer logits(d.dtype, d.rows * d.classes), labels(d.labelDtype, d.rows);
    logits.fillRandom(random, 3);
    double loss = 0;
    float seed = 0.25f, result = NAN;
    std::vector<double> expected;
    for (int64_t r = 0; r < d.rows; ++r) {
      int64_t label = random() % 4 ? int64_t(random() % uint64_t(d.classes))
                                   : d.ignoreIndex;
      labels.set(r, double(label));
      std::vector<double> row;
      for (int64_t x = 0; x < d.classes; ++x)
        row.push_back(logits.get(r * d.classes + x));
      if (label != d.ignoreIndex)
        loss += rowLoss(row, label, 0);
      for (double x : row)
        expected.push_back(label == d.ignoreIndex ? 0 : seed * x);
    }
    double tolerance = 1e-5 * std::max(1.0, loss);
    forEachKernelTable([&] {
      shx_cross_entropy(nullptr, &d, logits.data(), labels.data(), nullptr,
                        &result, nullptr);
      EXPECT_NEAR(result, loss, tolerance);
      Buffer dlogits(d.dtype, logits.size());
      shx_cross_entropy(nullptr, &d, logits.data(), labels.data(), &seed,
                        &result, dlogits.data());
      EXPECT_NEAR(result, loss, tolerance);
      expectClose(dlogits, expected, precision(d.dtype), "dlogits");
      Buffer inPlace = logits;
      shx_cross_entropy(nullptr, &d, inPlace.data(), labels.data(), &seed,
                        &result, inPlace.data());
      EXPECT_EQ(inPlace, dlogits);
    });
    if (HasFatalFailure())
      return;
  }
}

TEST(CpuCrossEntropy, SameBitsForAnyNumberOfThreads) {
  std::mt19937 random(23);
  ShxCrossEntropy d{};
  d.rows = 1001;
  d.classes = 77;
  d.ignoreIndex = -100;
  d.labelDtype = SHX_I64;
  Buffer logits(SHX_F32, d.rows * d.classes), labels(SHX_I64, d.rows);
  logits.fillRandom(random, 3);
  for (int64_t r = 0; r < d.rows; ++r)
    labels.set(r, double(r % d.classes));
  float seed = 1, first = NAN;
  rt::setPoolThreads(1);
  Buffer expected(SHX_F32, logits.size());
  shx_cross_entropy(nullptr, &d, logits.data(), labels.data(), &seed, &first,
                    expected.data());
  for (int threads = 2; threads <= 4; ++threads) {
    rt::setPoolThreads(threads);
    Buffer dlogits(SHX_F32, logits.size());
    float loss = NAN;
    shx_cross_entropy(nullptr, &d, logits.data(), labels.data(), &seed, &loss,
                      dlogits.data());
    EXPECT_EQ(loss, first);
    EXPECT_EQ(dlogits, expected);
  }
}

TEST(CpuCrossEntropy, NanLogitsGiveNanLoss) {
  ShxCrossEntropy d{};
  d.rows = 2;
  d.classes = 40;
  d.ignoreIndex = -100;
  d.labelDtype = SHX_I64;
  Buffer logits(SHX_F32, 80), labels(SHX_I64, 2);
  logits.fill(1);
  labels.fill(3);
  logits.set(50, NAN);
  float loss = 0;
  shx_cross_entropy(nullptr, &d, logits.data(), labels.data(), nullptr, &loss,
                    nullptr);
  EXPECT_TRUE(std::isnan(loss));
}

// Those of a data file were checked; those that a graph computes are not.
TEST(CpuCrossEntropy, LabelsThatAreNoClassGiveNanLoss) {
  ShxCrossEntropy d{};
  d.rows = 2;
  d.classes = 40;
  d.ignoreIndex = -100;
  d.labelDtype = SHX_I64;
  Buffer logits(SHX_F32, 80), labels(SHX_I64, 2);
  logits.fill(1);
  for (double label : {-1, 40}) {
    labels.set(1, label);
    float loss = 0;
    shx_cross_entropy(nullptr, &d, logits.data(), labels.data(), nullptr, &loss,
                      nullptr);
    EXPECT_TRUE(std::isnan(loss));
  }
}

} // namespace
