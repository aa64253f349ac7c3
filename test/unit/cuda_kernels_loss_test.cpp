// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cross-entropy on the device: rows at any alignment, in place and not, and the
// chunked form with its products.

#include "../../runtime/cuda/plan/LossPlan.h"
#include "cuda_kernels_util.h"
#include "loss_problem.h"
#include "shardonnx/runtime/Workspace.h"

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

struct LogitsProblem {
  LogitsProblem(std::mt19937 &random, const ShxCrossEntropy &d)
      : d(d), logits(d.dtype, d.rows * d.classes),
        labels(d.labelDtype, d.rows) {
    logits.fillRandom(random, 3);
    for (int64_t r = 0; r < d.rows; ++r)
      labels.set(r, random() % 4 ? double(random() % uint64_t(d.classes))
                                 : double(d.ignoreIndex));
  }

  void reference() {
    loss = 0;
    expected.clear();
    for (int64_t r = 0; r < d.rows; ++r) {
      auto label = int64_t(labels.get(r));
      std::vector<double> row;
      for (int64_t x = 0; x < d.classes; ++x)
        row.push_back(logits.get(r * d.classes + x));
      if (label != d.ignoreIndex)
        loss += rowLoss(row, label, 0);
      for (double x : row)
        expected.push_back(label == d.ignoreIndex ? 0 : seed * x);
    }
  }

  // The loss; offset: of the gradient's address, -1: it replaces the logits,
  // -2: none is asked for.
  float run(int64_t offset, Buffer &dlogits) const {
    CudaDevice &device = CudaDevice::get();
    DeviceBuffer onLogits(logits), onLabels(labels),
        onGradient(dlogits, std::max<int64_t>(0, offset));
    DeviceValue<float> onSeed(seed), onLoss(NAN);
    void *to = offset == -2   ? nullptr
               : offset == -1 ? onLogits.data()
                              : onGradient.data();
    device.call([&] {
      shx_cross_entropy(&device.context(), &d, onLogits.data(), onLabels.data(),
                        onSeed.data(), onLoss.data(), to);
    });
    (offset == -1 ? onLogits : onGradient).download(dlogits);
    return onLoss.get();
  }

  ShxCrossEntropy d;
  Buffer logits, labels;
  float seed = 0.25f;
  double loss = 0;
  std::vector<double> expected;
};

ShxCrossEntropy crossEntropy(int64_t rows, int64_t classes, int32_t dtype) {
  ShxCrossEntropy d{};
  d.rows = rows;
  d.classes = classes;
  d.ignoreIndex = -100;
  d.dtype = dtype;
  d.labelDtype = SHX_I64;
  return d;
}

void checkLogits(std::mt19937 &random, const ShxCrossEntropy &d) {
  SCOPED_TRACE(testing::Message()
               << d.rows << " rows of " << d.classes << ", dtype " << d.dtype);
  LogitsProblem p(random, d);
  p.reference();
  double tolerance = 1e-5 * std::max(1.0, p.loss);
  for (int64_t offset : {-2, -1, 0, int(bytesOf(d.dtype))}) {
    Buffer dlogits(d.dtype, p.logits.size());
    EXPECT_NEAR(p.run(offset, dlogits), p.loss, tolerance) << offset;
    if (offset != -2)
      expectClose(dlogits, p.expected, precision(d.dtype), "dlogits");
  }
}

TEST(CudaCrossEntropy, GeneratedShapes) {
  std::mt19937 random(17);
  for (int i = 0; i < 24; ++i) {
    ShxCrossEntropy d =
        crossEntropy(pick(random, {1, 3, 20}),
                     pick(random, {1, 2, 8, 33, 130, 1001}), i % 3);
    d.labelDtype = random() % 2 ? SHX_I64 : SHX_I32;
    checkLogits(random, d);
    if (HasFatalFailure())
      return;
  }
}

// Rows that begin at every offset from a multiple of 16 bytes.
TEST(CudaCrossEntropy, OddVocabularies) {
  std::mt19937 random(18);
  for (int32_t dtype : {SHX_F32, SHX_BF16, SHX_F16})
    checkLogits(random, crossEntropy(9, 5027, dtype));
  checkLogits(random, crossEntropy(2, 50257, SHX_BF16));
}

TEST(CudaCrossEntropy, MoreRowsThanBlocks) {
  std::mt19937 random(19);
  checkLogits(random, crossEntropy(2100, 3, SHX_F32));
}

TEST(CudaCrossEntropy, SpecialValues) {
  auto lossOf = [](double special, double label) {
    std::mt19937 random(1);
    LogitsProblem p(random, crossEntropy(2, 40, SHX_F32));
    p.logits.fill(1);
    p.labels.fill(3);
    p.logits.set(50, special);
    p.labels.set(1, label);
    Buffer dlogits(SHX_F32, p.logits.size());
    return p.run(-2, dlogits);
  };
  EXPECT_TRUE(std::isnan(lossOf(NAN, 3)));
  EXPECT_TRUE(std::isnan(lossOf(INFINITY, 3)));
  EXPECT_NEAR(lossOf(-INFINITY, 3), std::log(40.0) + std::log(39.0), 1e-5);
  EXPECT_TRUE(std::isinf(lossOf(-INFINITY, 10)));
  EXPECT_NEAR(lossOf(1e30, 10), std::log(40.0), 1e-5);
  // Neither ignored nor a class: seen, and nothing else is read.
  EXPECT_TRUE(std::isnan(lossOf(1, 40)));
  EXPECT_TRUE(std::isnan(lossOf(1, -1)));
}

