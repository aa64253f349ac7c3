// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_gemm and shx_gemm_epilogue on the (emulated) device against sums in
// double: shapes, transposes, gaps, batches, dtypes, epilogues that the library
// does and such as it must leave to the kernels after it.

#include "../../runtime/cuda/plan/GemmPlan.h"
#include "cuda_kernels_util.h"
#include <cstdlib>
#include <unistd.h>

using namespace shardonnx::test;
using namespace shardonnx::rt::cuda;

namespace {

struct BatchDim {
  int64_t count;
  bool a, b; // else one matrix for all
};

struct Case {
  int64_t m, n, k;
  bool transA = false, transB = false;
  int32_t dtypeA = SHX_F32, dtypeB = SHX_F32, dtypeC = SHX_F32;
  bool accumulate = false;
  int32_t epilogue = SHX_EPILOGUE_NONE;
  std::vector<BatchDim> batch = {};
  int64_t gap = 0;    // unused elements behind each row
  int64_t offset = 0; // bytes by which operands miss a multiple of 256
  bool aux = true;    // GELU_BIAS: the pre-activation is wanted
  bool rows = false;  // BIAS: another one for every row
  int32_t flags = 0;
};

ShxGemm describe(const Case &t) {
  ShxGemm d{};
  d.m = t.m;
  d.n = t.n;
  d.k = t.k;
  d.transA = t.transA;
  d.transB = t.transB;
  d.lda = (t.transA ? t.m : t.k) + t.gap;
  d.ldb = (t.transB ? t.k : t.n) + t.gap;
  d.ldc = t.n + t.gap;
  d.dtypeA = t.dtypeA;
  d.dtypeB = t.dtypeB;
  d.dtypeC = t.dtypeC;
  d.accumulate = t.accumulate;
  d.epilogue = t.epilogue;
  d.flags = t.flags;
  d.batchRank = int32_t(t.batch.size());
  int64_t a = (t.transA ? t.k : t.m) * d.lda;
  int64_t b = (t.transB ? t.n : t.k) * d.ldb, c = t.m * d.ldc;
  for (int32_t i = d.batchRank - 1; i >= 0; --i) {
    const BatchDim &dim = t.batch[size_t(i)];
    d.batch[i] = dim.count;
    d.batchStrideA[i] = dim.a ? a : 0;
    d.batchStrideB[i] = dim.b ? b : 0;
    d.batchStrideC[i] = c;
    a *= dim.a ? dim.count : 1;
    b *= dim.b ? dim.count : 1;
    c *= dim.count;
  }
  return d;
}

// How many elements an operand spans, rows of `ld` elements.
int64_t span(const ShxGemm &d, const int64_t *strides, int64_t rows,
             int64_t ld) {
  int64_t last = rows * ld;
  for (int32_t i = 0; i < d.batchRank; ++i)
    last += (d.batch[i] - 1) * strides[i];
  return last;
}

bool hasBias(const Case &t) {
  return t.epilogue != SHX_EPILOGUE_DGELU && !t.rows;
}
bool hasAux(const Case &t) {
  return t.rows || (t.epilogue == SHX_EPILOGUE_GELU_BIAS && t.aux) ||
         t.epilogue == SHX_EPILOGUE_DGELU;
}

double gelu(double x, double *slope = nullptr) {
  const double scale = std::sqrt(2 / M_PI), cubic = 0.044715;
  double t = std::tanh(scale * (x + cubic * x * x * x));
  if (slope)
    *slope =
        (1 + t) / 2 + x / 2 * (1 - t * t) * scale * (1 + 3 * cubic * x * x);
  return x / 2 * (1 + t);
}

class CudaGemm : public testing::Test {
protected:
  // The same twice must give the same bits, and what was not asked for must
  // stay.
  void check(const Case &t) {
    SCOPED_TRACE(testing::Message()
                 << t.m << "×" << t.n << "×" << t.k << " trans " << t.transA
                 << t.transB << " dtypes " << t.dtypeA << t.dtypeB << t.dtypeC
                 << " batch rank " << t.batch.size() << " gap " << t.gap
                 << " offset " << t.offset << " epilogue " << t.epilogue
                 << " accumulate " << t.accumulate);
    CudaDevice &device = CudaDevice::get();
    ShxGemm d = describe(t);
    Buffer a(t.dtypeA, span(d, d.batchStrideA, t.transA ? t.k : t.m, d.lda));
    Buffer b(t.dtypeB, span(d, d.batchStrideB, t.transB ? t.n : t.k, d.ldb));
    Buffer c(t.dtypeC, span(d, d.batchStrideC, t.m, d.ldc));
    Buffer bias(t.dtypeC, t.n), aux(t.dtypeC, c.size());
    for (Buffer *buffer : {&a, &b, &c, &bias, &aux})
      buffer->fillRandom(random);
    Expected expected = reference(t, d, a, b, c, bias, aux);

    DeviceBuffer onA(a, t.offset), onB(b, t.offset), onC(c, t.offset);
    DeviceBuffer onBias(bias, t.offset), onAux(aux, t.offset);
    DeviceBytes workspace(planGemm(d).bytes);
    auto run = [&] {
      if (t.epilogue == SHX_EPILOGUE_NONE)
        shx_gemm(&device.context(), &d, onA.data(), onB.data(), onC.data(),
                 workspace.data());
      else
        shx_gemm_epilogue(&device.context(), &d, onA.data(), onB.data(),
                          onC.data(), hasBias(t) ? onBias.data() : nullptr,
                          hasAux(t) ? onAux.data() : nullptr, workspace.data());
    };
    // Tuning overwrites results.
    device.prepare(run);
    onC.upload(c);
    onBias.upload(bias);
    onAux.upload(aux);
    device.enqueue(run);
    EXPECT_TRUE(workspace.intact());
    compare(t, onC.download(), expected.c, "C");
    compare(t, onBias.download(), expected.bias, "bias");
    compare(t, onAux.download(), expected.aux, "aux");
    Buffer first = onC.download();
    onC.upload(c);
    onBias.upload(bias);
    onAux.upload(aux);
    device.enqueue(run);
    EXPECT_TRUE(onC.download() == first) << "other bits the second time";
  }

private:
  struct Expected {
    std::vector<double> c, bias, aux;
    double scale; // of a result
  };

