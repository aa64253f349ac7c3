// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What of CUDA's matrix products needs no device: the problem that cuBLASLt is
// told (solved here as its documentation defines it, column-major, and compared
// with the ABI's definition), the workspace plan, and the cache file.

#include "../../runtime/cuda/gemm/GemmCache.h"
#include "../../runtime/cuda/gemm/GemmProblem.h"
#include "../../runtime/cuda/plan/GemmPlan.h"
#include "shardonnx/runtime/CacheFolder.h"
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <sstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace shardonnx::rt::cuda;

namespace {

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

// Operands with room to spare, numbered so that sums are exact.
struct Matrices {
  std::vector<float> a, b, c;
  explicit Matrices(size_t size) : a(size), b(size), c(size) {
    std::mt19937 random(7);
    for (auto *matrix : {&a, &b, &c})
      for (float &x : *matrix)
        x = float(int(random() % 9) - 4);
  }
};

// C = A·B (+ C), as ABI.h defines it.
void multiplyRows(const ShxGemm &d, Matrices &matrices) {
  auto each = [&](auto &self, int32_t dim, int64_t a, int64_t b,
                  int64_t c) -> void {
    if (dim < std::min(d.batchRank, SHX_MAX_BATCH_DIMS)) {
      for (int64_t i = 0; i < d.batch[dim]; ++i)
        self(self, dim + 1, a + i * d.batchStrideA[dim],
             b + i * d.batchStrideB[dim], c + i * d.batchStrideC[dim]);
      return;
    }
    for (int64_t i = 0; i < d.m; ++i)
      for (int64_t j = 0; j < d.n; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < d.k; ++k)
          sum +=
              matrices
                  .a[size_t(a + (d.transA ? k * d.lda + i : i * d.lda + k))] *
              matrices
                  .b[size_t(b + (d.transB ? j * d.ldb + k : k * d.ldb + j))];
        float &to = matrices.c[size_t(c + i * d.ldc + j)];
        to = sum + (d.accumulate ? to : 0);
      }
  };
  each(each, 0, 0, 0, 0);
}

// The same as cuBLASLt solves the call's problem.
void multiplyColumns(const GemmCall &call, Matrices &matrices) {
  const GemmProblem &p = call.problem;
  for (const GemmOffset &offset : call.offsets)
    for (int64_t batch = 0; batch < p.batch; ++batch)
      for (int64_t i = 0; i < p.rows; ++i)
        for (int64_t j = 0; j < p.columns; ++j) {
          float sum = 0;
          for (int64_t k = 0; k < p.k; ++k) {
            int64_t left = p.transLeft ? i * p.ldLeft + k : k * p.ldLeft + i;
            int64_t right =
                p.transRight ? k * p.ldRight + j : j * p.ldRight + k;
            sum += matrices.b[size_t(offset.b + batch * p.strideLeft + left)] *
                   matrices.a[size_t(offset.a + batch * p.strideRight + right)];
          }
          float &to = matrices.c[size_t(offset.c + batch * p.strideResult +
                                        j * p.ldResult + i)];
          to = sum + (p.accumulate ? to : 0);
        }
}

struct BatchDim {
  int64_t count;
  bool a, b; // else the operand has one matrix for all
};

// A product whose rows end in `gap` unused elements.
ShxGemm product(int64_t m, int64_t n, int64_t k, bool transA, bool transB,
                int64_t gap, const std::vector<BatchDim> &dims) {
  ShxGemm d{};
  d.m = m;
  d.n = n;
  d.k = k;
  d.transA = transA;
  d.transB = transB;
  d.lda = (transA ? m : k) + gap;
  d.ldb = (transB ? k : n) + gap;
  d.ldc = n + gap;
  d.batchRank = int32_t(dims.size());
  int64_t a = (transA ? k : m) * d.lda, b = (transB ? n : k) * d.ldb,
          c = m * d.ldc;
  for (int32_t i = d.batchRank - 1; i >= 0; --i) {
    const BatchDim &dim = dims[size_t(i)];
    d.batch[i] = dim.count;
    d.batchStrideA[i] = dim.a && dim.count > 1 ? a : 0;
    d.batchStrideB[i] = dim.b && dim.count > 1 ? b : 0;
    d.batchStrideC[i] = dim.count > 1 ? c : 0;
    a *= dim.a ? dim.count : 1;
    b *= dim.b ? dim.count : 1;
    c *= dim.count;
  }
  return d;
}

