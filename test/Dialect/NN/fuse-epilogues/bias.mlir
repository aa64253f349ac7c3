// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where a bias goes.

// RUN: shardonnx-opt %s --nn-fuse-epilogues -split-input-file | FileCheck %s

// Attention reads its operands from memory: the product adds the bias.
// CHECK-LABEL: func.func @call
// CHECK: %[[S:.*]] = nn.matmul_epilogue bias %arg0, %arg1, %arg2 {place = #nn.place<@u>} :
// CHECK-NOT: nn.add
// CHECK: nn.reshape %[[S]]
func.func @call(%a: tensor<8x4xf32>, %w: tensor<4x12xf32>, %b: tensor<12xf32>) -> tensor<2x4x1x4xf32> {
  %p = nn.matmul %a, %w {place = #nn.place<@u>} : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32>
  %s = nn.add %p, %b : (tensor<8x12xf32>, tensor<12xf32>) -> tensor<8x12xf32>
  %h = nn.reshape %s : tensor<8x12xf32> -> tensor<2x4x3x4xf32>
  %q = nn.slice %h {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 4, 1, 4>} : (tensor<2x4x3x4xf32>) -> tensor<2x4x1x4xf32>
  %o, %lse = nn.attention %q, %q, %q {scale = 0.5 : f32} : (tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>) -> (tensor<2x4x1x4xf32>, tensor<2x1x4xf32>)
  return %o : tensor<2x4x1x4xf32>
}

// -----

// A kernel that reads the product anyway adds the bias for nothing.
// CHECK-LABEL: func.func @kernel
// CHECK: nn.matmul %
// CHECK-NOT: epilogue
func.func @kernel(%a: tensor<8x4xf32>, %w: tensor<4x12xf32>, %b: tensor<12xf32>, %r: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %p = nn.matmul %a, %w : (tensor<8x4xf32>, tensor<4x12xf32>) -> tensor<8x12xf32>
  %s = nn.add %p, %b : (tensor<8x12xf32>, tensor<12xf32>) -> tensor<8x12xf32>
  %y = nn.mul %s, %r : (tensor<8x12xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
  %z = nn.neg %y : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %z : tensor<8x12xf32>
}

// -----

// The product is read without the bias, too.
// CHECK-LABEL: func.func @both
// CHECK-NOT: epilogue
func.func @both(%a: tensor<8x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %p = nn.matmul %a, %w : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %s = nn.add %p, %b : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %g = nn.gelu %s {tanh} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %p, %g : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// GELU by erf is none of the library's; nor are rows that are no multiple of 8,
// which the pre-activation of GELU's gradient must be; and in f32 the library's
// GELU is too coarse.
// CHECK-LABEL: func.func @refused
// CHECK-NOT: epilogue
func.func @refused(%a: tensor<8x4xbf16>, %w: tensor<4x8xbf16>, %b: tensor<8xbf16>, %w2: tensor<4x12xbf16>, %b2: tensor<12xbf16>, %a3: tensor<8x4xf32>, %w3: tensor<4x8xf32>, %b3: tensor<8xf32>) -> (tensor<8x8xbf16>, tensor<8x12xbf16>, tensor<8x8xf32>) {
  %p = nn.matmul %a, %w : (tensor<8x4xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
  %s = nn.add %p, %b : (tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<8x8xbf16>
  %g = nn.gelu %s : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %n = nn.neg %g : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %p2 = nn.matmul %a, %w2 : (tensor<8x4xbf16>, tensor<4x12xbf16>) -> tensor<8x12xbf16>
  %s2 = nn.add %p2, %b2 : (tensor<8x12xbf16>, tensor<12xbf16>) -> tensor<8x12xbf16>
  %g2 = nn.gelu %s2 {tanh} : (tensor<8x12xbf16>) -> tensor<8x12xbf16>
  %n2 = nn.neg %g2 : (tensor<8x12xbf16>) -> tensor<8x12xbf16>
  %p3 = nn.matmul %a3, %w3 : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %s3 = nn.add %p3, %b3 : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
  %g3 = nn.gelu %s3 {tanh} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %n3 = nn.neg %g3 : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %n, %n2, %n3 : tensor<8x8xbf16>, tensor<8x12xbf16>, tensor<8x8xf32>
}

// -----

// What is added is no bias: it has a value for each row.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: epilogue
func.func @rows(%a: tensor<8x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8x1xf32>) -> tensor<8x8xf32> {
  %p = nn.matmul %a, %w : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %s = nn.add %p, %b : (tensor<8x8xf32>, tensor<8x1xf32>) -> tensor<8x8xf32>
  %g = nn.gelu %s {tanh} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %g : tensor<8x8xf32>
}

// -----

// A weight stored [out, in] has its gradient's sums on the other side.
// CHECK-LABEL: func.func @transposed
// CHECK-NOT: epilogue
func.func @transposed(%dy: tensor<6x8xf32>, %a: tensor<6x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>) {
  %dw = nn.matmul %dy, %a {transpose_lhs} : (tensor<6x8xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  %db = nn.reduce_sum %dy {axes = array<i64: 0>} : (tensor<6x8xf32>) -> tensor<8xf32>
  return %dw, %db : tensor<8x4xf32>, tensor<8xf32>
}