  static Expected reference(const Case &t, const ShxGemm &d, const Buffer &a,
                            const Buffer &b, const Buffer &c,
                            const Buffer &bias, const Buffer &aux) {
    Expected out{c.values(), bias.values(), aux.values(), 0};
    auto each = [&](auto &self, int32_t dim, int64_t atA, int64_t atB,
                    int64_t atC) -> void {
      if (dim < std::min(d.batchRank, SHX_MAX_BATCH_DIMS)) {
        for (int64_t i = 0; i < d.batch[dim]; ++i)
          self(self, dim + 1, atA + i * d.batchStrideA[dim],
               atB + i * d.batchStrideB[dim], atC + i * d.batchStrideC[dim]);
        return;
      }
      for (int64_t i = 0; i < d.m; ++i)
        for (int64_t j = 0; j < d.n; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < d.k; ++k)
            sum += a.get(atA + (d.transA ? k * d.lda + i : i * d.lda + k)) *
                   b.get(atB + (d.transB ? j * d.ldb + k : k * d.ldb + j));
          finish(t, d, sum, atC + i * d.ldc + j, j, bias, out);
        }
    };
    if (t.epilogue == SHX_EPILOGUE_BGRAD)
      std::fill(out.bias.begin(), out.bias.end(), 0);
    each(each, 0, 0, 0, 0);
    if (t.epilogue == SHX_EPILOGUE_BGRAD)
      for (int64_t k = 0; k < d.k; ++k)
        for (int64_t j = 0; j < d.n; ++j)
          out.bias[size_t(j)] +=
              b.get(d.transB ? j * d.ldb + k : k * d.ldb + j);
    return out;
  }