GemmCall callOf(const ShxGemm &desc, const Matrices &matrices) {
  GemmOperands operands;
  operands.a = matrices.a.data();
  operands.b = matrices.b.data();
  operands.c = const_cast<float *>(matrices.c.data());
  return makeGemmCall(desc, operands, 0);
}

void expectSame(const ShxGemm &desc) {
  Matrices rows(20000), columns(20000);
  multiplyRows(desc, rows);
  multiplyColumns(callOf(desc, columns), columns);
  EXPECT_EQ(rows.c, columns.c)
      << desc.m << "×" << desc.n << "×" << desc.k << " trans " << desc.transA
      << desc.transB << " batch rank " << desc.batchRank;
}

TEST(CudaGemmProblem, IsTheTransposedProduct) {
  struct Shape {
    int64_t m, n, k;
  };
  for (Shape s : {Shape{5, 7, 3}, {1, 6, 4}, {6, 1, 4}, {4, 3, 1}, {1, 1, 1}})
    for (int trans = 0; trans < 4; ++trans)
      for (int64_t gap : {0, 3})
        for (int accumulate : {0, 1}) {
          ShxGemm d = product(s.m, s.n, s.k, trans & 1, trans & 2, gap, {});
          d.accumulate = accumulate;
          expectSame(d);
        }
}

TEST(CudaGemmProblem, BatchesOfEveryKind) {
  const std::vector<std::vector<BatchDim>> batches = {
      {{3, true, true}},
      {{3, true, false}},
      {{3, false, true}},
      {{2, true, true}, {3, true, true}},
      {{2, true, true}, {3, true, false}},
      {{2, false, true}, {3, true, true}},
      {{2, true, true}, {1, false, false}, {3, false, true}},
      {{2, true, false}, {3, false, true}, {2, true, true}, {2, true, true}},
      {{2, false, true}, {2, true, false}, {3, false, true}}};
  for (const auto &dims : batches)
    for (int trans = 0; trans < 4; ++trans)
      for (int64_t gap : {0, 2})
        expectSame(product(4, 3, 5, trans & 1, trans & 2, gap, dims));
}

TEST(CudaGemmProblem, BatchesBecomeFewCalls) {
  Matrices matrices(1);
  // A weight for all: one taller product.
  GemmCall call = callOf(
      product(4, 3, 5, false, true, 0, {{2, true, false}, {3, true, false}}),
      matrices);
  EXPECT_EQ(call.problem.columns, 24);
  EXPECT_EQ(call.problem.batch, 1);
  EXPECT_EQ(call.offsets.size(), 1u);
  // Adjacent dims that go on: one batch.
  call = callOf(
      product(4, 3, 5, false, true, 0, {{2, true, true}, {3, true, true}}),
      matrices);
  EXPECT_EQ(call.problem.batch, 6);
  EXPECT_EQ(call.offsets.size(), 1u);
  // Grouped heads: a batch for each group, and a call for each place in it.
  call = callOf(
      product(4, 3, 5, false, true, 0, {{8, true, true}, {2, true, false}}),
      matrices);
  EXPECT_EQ(call.problem.batch, 1 * 8);
  EXPECT_EQ(call.problem.columns, 8);
  // More than the library takes at once.
  call =
      callOf(product(1, 1, 1, true, true, 0, {{70000, true, true}}), matrices);
  EXPECT_EQ(call.problem.batch, 35000);
  EXPECT_EQ(call.offsets.size(), 2u);
}

