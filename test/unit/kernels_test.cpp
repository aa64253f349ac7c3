// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generated kernels against a naive evaluation: shapes that fill no vector,
// strides, broadcasts, element types, and any split among threads.

#include "kernel_harness.h"
#include "llvm/Support/FormatVariadic.h"
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

TEST(ElementwiseKernels, WiderTargets) {
  if (!__builtin_cpu_supports("avx512bw"))
    GTEST_SKIP() << "needs AVX-512";
  checkGroup(unary("gelu", 37, "bf16"), Layout::Padded, 5, 1e-6, "x86-64-v4");
}
