// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generated kernels against a naive evaluation: shapes that fill no vector,
// strides, broadcasts, element types, and any split among threads.

#include "kernel_harness.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace shardonnx::test;

static constexpr Layout kLayouts[] = {Layout::Contiguous, Layout::Padded,
                                      Layout::Transposed};

static void checkAllLayouts(const std::string &text, double tolerance) {
  for (Layout layout : kLayouts)
    for (unsigned seed = 0; seed < 2; ++seed)
      checkGroup(text, layout, seed, tolerance);
}

TEST(RowKernels, BiasGelu) {
  for (int n : {1, 3, 8, 13, 64, 77})
    checkAllLayouts(llvm::formatv(R"(
      func.func @f(%a: tensor<5x{0}xf32>, %b: tensor<{0}xf32>) -> tensor<5x{0}xf32> {{
        %0 = nn.fused rows [5, {0}] (%x = %a : tensor<5x{0}xf32>, %y = %b : tensor<{0}xf32>) -> tensor<5x{0}xf32> {{
          %s = nn.add %x, %y : (tensor<5x{0}xf32>, tensor<{0}xf32>) -> tensor<5x{0}xf32>
          %g = nn.gelu %s {{tanh} : (tensor<5x{0}xf32>) -> tensor<5x{0}xf32>
          nn.yield %g : tensor<5x{0}xf32>
        }
        return %0 : tensor<5x{0}xf32>
      })",
                                  n),
                    2e-6);
}

TEST(RowKernels, LayerNorm) {
  for (int n : {2, 7, 32, 100, 261})
    checkAllLayouts(llvm::formatv(R"(
      func.func @f(%a: tensor<3x4x{0}xf32>, %w: tensor<{0}xf32>, %c: tensor<{0}xf32>) {{
        %0:3 = nn.fused rows [3, 4, {0}] (%x = %a : tensor<3x4x{0}xf32>, %v = %w : tensor<{0}xf32>, %d = %c : tensor<{0}xf32>)
            -> (tensor<3x4x{0}xf32>, tensor<3x4x1xf32>, tensor<3x4x1xf32>) {{
          %m = nn.reduce_mean %x {{axes = array<i64: 2>, keepdims} : (tensor<3x4x{0}xf32>) -> tensor<3x4x1xf32>
          %z = nn.sub %x, %m : (tensor<3x4x{0}xf32>, tensor<3x4x1xf32>) -> tensor<3x4x{0}xf32>
          %q = nn.mul %z, %z : (tensor<3x4x{0}xf32>, tensor<3x4x{0}xf32>) -> tensor<3x4x{0}xf32>
          %s = nn.reduce_mean %q {{axes = array<i64: 2>, keepdims} : (tensor<3x4x{0}xf32>) -> tensor<3x4x1xf32>
          %e = nn.constant dense<1.0e-5> : tensor<f32>
          %t = nn.add %s, %e : (tensor<3x4x1xf32>, tensor<f32>) -> tensor<3x4x1xf32>
          %r = nn.rsqrt %t : (tensor<3x4x1xf32>) -> tensor<3x4x1xf32>
          %n = nn.mul %z, %r : (tensor<3x4x{0}xf32>, tensor<3x4x1xf32>) -> tensor<3x4x{0}xf32>
          %o = nn.mul %n, %v : (tensor<3x4x{0}xf32>, tensor<{0}xf32>) -> tensor<3x4x{0}xf32>
          %p = nn.add %o, %d : (tensor<3x4x{0}xf32>, tensor<{0}xf32>) -> tensor<3x4x{0}xf32>
          nn.yield %p, %m, %r : tensor<3x4x{0}xf32>, tensor<3x4x1xf32>, tensor<3x4x1xf32>
        }
        return
      })",
                                  n),
                    1e-5);
}

// The e^x that the sum and the quotient both need is kept for the row.
TEST(RowKernels, MaskedSoftmax) {
  for (int n : {5, 16, 71, 256})
    checkAllLayouts(llvm::formatv(R"(
      func.func @f(%a: tensor<6x{0}xbf16>, %k: tensor<6x{0}xi1>) {{
        %0 = nn.fused rows [6, {0}] (%h = %a : tensor<6x{0}xbf16>, %m = %k : tensor<6x{0}xi1>) -> tensor<6x{0}xbf16> {{
          %inf = nn.constant dense<0xFF800000> : tensor<f32>
          %f = nn.cast %h : tensor<6x{0}xbf16> -> tensor<6x{0}xf32>
          %i = nn.iota {{axis = 1 : i64} : () -> tensor<6x{0}xi64>
          %c = nn.constant dense<0> : tensor<i64>
          %first = nn.compare eq %i, %c : (tensor<6x{0}xi64>, tensor<i64>) -> tensor<6x{0}xi1>
          %seen = nn.or %first, %m : (tensor<6x{0}xi1>, tensor<6x{0}xi1>) -> tensor<6x{0}xi1>
          %x = nn.select %seen, %f, %inf : (tensor<6x{0}xi1>, tensor<6x{0}xf32>, tensor<f32>) -> tensor<6x{0}xf32>
          %t = nn.reduce_max %x {{axes = array<i64: 1>, keepdims} : (tensor<6x{0}xf32>) -> tensor<6x1xf32>
          %s = nn.sub %x, %t : (tensor<6x{0}xf32>, tensor<6x1xf32>) -> tensor<6x{0}xf32>
          %e = nn.exp %s : (tensor<6x{0}xf32>) -> tensor<6x{0}xf32>
          %u = nn.reduce_sum %e {{axes = array<i64: 1>, keepdims} : (tensor<6x{0}xf32>) -> tensor<6x1xf32>
          %p = nn.div %e, %u : (tensor<6x{0}xf32>, tensor<6x1xf32>) -> tensor<6x{0}xf32>
          %o = nn.cast %p : tensor<6x{0}xf32> -> tensor<6x{0}xbf16>
          nn.yield %o : tensor<6x{0}xbf16>
        }
        return
      })",
                                  n),
                    1e-2);
}

// Results of one element a row, and of one altogether, without a reduction.
TEST(ElementwiseKernels, ScalarResults) {
  for (int n : {6, 41, 512})
    checkAllLayouts(llvm::formatv(R"(
      func.func @f(%a: tensor<5x{0}xf32>, %v: tensor<5x1xf32>, %c: tensor<1xf32>) {{
        %0:3 = nn.fused rows [5, {0}] (%x = %a : tensor<5x{0}xf32>, %y = %v : tensor<5x1xf32>, %z = %c : tensor<1xf32>)
            -> (tensor<5x{0}xf32>, tensor<5x1xf32>, tensor<1xf32>) {{
          %e = nn.exp %y : (tensor<5x1xf32>) -> tensor<5x1xf32>
          %s = nn.mul %x, %e : (tensor<5x{0}xf32>, tensor<5x1xf32>) -> tensor<5x{0}xf32>
          %t = nn.neg %z : (tensor<1xf32>) -> tensor<1xf32>
          nn.yield %s, %e, %t : tensor<5x{0}xf32>, tensor<5x1xf32>, tensor<1xf32>
        }
        return
      })",
                                  n),
                    2e-6);
}

// Rotary: halves of a head, tables that broadcast over batch and heads.
TEST(RowKernels, Rotary) {
  checkAllLayouts(R"(
    func.func @f(%a: tensor<2x5x3x12xf32>, %b: tensor<2x5x3x12xf32>, %c: tensor<5x1x12xf32>, %s: tensor<5x1x12xf32>) {
      %0:2 = nn.fused rows [2, 5, 3, 12] (%x = %a : tensor<2x5x3x12xf32>, %y = %b : tensor<2x5x3x12xf32>, %u = %c : tensor<5x1x12xf32>, %v = %s : tensor<5x1x12xf32>)
          -> (tensor<2x5x3x12xf32>, tensor<2x5x3x12xf32>) {
        %1 = nn.mul %x, %u : (tensor<2x5x3x12xf32>, tensor<5x1x12xf32>) -> tensor<2x5x3x12xf32>
        %2 = nn.mul %y, %v : (tensor<2x5x3x12xf32>, tensor<5x1x12xf32>) -> tensor<2x5x3x12xf32>
        %3 = nn.sub %1, %2 : (tensor<2x5x3x12xf32>, tensor<2x5x3x12xf32>) -> tensor<2x5x3x12xf32>
        %4 = nn.mul %y, %u : (tensor<2x5x3x12xf32>, tensor<5x1x12xf32>) -> tensor<2x5x3x12xf32>
        %5 = nn.mul %x, %v : (tensor<2x5x3x12xf32>, tensor<5x1x12xf32>) -> tensor<2x5x3x12xf32>
        %6 = nn.add %4, %5 : (tensor<2x5x3x12xf32>, tensor<2x5x3x12xf32>) -> tensor<2x5x3x12xf32>
        nn.yield %3, %6 : tensor<2x5x3x12xf32>, tensor<2x5x3x12xf32>
      }
      return
    })",
                  2e-6);
}

TEST(ColumnKernels, NormWeightAndBias) {
  for (int n : {1, 7, 32, 45, 130})
    checkAllLayouts(llvm::formatv(R"(
      func.func @f(%g: tensor<3x11x{0}xf32>, %x: tensor<3x11x{0}xf32>, %m: tensor<3x11x1xf32>, %r: tensor<3x11x1xf32>) {{
        %0:2 = nn.fused columns [3, 11, {0}] (%a = %g : tensor<3x11x{0}xf32>, %b = %x : tensor<3x11x{0}xf32>, %c = %m : tensor<3x11x1xf32>, %d = %r : tensor<3x11x1xf32>)
            -> (tensor<{0}xf32>, tensor<{0}xf32>) {{
          %1 = nn.sub %b, %c : (tensor<3x11x{0}xf32>, tensor<3x11x1xf32>) -> tensor<3x11x{0}xf32>
          %2 = nn.mul %1, %d : (tensor<3x11x{0}xf32>, tensor<3x11x1xf32>) -> tensor<3x11x{0}xf32>
          %3 = nn.mul %a, %2 : (tensor<3x11x{0}xf32>, tensor<3x11x{0}xf32>) -> tensor<3x11x{0}xf32>
          %4 = nn.reduce_sum %3 {{axes = array<i64: 0, 1>} : (tensor<3x11x{0}xf32>) -> tensor<{0}xf32>
          %5 = nn.reduce_sum %a {{axes = array<i64: 0, 1>} : (tensor<3x11x{0}xf32>) -> tensor<{0}xf32>
          nn.yield %4, %5 : tensor<{0}xf32>, tensor<{0}xf32>
        }
        return
      })",
                                  n),
                    1e-5);
}

// Results of several types, in one pass; integers, a library call for pow.
TEST(RowKernels, MixedTypes) {
  for (int n : {4, 9, 40})
    checkAllLayouts(llvm::formatv(R"(
      func.func @f(%a: tensor<3x5x{0}xf16>, %b: tensor<5x{0}xi32>, %c: tensor<3x1x1xf32>) {{
        %0:3 = nn.fused rows [3, 5, {0}] (%x = %a : tensor<3x5x{0}xf16>, %i = %b : tensor<5x{0}xi32>, %s = %c : tensor<3x1x1xf32>)
            -> (tensor<3x5x{0}xf32>, tensor<3x5x{0}xi1>, tensor<3x5x{0}xi64>) {{
          %f = nn.cast %x : tensor<3x5x{0}xf16> -> tensor<3x5x{0}xf32>
          %g = nn.cast %i : tensor<5x{0}xi32> -> tensor<5x{0}xf32>
          %m = nn.max %f, %g : (tensor<3x5x{0}xf32>, tensor<5x{0}xf32>) -> tensor<3x5x{0}xf32>
          %l = nn.compare lt %m, %s : (tensor<3x5x{0}xf32>, tensor<3x1x1xf32>) -> tensor<3x5x{0}xi1>
          %h = nn.abs %m : (tensor<3x5x{0}xf32>) -> tensor<3x5x{0}xf32>
          %e = nn.constant dense<1.5> : tensor<f32>
          %p = nn.pow %h, %e : (tensor<3x5x{0}xf32>, tensor<f32>) -> tensor<3x5x{0}xf32>
          %d = nn.min %p, %m : (tensor<3x5x{0}xf32>, tensor<3x5x{0}xf32>) -> tensor<3x5x{0}xf32>
          %r = nn.iota {{axis = 1 : i64} : () -> tensor<3x5x{0}xi32>
          %t = nn.add %r, %i : (tensor<3x5x{0}xi32>, tensor<5x{0}xi32>) -> tensor<3x5x{0}xi32>
          %u = nn.cast %t : tensor<3x5x{0}xi32> -> tensor<3x5x{0}xi64>
          nn.yield %d, %l, %u : tensor<3x5x{0}xf32>, tensor<3x5x{0}xi1>, tensor<3x5x{0}xi64>
        }
        return
      })",
                                  n),
                    2e-6);
}

// A sum in one type of what is stored in another.
TEST(ColumnKernels, NarrowOperand) {
  for (int n : {5, 64, 200})
    checkAllLayouts(llvm::formatv(R"(
      func.func @f(%a: tensor<37x{0}xbf16>) {{
        %0 = nn.fused columns [37, {0}] (%x = %a : tensor<37x{0}xbf16>) -> tensor<{0}xf32> {{
          %f = nn.cast %x : tensor<37x{0}xbf16> -> tensor<37x{0}xf32>
          %s = nn.reduce_sum %f {{axes = array<i64: 0>} : (tensor<37x{0}xf32>) -> tensor<{0}xf32>
          nn.yield %s : tensor<{0}xf32>
        }
        return
      })",
                                  n),
                    1e-5);
}

/// An elementwise kernel of one op.
static std::string unary(llvm::StringRef op, int n, llvm::StringRef type) {
  return llvm::formatv(R"(
    func.func @f(%a: tensor<4x{0}x{2}>) {{
      %0 = nn.fused rows [4, {0}] (%x = %a : tensor<4x{0}x{2}>) -> tensor<4x{0}x{2}> {{
        %1 = nn.{1} %x : (tensor<4x{0}x{2}>) -> tensor<4x{0}x{2}>
        nn.yield %1 : tensor<4x{0}x{2}>
      }
      return
    })",
                       n, op, type);
}

TEST(ElementwiseKernels, EveryUnaryOp) {
  for (const char *op :
       {"neg", "exp", "tanh", "erf", "sigmoid", "relu", "abs", "sin", "cos",
        "silu", "gelu", "reciprocal", "log", "sqrt", "rsqrt"})
    for (const char *type : {"f32", "bf16", "f16"}) {
      SCOPED_TRACE(std::string(op) + " " + type);
      checkGroup(unary(op, 37, type), Layout::Contiguous, 3, 1e-6);
      checkGroup(unary(op, 37, type), Layout::Padded, 3, 1e-6);
    }
}

/// The largest error of a function over a range, in units in the last place.
static void findWorst(llvm::StringRef op, double low, double high,
                      double (*exact)(double), double &worst) {
  constexpr int64_t kCount = 4 * 25000;
  ParsedGroup group(unary(op, 25000, "f32"));
  std::mt19937 random(1);
  auto tensor =
      mlir::cast<mlir::RankedTensorType>(group.fused->getOperand(0).getType());
  Buffer in = Buffer::make(tensor, Layout::Contiguous, random), out = in;
  auto *x = reinterpret_cast<float *>(in.bytes.data());
  auto *y = reinterpret_cast<float *>(out.bytes.data());
  for (int64_t i = 0; i < kCount; ++i)
    x[i] = low + (high - low) * i / kCount;
  auto kernel = makeRunner(group.fused, {in.type, out.type});
  ASSERT_TRUE(kernel);
  kernel->run({&in, &out});
  worst = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    double expected = exact(x[i]);
    float next =
        std::nextafter(std::fabs(static_cast<float>(expected)), INFINITY);
    double ulp = next - std::fabs(static_cast<float>(expected));
    worst = std::max(worst, std::fabs(y[i] - expected) / ulp);
  }
}

static double worstUlp(llvm::StringRef op, double low, double high,
                       double (*exact)(double)) {
  double worst = INFINITY;
  findWorst(op, low, high, exact, worst);
  return worst;
}

TEST(ElementwiseKernels, PolynomialsAreAccurate) {
  EXPECT_LE(worstUlp("exp", -87, 88.7, std::exp), 2);
  EXPECT_LE(worstUlp("exp", -1, 1, std::exp), 2);
  EXPECT_LE(worstUlp("tanh", -10, 10, std::tanh), 2);
  EXPECT_LE(worstUlp("tanh", -0.7, 0.7, std::tanh), 2);
  EXPECT_LE(worstUlp("erf", -4.5, 4.5, std::erf), 2);
  EXPECT_LE(worstUlp("erf", -1, 1, std::erf), 2);
  EXPECT_LE(worstUlp("log", 1e-3, 100, std::log), 2);
  EXPECT_LE(worstUlp("log", 0.5, 1.5, std::log), 2);
  EXPECT_LE(
      worstUlp("rsqrt", 1e-6, 1e3, [](double x) { return 1 / std::sqrt(x); }),
      2);
  EXPECT_LE(worstUlp("sin", -3, 3, std::sin), 2);
  EXPECT_LE(worstUlp("cos", -1.5, 1.5, std::cos), 2);
}

// Masks are made of infinities, and a NaN must not vanish.
TEST(ElementwiseKernels, SpecialValues) {
  ParsedGroup group(unary("exp", 3, "f32"));
  std::mt19937 random(1);
  auto tensor =
      mlir::cast<mlir::RankedTensorType>(group.fused->getOperand(0).getType());
  Buffer in = Buffer::make(tensor, Layout::Contiguous, random), out = in;
  auto *x = reinterpret_cast<float *>(in.bytes.data());
  auto *y = reinterpret_cast<float *>(out.bytes.data());
  const float values[12] = {-INFINITY, INFINITY, NAN,   -0.0f, 0.0f,  200.0f,
                            -200.0f,   88.7f,    -87.f, 1.0f,  -1.0f, 1e-30f};
  std::copy(values, values + 12, x);
  auto kernel = makeRunner(group.fused, {in.type, out.type});
  ASSERT_TRUE(kernel);
  kernel->run({&in, &out});
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], INFINITY);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 1.0f);
  EXPECT_EQ(y[4], 1.0f);
  EXPECT_EQ(y[5], INFINITY);
  EXPECT_EQ(y[6], 0.0f);
  for (int i = 7; i < 12; ++i)
    EXPECT_NEAR(y[i] / std::exp(static_cast<double>(x[i])), 1.0, 2e-7);
}

// By the bits of 2/π that matter, however large the angle is.
TEST(ElementwiseKernels, LargeAngles) {
  using Function = double (*)(double);
  for (auto [op, function] :
       {std::pair<const char *, Function>("sin", std::sin),
        std::pair<const char *, Function>("cos", std::cos)}) {
    ParsedGroup group(unary(op, 3, "f32"));
    std::mt19937 random(1);
    auto tensor = mlir::cast<mlir::RankedTensorType>(
        group.fused->getOperand(0).getType());
    Buffer in = Buffer::make(tensor, Layout::Contiguous, random), out = in;
    const float angles[12] = {1.5f,   100001.0f, -3e6f,   6.6e6f,
                              3.4e7f, -1e10f,    2.5e15f, 1e22f,
                              -1e30f, 3.4e38f,   1e5f,    INFINITY};
    std::memcpy(in.bytes.data(), angles, sizeof(angles));
    makeRunner(group.fused, {in.type, out.type})->run({&in, &out});
    Dense y = toDense(out);
    for (size_t i = 0; i < 11; ++i)
      EXPECT_NEAR(y.values[i], function(angles[i]), 3e-7) << op << angles[i];
    EXPECT_TRUE(std::isnan(y.values[11]));
  }
}

// The bits of a NaN may be any: a GPU's are all ones.
TEST(ElementwiseKernels, AnyNaNStaysOne) {
  for (const char *op : {"exp", "tanh", "erf", "log", "sigmoid", "silu", "relu",
                         "sqrt", "sin"}) {
    ParsedGroup group(unary(op, 3, "f32"));
    std::mt19937 random(1);
    auto tensor = mlir::cast<mlir::RankedTensorType>(
        group.fused->getOperand(0).getType());
    Buffer in = Buffer::make(tensor, Layout::Contiguous, random), out = in;
    const uint32_t bits[4] = {0x7fc00000, 0x7fffffff, 0xffc00001, 0x7fc12345};
    for (size_t i = 0; i < 12; ++i)
      std::memcpy(in.bytes.data() + 4 * i, &bits[i % 4], 4);
    makeRunner(group.fused, {in.type, out.type})->run({&in, &out});
    for (double y : toDense(out).values)
      EXPECT_TRUE(std::isnan(y)) << op << " gives " << y;
  }
}

// Wherever the NaN of a line is, in whole vectors and behind the last of them.
TEST(RowKernels, NaNIsTheMaximum) {
  for (int n : {3, 40, 77})
    for (int at : {0, n - 1})
      checkAllLayouts(llvm::formatv(R"(
      func.func @f(%a: tensor<5x{0}xf32>) {{
        %0:2 = nn.fused rows [5, {0}] (%x = %a : tensor<5x{0}xf32>) -> (tensor<5x1xf32>, tensor<5x{0}xf32>) {{
          %nan = nn.constant dense<0x7FC00000> : tensor<f32>
          %i = nn.iota {{axis = 1 : i64} : () -> tensor<5x{0}xi64>
          %c = nn.constant dense<{1}> : tensor<i64>
          %row = nn.iota {{axis = 0 : i64} : () -> tensor<5x{0}xi64>
          %two = nn.constant dense<2> : tensor<i64>
          %here = nn.compare eq %i, %c : (tensor<5x{0}xi64>, tensor<i64>) -> tensor<5x{0}xi1>
          %early = nn.compare lt %row, %two : (tensor<5x{0}xi64>, tensor<i64>) -> tensor<5x{0}xi1>
          %both = nn.and %here, %early : (tensor<5x{0}xi1>, tensor<5x{0}xi1>) -> tensor<5x{0}xi1>
          %y = nn.select %both, %nan, %x : (tensor<5x{0}xi1>, tensor<f32>, tensor<5x{0}xf32>) -> tensor<5x{0}xf32>
          %m = nn.reduce_max %y {{axes = array<i64: 1>, keepdims} : (tensor<5x{0}xf32>) -> tensor<5x1xf32>
          %d = nn.sub %x, %m : (tensor<5x{0}xf32>, tensor<5x1xf32>) -> tensor<5x{0}xf32>
          nn.yield %m, %d : tensor<5x1xf32>, tensor<5x{0}xf32>
        }
        return
      })",
                                    n, at),
                      1e-6);
}

// What is cast and read again in the same kernel is rounded as if it had been
// stored; what is stored, too, is rounded once.
TEST(ElementwiseKernels, CastsRound) {
  for (const char *type : {"f16", "bf16"})
    for (int n : {3, 45})
      for (const char *scale : {"1.0", "65536.0"})
        checkAllLayouts(llvm::formatv(R"(
      func.func @f(%a: tensor<4x{0}xf32>) {{
        %0:2 = nn.fused rows [4, {0}] (%x = %a : tensor<4x{0}xf32>) -> (tensor<4x{0}xf32>, tensor<4x{0}x{1}>) {{
          %s = nn.constant dense<{2}> : tensor<f32>
          %y = nn.mul %x, %s : (tensor<4x{0}xf32>, tensor<f32>) -> tensor<4x{0}xf32>
          %h = nn.cast %y : tensor<4x{0}xf32> -> tensor<4x{0}x{1}>
          %w = nn.cast %h : tensor<4x{0}x{1}> -> tensor<4x{0}xf32>
          %d = nn.sub %w, %y : (tensor<4x{0}xf32>, tensor<4x{0}xf32>) -> tensor<4x{0}xf32>
          nn.yield %d, %h : tensor<4x{0}xf32>, tensor<4x{0}x{1}>
        }
        return
      })",
                                      n, type, scale),
                        1e-6);
}

// Rows of many vectors, of an odd length, and too long to keep.
TEST(RowKernels, LongSoftmax) {
  for (int n : {768, 1600, 4096, 16384, 50257})
    for (const char *type : {"f32", "bf16"}) {
      SCOPED_TRACE(std::string(type) + " " + std::to_string(n));
      std::string text = llvm::formatv(R"(
      func.func @f(%a: tensor<3x{0}x{1}>) {{
        %0 = nn.fused rows [3, {0}] (%h = %a : tensor<3x{0}x{1}>) -> tensor<3x{0}x{1}> {{
          %x = nn.cast %h : tensor<3x{0}x{1}> -> tensor<3x{0}xf32>
          %t = nn.reduce_max %x {{axes = array<i64: 1>, keepdims} : (tensor<3x{0}xf32>) -> tensor<3x1xf32>
          %s = nn.sub %x, %t : (tensor<3x{0}xf32>, tensor<3x1xf32>) -> tensor<3x{0}xf32>
          %e = nn.exp %s : (tensor<3x{0}xf32>) -> tensor<3x{0}xf32>
          %u = nn.reduce_sum %e {{axes = array<i64: 1>, keepdims} : (tensor<3x{0}xf32>) -> tensor<3x1xf32>
          %p = nn.div %e, %u : (tensor<3x{0}xf32>, tensor<3x1xf32>) -> tensor<3x{0}xf32>
          %o = nn.cast %p : tensor<3x{0}xf32> -> tensor<3x{0}x{1}>
          nn.yield %o : tensor<3x{0}x{1}>
        }
        return
      })",
                                       n, type);
      checkGroup(text, Layout::Contiguous, 1, 1e-5);
      checkGroup(text, Layout::Contiguous, 2, 1e-5, "", /*inPlace=*/true);
    }
}

// Sums over many rows, of a norm's gradients.
TEST(ColumnKernels, ManyRows) {
  for (int n : {40, 200, 768, 1001}) {
    SCOPED_TRACE(n);
    checkGroup(llvm::formatv(R"(
      func.func @f(%g: tensor<3x700x{0}xbf16>, %r: tensor<3x700x1xf32>) {{
        %0:2 = nn.fused columns [3, 700, {0}] (%a = %g : tensor<3x700x{0}xbf16>, %d = %r : tensor<3x700x1xf32>)
            -> (tensor<{0}xf32>, tensor<{0}xbf16>) {{
          %f = nn.cast %a : tensor<3x700x{0}xbf16> -> tensor<3x700x{0}xf32>
          %2 = nn.mul %f, %d : (tensor<3x700x{0}xf32>, tensor<3x700x1xf32>) -> tensor<3x700x{0}xf32>
          %4 = nn.reduce_sum %2 {{axes = array<i64: 0, 1>} : (tensor<3x700x{0}xf32>) -> tensor<{0}xf32>
          %5 = nn.reduce_sum %a {{axes = array<i64: 0, 1>} : (tensor<3x700x{0}xbf16>) -> tensor<{0}xbf16>
          nn.yield %4, %5 : tensor<{0}xf32>, tensor<{0}xbf16>
        }
        return
      })",
                             n)
                   .str(),
               Layout::Padded, 4, 1e-4);
  }
}

// Each result lies where its operand lies.
TEST(ElementwiseKernels, InPlace) {
  for (const char *type : {"f32", "bf16"})
    for (int n : {37, 4099, 30000}) {
      checkGroup(unary("gelu", n, type), Layout::Contiguous, 5, 1e-6, "", true);
      checkGroup(unary("gelu", n, type), Layout::Padded, 5, 1e-6, "", true);
    }
}

// Masks come out as the definition has them, in rows and in sums of columns.
TEST(RowKernels, Dropout) {
  const char *body = R"(
          %i = nn.iota {{axis = 0 : i64} : () -> tensor<3x4x1xi64>
          %j = nn.iota {{axis = 1 : i64} : () -> tensor<3x4x1xi64>
          %c = nn.iota {{axis = 0 : i64} : () -> tensor<{0}xi32>
          %l = nn.random_key %s, %f, %i, %j {{sizes = array<i64: 3, 4>, half = 0 : i64}
             : (tensor<1xi64>, tensor<1xi64>, tensor<3x4x1xi64>, tensor<3x4x1xi64>) -> tensor<3x4x1xi32>
          %h = nn.random_key %s, %f, %i, %j {{sizes = array<i64: 3, 4>, half = 1 : i64}
             : (tensor<1xi64>, tensor<1xi64>, tensor<3x4x1xi64>, tensor<3x4x1xi64>) -> tensor<3x4x1xi32>
          %k = nn.random_keep %l, %h, %c {{threshold = 2900000000 : i64}
             : (tensor<3x4x1xi32>, tensor<3x4x1xi32>, tensor<{0}xi32>) -> tensor<3x4x{0}xi1>
          %z = nn.constant dense<0.0> : tensor<f32>
          %y = nn.select %k, %x, %z : (tensor<3x4x{0}xi1>, tensor<3x4x{0}xf32>, tensor<f32>) -> tensor<3x4x{0}xf32>
)";
  const char *head = R"(
      func.func @f(%a: tensor<3x4x{0}xf32>, %t: tensor<1xi64>, %u: tensor<1xi64>) {{
        %0 = nn.fused {1} [3, 4, {0}] (%x = %a : tensor<3x4x{0}xf32>, %s = %t : tensor<1xi64>, %f = %u : tensor<1xi64>)
            -> tensor<{2}{0}xf32> {{)";
  for (int n : {1, 5, 64, 77}) {
    checkAllLayouts(
        llvm::formatv(head, n, "rows", "3x4x").str() +
            llvm::formatv(body, n).str() +
            llvm::formatv("nn.yield %y : tensor<3x4x{0}xf32> } return }", n)
                .str(),
        0);
    checkAllLayouts(
        llvm::formatv(head, n, "columns", "").str() +
            llvm::formatv(body, n).str() +
            llvm::formatv("%q = nn.reduce_sum %y {{axes = array<i64: 0, 1>} : "
                          "(tensor<3x4x{0}xf32>) -> tensor<{0}xf32> "
                          "nn.yield %q : tensor<{0}xf32> } return }",
                          n)
                .str(),
        1e-6);
  }
}

// Powers of any sign, and what has none.
TEST(ElementwiseKernels, Powers) {
  ParsedGroup group(R"(
    func.func @f(%a: tensor<24xf32>, %b: tensor<24xf32>) {
      %0 = nn.fused rows [24] (%x = %a : tensor<24xf32>, %y = %b : tensor<24xf32>) -> tensor<24xf32> {
        %1 = nn.pow %x, %y : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
        nn.yield %1 : tensor<24xf32>
      }
      return
    })");
  const float bases[24] = {2,    -2,     -2,       0,        0,  0,
                           1.5f, 10,     1e-30f,   1e30f,    -1, 0.25f,
                           NAN,  NAN,    INFINITY, INFINITY, -8, 1,
                           3,    1e-40f, 0.999f,   123.456f, 2,  -0.5f};
  const float powers[24] = {10,    3,   2,  2,     -1,   0,     0.5f, -30,
                            0.5f,  2,   7,  -0.5f, 0,    1,     -1,   0.5f,
                            0.25f, NAN, 40, 0.5f,  1e4f, -3.7f, -149, -3};
  std::mt19937 random(1);
  auto tensor =
      mlir::cast<mlir::RankedTensorType>(group.fused->getOperand(0).getType());
  Buffer x = Buffer::make(tensor, Layout::Contiguous, random), y = x, z = x;
  std::memcpy(x.bytes.data(), bases, sizeof(bases));
  std::memcpy(y.bytes.data(), powers, sizeof(powers));
  auto kernel = makeRunner(group.fused, {x.type, y.type, z.type});
  ASSERT_TRUE(kernel);
  kernel->run({&x, &y, &z});
  for (int64_t i = 0; i < 24; ++i) {
    double expected =
        static_cast<float>(std::pow(double(bases[i]), double(powers[i])));
    double actual = z.read({i});
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(actual)) << i << ": " << actual;
    else if (std::isinf(expected) || expected == 0)
      EXPECT_EQ(actual, expected) << i;
    else
      EXPECT_NEAR(actual / expected, 1.0, 4e-7) << i;
  }
}