TEST(CudaGemmProblem, AlignmentCountsOffsetsOfTheOuterDims) {
  ShxGemm d = product(4, 3, 5, true, true, 0,
                      {{2, false, true}, {3, true, false}, {5, false, true}});
  GemmOperands operands;
  operands.a = reinterpret_cast<const void *>(0x1000);
  operands.b = reinterpret_cast<const void *>(0x1008);
  operands.c = reinterpret_cast<void *>(0x1000);
  GemmCall call = makeGemmCall(d, operands, 0);
  EXPECT_EQ(call.problem.batch, 5);
  EXPECT_EQ(call.problem.alignRight, 16); // 20 floats: 80 bytes
  EXPECT_EQ(call.problem.alignLeft, 4);   // 75 floats: 300 bytes
  EXPECT_EQ(call.problem.alignBias, 0);
}

TEST(CudaGemmProblem, KeysTellProblemsApart) {
  Matrices matrices(1);
  ShxGemm base = product(64, 32, 16, false, false, 0, {});
  std::string key = callOf(base, matrices).problem.key();
  EXPECT_EQ(key, callOf(base, matrices).problem.key());
  auto differs = [&](auto change) {
    ShxGemm other = base;
    change(other);
    EXPECT_NE(key, callOf(other, matrices).problem.key());
  };
  differs([](ShxGemm &d) { d.m = 65; });
  differs([](ShxGemm &d) { d.transA = 1; });
  differs([](ShxGemm &d) { d.ldc = 40; });
  differs([](ShxGemm &d) { d.dtypeA = d.dtypeB = SHX_BF16; });
  differs([](ShxGemm &d) { d.dtypeC = SHX_BF16; });
  differs([](ShxGemm &d) { d.accumulate = 1; });
  differs([](ShxGemm &d) { d.epilogue = SHX_EPILOGUE_BIAS; });
  differs([](ShxGemm &d) { d.flags = SHX_GEMM_TF32; });
}

TEST(CudaGemmProblem, EpiloguesThatTheLibraryMayDo) {
  GemmProblem p;
  p.rows = p.ldResult = 768;
  p.columns = p.k = 16;
  p.epilogue = SHX_EPILOGUE_GELU_BIAS;
  p.alignBias = p.alignAux = 16;
  EXPECT_TRUE(mayFuseEpilogue(p));
  p.alignBias = 8;
  EXPECT_FALSE(mayFuseEpilogue(p));
  p.alignBias = 16;
  p.ldResult = 772; // of aux, too
  EXPECT_FALSE(mayFuseEpilogue(p));
  p.alignAux = 0;
  EXPECT_TRUE(mayFuseEpilogue(p));
  // What is added is an operand like the result.
  p.epilogue = SHX_EPILOGUE_BIAS;
  p.alignBias = 0;
  p.alignAux = 2;
  EXPECT_TRUE(mayFuseEpilogue(p));
}

//===----------------------------------------------------------------------===//
// Workspace
//===----------------------------------------------------------------------===//

ShxGemm typed(int32_t a, int32_t b, int32_t c, int64_t size = 100) {
  ShxGemm d = product(size, size, size, false, false, 0, {});
  d.dtypeA = a;
  d.dtypeB = b;
  d.dtypeC = c;
  return d;
}