  static void finish(const Case &t, const ShxGemm &d, double sum, int64_t at,
                     int64_t column, const Buffer &bias, Expected &out) {
    double &to = out.c[size_t(at)], &aux = out.aux[size_t(at)], slope = 0;
    switch (t.epilogue) {
    case SHX_EPILOGUE_NONE:
      to = sum + (d.accumulate ? to : 0);
      return;
    case SHX_EPILOGUE_BIAS:
      to = sum + (t.rows ? aux : bias.get(column));
      return;
    case SHX_EPILOGUE_GELU_BIAS:
      sum += bias.get(column);
      aux = t.aux ? sum : aux;
      to = gelu(sum);
      return;
    case SHX_EPILOGUE_BGRAD:
      to = sum;
      return;
    default:
      gelu(aux, &slope);
      to = sum * slope;
    }
  }

  // Within the rounding of the result, and of what is rounded on the way: the
  // product before an epilogue of its own.
  static void compare(const Case &t, const Buffer &got,
                      const std::vector<double> &want, const char *what) {
    double scale = 1;
    for (double value : want)
      scale = std::max(scale, std::abs(value));
    double inputs = t.flags & SHX_GEMM_TF32 ? 1e-3 : 0;
    double tolerance =
        (std::max(precision(got.dtype), inputs) + 1e-6) * 1.5 * scale;
    int wrong = 0;
    for (int64_t i = 0; i < got.size() && wrong < 3; ++i)
      if (!(std::abs(got.get(i) - want[size_t(i)]) <= tolerance)) {
        ADD_FAILURE() << what << "[" << i << "] is " << got.get(i) << ", not "
                      << want[size_t(i)];
        ++wrong;
      }
  }

  std::mt19937 random{11};
};

TEST_F(CudaGemm, ShapesAndTransposes) {
  struct Shape {
    int64_t m, n, k;
  };
  for (Shape s : {Shape{8, 16, 24},
                  {33, 17, 9},
                  {1, 40, 16},
                  {40, 1, 16},
                  {16, 8, 1},
                  {1, 1, 64},
                  {1, 1, 1}})
    for (int trans = 0; trans < 4; ++trans)
      check({s.m, s.n, s.k, (trans & 1) != 0, (trans & 2) != 0});
}

TEST_F(CudaGemm, GapsAndAlignments) {
  for (int32_t dtype : {SHX_F32, SHX_BF16}) {
    Case t{24, 40, 16, false, true, dtype, dtype, dtype};
    t.gap = 3;
    check(t);
    t.gap = 0;
    t.offset = dtype == SHX_F32 ? 4 : 2;
    check(t);
    t.offset = 16;
    check(t);
  }
}

TEST_F(CudaGemm, NoProducts) {
  for (bool accumulate : {false, true})
    for (int64_t gap : {0, 5}) {
      Case t{5, 6, 0};
      t.accumulate = accumulate;
      t.gap = gap;
      t.batch = {{3, true, true}};
      check(t);
    }
}

TEST_F(CudaGemm, DtypesOfTheLibraryAndOthers) {
  const int32_t all[] = {SHX_F32, SHX_BF16, SHX_F16};
  for (int32_t a : all)
    for (int32_t b : all)
      for (int32_t c : all)
        for (bool accumulate : {false, true}) {
          Case t{24, 16, 32, true, false, a, b, c};
          t.accumulate = accumulate;
          check(t);
        }
}