float run(LossProblem &p, bool gradients) {
  CudaDevice &device = CudaDevice::get();
  DeviceBuffer x(p.x), w(p.w), labels(p.labels), dx(p.dx), dw(p.dw);
  DeviceValue<float> seed(p.seed), loss(NAN);
  DeviceBytes workspace(cudaLibraries().linearCrossEntropy(p.d));
  // Algorithms are tuned before the first step: what that writes is not yet
  // the gradients that dw is added to.
  device.call([&] {
    if (!device.context().preparing()) {
      dx.upload(p.dx);
      dw.upload(p.dw);
    }
    shx_linear_cross_entropy(&device.context(), &p.d, x.data(), w.data(),
                             labels.data(), gradients ? seed.data() : nullptr,
                             loss.data(), gradients ? dx.data() : nullptr,
                             gradients ? dw.data() : nullptr, workspace.data());
  });
  EXPECT_TRUE(workspace.intact());
  dx.download(p.dx);
  dw.download(p.dw);
  return loss.get();
}

// Logits are rounded to the operands' type, if that has 16 bits.
double lossTolerance(const ShxLinearCrossEntropy &d, double loss) {
  double relative = d.dtypeX != d.dtypeW || d.dtypeX == SHX_F32 ? 1e-5
                    : d.dtypeX == SHX_BF16                      ? 5e-3
                                                                : 1e-3;
  return relative * std::max(1.0, loss);
}

void checkLoss(const ShxLinearCrossEntropy &d) {
  SCOPED_TRACE(testing::Message()
               << "rows " << d.rows << " width " << d.width << " vocab "
               << d.vocab << " chunk " << d.chunkRows << " transW " << d.transW
               << " dtypes " << d.dtypeX << d.dtypeW << d.dtypeDw << " cap "
               << d.softcap << " accumulate " << d.accumulateDw);
  LossProblem p(d);
  p.reference();
  double tolerance = lossTolerance(d, p.loss);
  EXPECT_NEAR(run(p, false), p.loss, tolerance);
  EXPECT_NEAR(run(p, true), p.loss, tolerance);
  double operands = precision(rt::cuda::logitsDtype(d));
  expectClose(p.dx, p.dxExpected, precision(d.dtypeX) + operands, "dx");
  expectClose(p.dw, p.dwExpected, precision(d.dtypeDw) + operands, "dw");
}

TEST(CudaLinearCrossEntropy, GeneratedShapes) {
  std::mt19937 random(11);
  for (int i = 0; i < 40; ++i) {
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
    d.dtypeW = random() % 2 ? d.dtypeX : int32_t(SHX_F32);
    d.dtypeDw = random() % 2 ? d.dtypeX : int32_t(SHX_F32);
    d.accumulateDw = random() % 2;
    d.labelDtype = random() % 2 ? SHX_I64 : SHX_I32;
    d.softcap = random() % 3 == 0 ? 2.0f : 0;
    checkLoss(d);
    if (HasFatalFailure())
      return;
  }
}

ShxLinearCrossEntropy shape(int64_t rows, int64_t vocab, int32_t dtype) {
  ShxLinearCrossEntropy d{};
  d.rows = rows;
  d.vocab = vocab;
  d.width = d.ldx = d.lddx = 768;
  d.transW = 1;
  d.dtypeX = d.dtypeW = dtype;
  return d;
}

TEST(CudaLinearCrossEntropy, ChunksHaveEvenSizes) {
  auto chunkRows = cudaLibraries().chunkRows;
  EXPECT_EQ(chunkRows(shape(32768, 50257, SHX_BF16)), 4096);
  EXPECT_EQ(chunkRows(shape(8192, 128256, SHX_BF16)), 2048);
  EXPECT_EQ(chunkRows(shape(100, 50257, SHX_BF16)), 100);
  for (int64_t vocab : {1, 2, 50, 8192, 50257, 128256, 262144})
    for (int64_t rows : {1, 2047, 5000, 24576, 1 << 20}) {
      int64_t chunk = chunkRows(shape(rows, vocab, SHX_F32));
      EXPECT_LE(chunk, rows);
      EXPECT_TRUE(chunk == rows || chunk % 128 == 0);
      EXPECT_TRUE(chunk == rows || chunk >= 1024);
    }
}

TEST(CudaLinearCrossEntropy, WorkspaceGrowsWithTheChunk) {
  for (int32_t dtypeDw : {SHX_F32, SHX_BF16}) {
    int64_t last = 0;
    for (int64_t chunk = 16; chunk <= 8192; chunk *= 2) {
      ShxLinearCrossEntropy d = shape(8192, 50257, SHX_BF16);
      d.dtypeDw = dtypeDw;
      d.chunkRows = chunk;
      int64_t bytes = cudaLibraries().linearCrossEntropy(d);
      EXPECT_GT(bytes, last);
      last = bytes;
    }
  }
}

} // namespace