TEST(CudaGemmPlan, ConvertsWhatTheLibraryRefuses) {
  constexpr int64_t kAll = 100 * 100;
  EXPECT_FALSE(planGemm(typed(SHX_F32, SHX_F32, SHX_F32)).converts());
  EXPECT_FALSE(planGemm(typed(SHX_BF16, SHX_BF16, SHX_BF16)).converts());
  EXPECT_FALSE(planGemm(typed(SHX_BF16, SHX_BF16, SHX_F32)).converts());
  GemmPlan mixed = planGemm(typed(SHX_F32, SHX_BF16, SHX_F32));
  EXPECT_EQ(mixed.a, -1);
  EXPECT_EQ(mixed.b, 0);
  EXPECT_EQ(mixed.c, -1);
  EXPECT_EQ(mixed.library, (kAll * 4 + 255) / 256 * 256);
  GemmPlan halves = planGemm(typed(SHX_F16, SHX_BF16, SHX_F16));
  EXPECT_EQ(halves.dtypeIn, SHX_F32);
  EXPECT_GE(halves.a, 0);
  EXPECT_GT(halves.b, halves.a);
  EXPECT_GT(halves.c, halves.b);
  GemmPlan narrow = planGemm(typed(SHX_F32, SHX_F32, SHX_BF16));
  EXPECT_EQ(narrow.a, -1);
  EXPECT_EQ(narrow.c, 0);
}

TEST(CudaGemmPlan, TinyProductsHaveLittleWorkspace) {
  EXPECT_EQ(planGemm(typed(SHX_F32, SHX_F32, SHX_F32, 8)).bytes, 0);
  // Two sums of 256 terms.
  EXPECT_EQ(planGemm(typed(SHX_F32, SHX_F32, SHX_F32, 512)).bytes,
            512 * 512 * 4 * 2);
  // A bias's gradient, where the library does not give it.
  ShxGemm sums = typed(SHX_F32, SHX_F32, SHX_F32, 8);
  sums.epilogue = SHX_EPILOGUE_BGRAD;
  EXPECT_EQ(planGemm(sums).bytes, 64 * 8 * 4);
  // A result of one tile: what the length of the sum is worth, up to a part a
  // processor. 36 tiles: three parts, no fourth, for which there is no
  // processor.
  auto parts = [](int64_t m, int64_t n, int64_t k) {
    ShxGemm d = product(m, n, k, false, false, 0, {});
    return planGemm(d).libraryBytes / (m * n * 4);
  };
  EXPECT_EQ(parts(128, 128, 2048), 8);
  EXPECT_EQ(parts(128, 128, 1 << 20), 132);
  EXPECT_EQ(parts(768, 768, 32768), 3);
  EXPECT_EQ(planGemm(typed(SHX_BF16, SHX_BF16, SHX_BF16, 4096)).bytes,
            int64_t(32) << 20);
  EXPECT_EQ(planGemm(typed(SHX_F32, SHX_F32, SHX_F32, 1 << 30)).bytes,
            int64_t(32) << 20);
}

//===----------------------------------------------------------------------===//
// The cache file
//===----------------------------------------------------------------------===//

class CudaGemmCache : public testing::Test {
protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "gemm-cache-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name + "/of/its/own";
    machine.gpu = "NVIDIA Test";
    machine.major = 9;
    machine.library = 130100;
    machine.driver = 13000;
  }
  static GemmChoice choice(uint64_t number) {
    GemmChoice choice;
    choice.fused = number % 2 != 0;
    choice.algorithm = {number, ~number, 0x0123456789abcdef};
    return choice;
  }
  std::string save(uint64_t number) {
    GemmCache cache(folder, machine);
    cache.add("p" + std::to_string(number), choice(number));
    cache.save();
    return cache.path();
  }
  static void expectChoice(const GemmCache &cache, uint64_t number) {
    const GemmChoice *found = cache.find("p" + std::to_string(number));
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->fused, choice(number).fused);
    EXPECT_EQ(found->algorithm, choice(number).algorithm);
  }
  static std::string textOf(const std::string &path) {
    std::ifstream stream(path);
    std::stringstream text;
    text << stream.rdbuf();
    return text.str();
  }
  // Reads it with a warning and nothing found, then writes it anew.
  void expectRefused(const char *why) {
    testing::internal::CaptureStderr();
    GemmCache cache(folder, machine);
    EXPECT_EQ(cache.find("p1"), nullptr);
    cache.add("p2", choice(2));
    cache.save();
    std::string warnings = testing::internal::GetCapturedStderr();
    EXPECT_NE(warnings.find(why), std::string::npos) << warnings;
    EXPECT_EQ(warnings.find("warning"), warnings.rfind("warning")) << warnings;
    testing::internal::CaptureStderr();
    GemmCache again(folder, machine);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    expectChoice(again, 2);
  }

  std::string folder;
  GemmMachine machine;
};

