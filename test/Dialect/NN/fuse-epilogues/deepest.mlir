// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For CPUs: an adapter's product is added to the product beside it.

// RUN: shardonnx-opt %s --nn-fuse-epilogues=deepest=4 -split-input-file | FileCheck %s

// Of the whole product, and of the parts of a joined one; a bias is left alone.
// CHECK-LABEL: func.func @adapters
// CHECK: %[[BASE:.*]] = nn.matmul %arg0, %arg1
// CHECK: %[[LEFT:.*]] = nn.slice %[[BASE]]
// CHECK: nn.matmul_epilogue bias %arg2, %arg3, %[[LEFT]]
// CHECK: %[[RIGHT:.*]] = nn.slice %[[BASE]]
// CHECK: nn.matmul_epilogue bias %arg2, %arg3, %[[RIGHT]]
// CHECK: %[[BIASED:.*]] = nn.matmul %arg2, %arg3
// CHECK: nn.add %[[BIASED]]
func.func @adapters(%x: tensor<8x16xf32>, %w: tensor<16x16xf32>, %h: tensor<8x4xf32>, %b: tensor<4x8xf32>, %bias: tensor<8xf32>) -> (tensor<2x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %y = nn.matmul %x, %w : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %left = nn.slice %y {offsets = array<i64: 0, 0>, sizes = array<i64: 8, 8>} : (tensor<8x16xf32>) -> tensor<8x8xf32>
  %rows = nn.reshape %left : tensor<8x8xf32> -> tensor<2x4x8xf32>
  %p = nn.matmul %h, %b : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %r = nn.reshape %p : tensor<8x8xf32> -> tensor<2x4x8xf32>
  %0 = nn.add %rows, %r : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %right = nn.slice %y {offsets = array<i64: 0, 8>, sizes = array<i64: 8, 8>} : (tensor<8x16xf32>) -> tensor<8x8xf32>
  %q = nn.matmul %h, %b : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = nn.add %q, %right : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = nn.matmul %h, %b : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %wide = nn.broadcast %bias : tensor<8xf32> -> tensor<8x8xf32>
  %2 = nn.add %s, %wide : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1, %2 : tensor<2x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A deep product, one that is rounded, and one beside a product that is read
// without the sum.
// CHECK-LABEL: func.func @refused
// CHECK-NOT: epilogue
func.func @refused(%x: tensor<8x16xf32>, %w: tensor<16x8xf32>, %h: tensor<8x4xf32>, %b: tensor<4x8xf32>, %hh: tensor<8x4xbf16>, %hb: tensor<4x8xbf16>) -> (tensor<8x8xf32>, tensor<8x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %d = nn.matmul %x, %w : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %e = nn.matmul %x, %w : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %0 = nn.add %d, %e : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %f = nn.matmul %hh, %hb : (tensor<8x4xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
  %g = nn.matmul %hh, %hb : (tensor<8x4xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
  %1 = nn.add %f, %g : (tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %y = nn.matmul %x, %w : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  %p = nn.matmul %h, %b : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = nn.add %y, %p : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %0, %1, %2, %y : tensor<8x8xf32>, tensor<8x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A sum of numbers has no rows.
// CHECK-LABEL: func.func @numbers
// CHECK-NOT: epilogue
func.func @numbers(%x: tensor<1x1xf32>, %w: tensor<1x1xf32>, %n: tensor<f32>) -> tensor<f32> {
  %p = nn.matmul %x, %w : (tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1xf32>
  %r = nn.reshape %p : tensor<1x1xf32> -> tensor<f32>
  %0 = nn.add %r, %n : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
