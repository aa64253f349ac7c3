// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that a GPU alone gets: rows, and sums over them besides.

#include "kernel_harness.h"
#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>

using namespace shardonnx::test;

// A norm's gradients: of its rows, which need a sum along each, and of weight
// and bias. Parts of a warp, warps and blocks a row; chunks that are whole,
// odd, and fewer rows than a block has side by side.
TEST(RowKernels, SumsOfColumnsBeside) {
  struct Case {
    int batch, rows, length;
    const char *type;
  };
  for (Case c :
       {Case{1, 3, 5, "f32"}, Case{3, 11, 8, "f32"}, Case{2, 53, 64, "bf16"},
        Case{3, 401, 130, "f32"}, Case{1, 23, 768, "bf16"},
        Case{2, 13, 1001, "f32"}, Case{1, 9, 4096, "bf16"}})
    for (Layout layout : {Layout::Contiguous, Layout::Padded}) {
      SCOPED_TRACE(c.length);
      checkGroup(llvm::formatv(R"(
        func.func @f(%g: tensor<{0}x{1}x{2}x{3}>, %x: tensor<{0}x{1}x{2}x{3}>, %r: tensor<{0}x{1}x1xf32>, %w: tensor<{2}x{3}>) {{
          %0:4 = nn.fused rows [{0}, {1}, {2}] (%a = %g : tensor<{0}x{1}x{2}x{3}>, %b = %x : tensor<{0}x{1}x{2}x{3}>, %d = %r : tensor<{0}x{1}x1xf32>, %v = %w : tensor<{2}x{3}>)
              -> (tensor<{0}x{1}x{2}x{3}>, tensor<{2}xf32>, tensor<{0}x{1}x1xf32>, tensor<{2}x{3}>) {{
            %c0 = nn.cast %a : tensor<{0}x{1}x{2}x{3}> -> tensor<{0}x{1}x{2}xf32>
            %c1 = nn.cast %b : tensor<{0}x{1}x{2}x{3}> -> tensor<{0}x{1}x{2}xf32>
            %c2 = nn.cast %v : tensor<{2}x{3}> -> tensor<{2}xf32>
            %n = nn.mul %c1, %d : (tensor<{0}x{1}x{2}xf32>, tensor<{0}x{1}x1xf32>) -> tensor<{0}x{1}x{2}xf32>
            %s = nn.mul %c0, %c2 : (tensor<{0}x{1}x{2}xf32>, tensor<{2}xf32>) -> tensor<{0}x{1}x{2}xf32>
            %p = nn.mul %s, %n : (tensor<{0}x{1}x{2}xf32>, tensor<{0}x{1}x{2}xf32>) -> tensor<{0}x{1}x{2}xf32>
            %m = nn.reduce_mean %p {{axes = array<i64: 2>, keepdims} : (tensor<{0}x{1}x{2}xf32>) -> tensor<{0}x{1}x1xf32>
            %q = nn.mul %n, %m : (tensor<{0}x{1}x{2}xf32>, tensor<{0}x{1}x1xf32>) -> tensor<{0}x{1}x{2}xf32>
            %u = nn.sub %s, %q : (tensor<{0}x{1}x{2}xf32>, tensor<{0}x{1}x{2}xf32>) -> tensor<{0}x{1}x{2}xf32>
            %o = nn.cast %u : tensor<{0}x{1}x{2}xf32> -> tensor<{0}x{1}x{2}x{3}>
            %y = nn.mul %c0, %n : (tensor<{0}x{1}x{2}xf32>, tensor<{0}x{1}x{2}xf32>) -> tensor<{0}x{1}x{2}xf32>
            %z = nn.reduce_sum %y {{axes = array<i64: 0, 1>} : (tensor<{0}x{1}x{2}xf32>) -> tensor<{2}xf32>
            %k = nn.reduce_sum %a {{axes = array<i64: 0, 1>} : (tensor<{0}x{1}x{2}x{3}>) -> tensor<{2}x{3}>
            nn.yield %o, %z, %m, %k : tensor<{0}x{1}x{2}x{3}>, tensor<{2}xf32>, tensor<{0}x{1}x1xf32>, tensor<{2}x{3}>
          }
          return
        })",
                               c.batch, c.rows, c.length, c.type)
                     .str(),
                 layout, 3, c.type[0] == 'f' ? 1e-5 : 1e-2);
    }
}

// Without a sum along the rows.
TEST(RowKernels, SumsOfColumnsBesideElements) {
  for (int n : {24, 600})
    checkGroup(llvm::formatv(R"(
      func.func @f(%g: tensor<70x{0}xf32>, %x: tensor<70x{0}xf32>) {{
        %0:2 = nn.fused rows [70, {0}] (%a = %g : tensor<70x{0}xf32>, %b = %x : tensor<70x{0}xf32>)
            -> (tensor<70x{0}xf32>, tensor<{0}xf32>) {{
          %y = nn.mul %a, %b : (tensor<70x{0}xf32>, tensor<70x{0}xf32>) -> tensor<70x{0}xf32>
          %z = nn.reduce_sum %y {{axes = array<i64: 0>} : (tensor<70x{0}xf32>) -> tensor<{0}xf32>
          nn.yield %y, %z : tensor<70x{0}xf32>, tensor<{0}xf32>
        }
        return
      })",
                             n)
                   .str(),
               Layout::Contiguous, 7, 1e-5, "", /*inPlace=*/true);
}

// Steps of whole tensors beside what else a kernel does with them: elements and
// odd ends, rows in registers and read again, sums of columns. One of them is
// larger by far than the others.
TEST(RowKernels, StepsOfTensors) {
  struct Case {
    int rows, length;
    const char *type;
  };
  for (Case c : {Case{1, 7, "f32"}, Case{70, 24, "bf16"}, Case{33, 1000, "f32"},
                 Case{5, 4096, "bf16"}, Case{2, 40000, "f32"}})
    for (Layout layout : {Layout::Contiguous, Layout::Padded})
      for (bool reduces : {false, true})
        for (bool sums : {false, true}) {
          SCOPED_TRACE(c.length);
          // Sums of columns of long rows are no part of such a kernel.
          if (sums && c.length > 8192)
            continue;
          std::string mean = "%m = nn.cast %a : tensor<{0}x{1}x{2}> -> "
                             "tensor<{0}x{1}xf32>";
          if (reduces)
            mean = "%m = nn.reduce_max %a {{axes = array<i64: 1>, keepdims} : "
                   "(tensor<{0}x{1}x{2}>) -> tensor<{0}x1x{2}>";
          std::string rows =
              reduces ? "tensor<{0}x1x{2}>" : "tensor<{0}x{1}xf32>";
          std::string sum = "%z = nn.reduce_sum %a {{axes = array<i64: 0>} : "
                            "(tensor<{0}x{1}x{2}>) -> tensor<{1}x{2}>";
          std::string type = sums ? ", tensor<{1}x{2}>" : "";
          std::string text =
              "func.func @f(%x: tensor<{0}x{1}x{2}>, %y: tensor<{0}x{1}x{2}>) "
              "{{"
              "  %0:" +
              std::string(sums ? "4" : "3") +
              " = nn.fused rows [{0}, {1}] (%a = %x : tensor<{0}x{1}x{2}>, %b "
              "= "
              "%y : tensor<{0}x{1}x{2}>) -> (" +
              rows + ", tensor<1xf32>, tensor<1xf32>" + type + ") {{\n" + mean +
              "\n%s = nn.f8_tensor_step e4m3 %a, %b : (tensor<{0}x{1}x{2}>, "
              "tensor<{0}x{1}x{2}>) -> tensor<1xf32>\n"
              "%t = nn.f8_tensor_step e5m2 %m : (" +
              rows + ") -> tensor<1xf32>\n" + (sums ? sum : "") +
              "\nnn.yield %m, %s, %t" + (sums ? ", %z" : "") + " : " + rows +
              ", tensor<1xf32>, tensor<1xf32>" + type + "\n}\nreturn }";
          checkGroup(
              llvm::formatv(text.c_str(), c.rows, c.length, c.type).str(),
              layout, 5, c.type[0] == 'f' ? 1e-5 : 1e-2);
        }
}

// Matrices of 8 bits that are written transposed, beside one that is not and
// its step: in tiles of threads and without, of rows that are several axes, and
// so few of them that columns are no whole words.
TEST(ElementwiseKernels, WriteColumnsOf8Bits) {
  for (const char *shape : {"32x64", "48x80", "96x2048", "3x16x24", "20x16"})
    for (const char *type : {"bf16", "f32"}) {
      SCOPED_TRACE(shape);
      std::string domain = shape;
      for (size_t at; (at = domain.find('x')) != std::string::npos;)
        domain.replace(at, 1, ", ");
      checkGroup(llvm::formatv(R"(
        func.func @f(%x: tensor<{0}x{2}>, %y: tensor<{0}x{2}>) {{
          %0:4 = nn.fused rows [{1}] (%a = %x : tensor<{0}x{2}>, %b = %y : tensor<{0}x{2}>)
              -> (tensor<{0}x{2}>, tensor<{0}xf8E4M3FN>, tensor<1xf32>, tensor<{0}xf8E5M2>) {{
            %p = nn.mul %a, %b : (tensor<{0}x{2}>, tensor<{0}x{2}>) -> tensor<{0}x{2}>
            %s = nn.constant dense<0.0625> : tensor<f32>
            %c = nn.f8_cast e4m3 %p, %s : (tensor<{0}x{2}>, tensor<f32>) -> tensor<{0}xf8E4M3FN>
            %d = nn.f8_cast e5m2 %a, %s : (tensor<{0}x{2}>, tensor<f32>) -> tensor<{0}xf8E5M2>
            %t = nn.f8_tensor_step e5m2 %p : (tensor<{0}x{2}>) -> tensor<1xf32>
            nn.yield %p, %c, %t, %d : tensor<{0}x{2}>, tensor<{0}xf8E4M3FN>, tensor<1xf32>, tensor<{0}xf8E5M2>
          }
          return
        })",
                               shape, domain, type)
                     .str(),
                 Layout::Columns, 11, 1e-5, "", /*inPlace=*/true);
    }
}