TEST_F(CudaGemm, Batches) {
  const std::vector<std::vector<BatchDim>> batches = {
      {{3, true, true}},
      {{3, true, false}},
      {{2, true, true}, {3, false, true}},
      {{2, true, false}, {3, false, true}, {2, true, true}, {2, true, true}}};
  for (const auto &batch : batches)
    for (int trans = 0; trans < 4; ++trans)
      for (int32_t dtypeB : {SHX_F32, SHX_BF16}) {
        Case t{8, 6, 5, (trans & 1) != 0, (trans & 2) != 0, SHX_F32, dtypeB};
        t.batch = batch;
        t.gap = trans;
        check(t);
      }
}

TEST_F(CudaGemm, Tf32) {
  Case t{32, 16, 64};
  t.flags = SHX_GEMM_TF32;
  check(t);
}

TEST_F(CudaGemm, Epilogues) {
  for (int32_t epilogue : {SHX_EPILOGUE_BIAS, SHX_EPILOGUE_GELU_BIAS,
                           SHX_EPILOGUE_DGELU, SHX_EPILOGUE_BGRAD})
    for (int32_t dtype : {SHX_F32, SHX_BF16, SHX_F16}) {
      Case t{40, 24, 16, false, false, dtype, dtype, dtype};
      t.epilogue = epilogue;
      t.flags = SHX_GEMM_DETERMINISTIC; // the library's, if it has it
      check(t);
      t.flags = 0;
      check(t);
      t.aux = epilogue != SHX_EPILOGUE_GELU_BIAS;
      t.n = 272; // more than a block's columns
      check(t);
      t.transA = true;
      t.transB = epilogue != SHX_EPILOGUE_BGRAD;
      check(t);
      // Our kernels: 8 does not divide the rows, nor 16 the addresses.
      t.n = 21;
      check(t);
      t.n = 24;
      t.aux = true;
      t.offset = dtype == SHX_F32 ? 4 : 2;
      check(t);
      t.gap = 8;
      check(t);
    }
}

// A residual stream: of any length of rows and alignment the library's.
TEST_F(CudaGemm, BiasOfEveryRow) {
  for (int32_t dtype : {SHX_F32, SHX_BF16, SHX_F16})
    for (int64_t n : {24, 272, 21}) {
      Case t{40, n, 16, false, true, dtype, dtype, dtype};
      t.epilogue = SHX_EPILOGUE_BIAS;
      t.rows = true;
      check(t);
      t.flags = SHX_GEMM_DETERMINISTIC;
      check(t);
      t.offset = dtype == SHX_F32 ? 4 : 2;
      check(t);
    }
  // No products at all.
  Case t{8, 16, 0};
  t.epilogue = SHX_EPILOGUE_BIAS;
  t.rows = true;
  check(t);
}

// The gradients of a weight and its bias in reduce_dtype.
TEST_F(CudaGemm, BiasGradientInF32) {
  Case t{24, 40, 300, true, false, SHX_BF16, SHX_BF16, SHX_F32};
  t.epilogue = SHX_EPILOGUE_BGRAD;
  check(t);
  t.offset = 4;
  check(t);
}

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

// Two ranks without a network: what rank 0 broadcasts is kept for rank 1.
class KeptBroadcast : public Collectives {
public:
  Allocator &symmetric() override { return driverAllocator(); }
  void gatherStart(size_t) override {}
  void gatherWait(size_t) override {}
  void gatherFree(size_t) override {}
  void gradAcquire(size_t) override {}
  void reduceStart(size_t, bool) override {}
  void reduceWait(size_t) override {}
  void beginFunction() override {}
  void endFunction() override {}
  void allGather(const double *, double *, size_t) override {}
  void broadcast(void *data, size_t bytes) override {
    auto *at = static_cast<uint8_t *>(data);
    if (rank == 0)
      kept.assign(at, at + bytes);
    ASSERT_EQ(kept.size(), bytes);
    std::copy(kept.begin(), kept.end(), at);
  }

  int rank = 0;
  std::vector<uint8_t> kept;
};

