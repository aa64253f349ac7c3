// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a product is added to.

// RUN: shardonnx-opt %s --nn-fuse-epilogues -split-input-file | FileCheck %s

// A residual stream, in the product's shape; the second sum reads the first.
// CHECK-LABEL: func.func @residual
// CHECK: %[[X:.*]] = nn.reshape %arg0
// CHECK: %[[A:.*]] = nn.matmul_epilogue bias %arg1, %arg2, %[[X]] {place = #nn.place<@u>}
// CHECK: %[[B:.*]] = nn.matmul_epilogue bias %arg1, %arg2, %[[A]]
// CHECK-NOT: nn.add
// CHECK: %[[R:.*]] = nn.reshape %[[B]]
// CHECK: nn.neg %[[R]]
func.func @residual(%h: tensor<2x4x8xbf16>, %a: tensor<8x4xbf16>, %w: tensor<4x8xbf16>) -> tensor<2x4x8xbf16> {
  %p = nn.matmul %a, %w {place = #nn.place<@u>} : (tensor<8x4xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
  %r = nn.reshape %p {place = #nn.place<@u>} : tensor<8x8xbf16> -> tensor<2x4x8xbf16>
  %s = nn.add %h, %r {place = #nn.place<@u>} : (tensor<2x4x8xbf16>, tensor<2x4x8xbf16>) -> tensor<2x4x8xbf16>
  %q = nn.matmul %a, %w {place = #nn.place<@u>} : (tensor<8x4xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
  %t = nn.reshape %q {place = #nn.place<@u>} : tensor<8x8xbf16> -> tensor<2x4x8xbf16>
  %y = nn.add %t, %s {place = #nn.place<@u>} : (tensor<2x4x8xbf16>, tensor<2x4x8xbf16>) -> tensor<2x4x8xbf16>
  %n = nn.neg %y : (tensor<2x4x8xbf16>) -> tensor<2x4x8xbf16>
  return %n : tensor<2x4x8xbf16>
}

// -----

// What a kernel would have computed on the way, a product that is read without
// the sum, and a sum of another unit are left alone.
// CHECK-LABEL: func.func @refused
// CHECK-NOT: epilogue
func.func @refused(%a: tensor<8x4xf32>, %w: tensor<4x8xf32>, %h: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %p = nn.matmul %a, %w : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %e = nn.exp %h : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %0 = nn.add %p, %e : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = nn.neg %0 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %q = nn.matmul %a, %w : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = nn.add %q, %h : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %r = nn.matmul %a, %w {place = #nn.place<@u>} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %3 = nn.add %r, %h {place = #nn.place<@v>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %1, %2, %q, %3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