TEST_F(CudaGemmCache, KeepsChoices) {
  std::string path = save(1);
  save(2); // adds to what is there
  GemmCache cache(folder, machine);
  EXPECT_EQ(cache.path(), path);
  expectChoice(cache, 1);
  expectChoice(cache, 2);
  EXPECT_EQ(cache.find("p3"), nullptr);
}

TEST_F(CudaGemmCache, AnotherMachineHasAnotherFile) {
  save(1);
  auto differs = [&](auto change) {
    GemmMachine other = machine;
    change(other);
    EXPECT_EQ(GemmCache(folder, other).find("p1"), nullptr);
  };
  differs([](GemmMachine &m) { m.gpu += "2"; });
  differs([](GemmMachine &m) { ++m.major; });
  differs([](GemmMachine &m) { ++m.minor; });
  differs([](GemmMachine &m) { ++m.library; });
  differs([](GemmMachine &m) { ++m.driver; });
}

TEST_F(CudaGemmCache, ADamagedFileIsNotBelieved) {
  std::string path = save(1), text = textOf(path);
  auto damaged = [&](const std::string &with) {
    std::ofstream(path) << with;
    expectRefused("damaged");
  };
  damaged(text.substr(0, text.size() / 2));
  damaged("[]");
  damaged("{\"version\":1,\"products\":3}");
  damaged(std::string(100000, '['));
  damaged(std::string("\0\xff\xfe", 3));
  std::string changed = text;
  changed[text.find("true")] = 'T';
  damaged(changed);
  changed = text;
  size_t digit = text.find("0123456789abcdef");
  changed[digit] = '1'; // the digest no longer fits
  damaged(changed);
}

TEST_F(CudaGemmCache, AFileOfOthersIsNotBelieved) {
  std::string path = save(1);
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  expectRefused("others may write it");
}

TEST_F(CudaGemmCache, ALinkIsNotFollowed) {
  std::string path = save(1), elsewhere = path + ".elsewhere";
  ASSERT_EQ(::rename(path.c_str(), elsewhere.c_str()), 0);
  ASSERT_EQ(::symlink(elsewhere.c_str(), path.c_str()), 0);
  std::string text = textOf(elsewhere);
  expectRefused("is not used");
  EXPECT_EQ(textOf(elsewhere), text);
}

TEST_F(CudaGemmCache, WritersAtOnceDoNoHarm) {
  save(1);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 50; ++i) {
        GemmCache cache(folder, machine);
        if (cache.find("p1"))
          expectChoice(cache, 1);
        cache.add("p" + std::to_string(10 + t), choice(10 + t));
        cache.save();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  testing::internal::CaptureStderr();
  GemmCache cache(folder, machine);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  expectChoice(cache, 1);
}

TEST_F(CudaGemmCache, AFolderThatCannotBeMadeIsAWarning) {
  folder = "/proc/nothing";
  testing::internal::CaptureStderr();
  save(1);
  std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_NE(warning.find("SHARDONNX_CACHE_DIR"), std::string::npos) << warning;
}

TEST_F(CudaGemmCache, FindsItsFolder) {
  ::setenv("SHARDONNX_CACHE_DIR", "/a", 1);
  ::setenv("XDG_CACHE_HOME", "/b", 1);
  EXPECT_EQ(shardonnx::rt::cacheFolder(), "/a");
  ::unsetenv("SHARDONNX_CACHE_DIR");
  EXPECT_EQ(shardonnx::rt::cacheFolder(), "/b/shardonnx");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/c", 1);
  EXPECT_EQ(shardonnx::rt::cacheFolder(), "/c/.cache/shardonnx");
}

} // namespace