// A context of its own, on the device of all tests.
class CudaGemmChoice : public testing::Test {
protected:
  CudaGemmChoice() : context(CudaDevice::get().context()) {
    context.collectives = &collectives;
    std::string name = testing::TempDir() + "cuda-gemm-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
    a.fillRandom(random);
    b.fillRandom(random);
    onA.upload(a);
    onB.upload(b);
  }

  // The product's bits, and how many choices were made for it.
  std::pair<Buffer, int64_t> run(int rank, int ranks, bool prepare = true) {
    context.rank = collectives.rank = rank;
    context.ranks = ranks;
    Gemm gemm(context, folder);
    context.gemm = &gemm;
    DeviceBytes workspace(planGemm(desc).bytes);
    auto body = [&] {
      shx_gemm(&context, &desc, onA.data(), onB.data(), onC.data(),
               workspace.data());
    };
    context.mode = Mode::Prepare;
    if (prepare)
      body();
    gemm.tune();
    context.mode = Mode::Enqueue;
    body();
    CudaDevice::get().synchronize();
    return {onC.download(), gemm.chosenAnew()};
  }

  std::mt19937 random{3};
  Context context;
  KeptBroadcast collectives;
  std::string folder;
  ShxGemm desc =
      describe({32, 48, 64, false, true, SHX_BF16, SHX_BF16, SHX_F32});
  Buffer a{SHX_BF16, 32 * 64}, b{SHX_BF16, 64 * 48}, c{SHX_F32, 32 * 48};
  DeviceBuffer onA{a}, onB{b}, onC{c};
};

TEST_F(CudaGemmChoice, ComesFromTheFileTheSecondTime) {
  auto [first, anew] = run(0, 1);
  EXPECT_EQ(anew, 1);
  auto [second, again] = run(0, 1);
  EXPECT_EQ(again, 0);
  EXPECT_TRUE(first == second);
  folder.clear();
  EXPECT_EQ(run(0, 1).second, 1);
}

// SHARDONNX_TUNE=0 and SHX_GEMM_DETERMINISTIC ask the library each time.
TEST_F(CudaGemmChoice, IsTheLibrarysWithoutTuning) {
  ::setenv("SHARDONNX_TUNE", "0", 1);
  EXPECT_EQ(run(0, 1).second, 1);
  EXPECT_EQ(run(0, 1).second, 1);
  ::unsetenv("SHARDONNX_TUNE");
  desc.flags = SHX_GEMM_DETERMINISTIC;
  EXPECT_EQ(run(0, 1).second, 1);
  EXPECT_EQ(run(0, 1).second, 1);
}

TEST_F(CudaGemmChoice, IsRankZeros) {
  auto [first, anew] = run(0, 2);
  EXPECT_EQ(anew, 1);
  folder.clear();
  auto [second, none] = run(1, 2);
  EXPECT_EQ(none, 0);
  EXPECT_TRUE(first == second);
  // What rank 0 says of another problem is of no use.
  collectives.kept[0] ^= 1;
  EXPECT_TRUE(run(1, 2).first == first);
}

TEST_F(CudaGemmChoice, NeedsNoPreparation) {
  EXPECT_TRUE(run(0, 1, /*prepare=*/false).first == run(0, 1).first);
}

// The library's first proposal, in every run.
TEST_F(CudaGemm, Deterministic) {
  Case t{64, 32, 48, false, true, SHX_BF16, SHX_BF16, SHX_BF16};
  t.flags = SHX_GEMM_DETERMINISTIC;
  check(t);
}

TEST_F(CudaGemm, WhatTheCompilerNeverAsksForIsAnError) {
  Case t{8, 8, 8};
  t.epilogue = SHX_EPILOGUE_BIAS;
  t.accumulate = true;
  EXPECT_THROW(check(t), shardonnx::rt::Error);
  t.accumulate = false;
  t.dtypeC = SHX_BF16;
  EXPECT_THROW(check(t), shardonnx::rt::Error);
}

} // namespace
