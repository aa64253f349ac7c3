// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums over leading axes take clones of what feeds them.

// RUN: shardonnx-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(nn-fuse,canonicalize))' | FileCheck %s

// The gradients of a norm's weight and bias: one kernel, the product not stored.
// CHECK-LABEL: func.func @weight_and_bias
// CHECK: nn.fused columns [16, 8] (%{{.*}} = %arg0 : tensor<16x8xf32>, %{{.*}} = %arg1 : tensor<16x8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
// CHECK-NEXT: nn.mul
// CHECK-NEXT: nn.reduce_sum
// CHECK-NEXT: nn.reduce_sum
// CHECK-NEXT: nn.yield
// CHECK-NOT: nn.fused
func.func @weight_and_bias(%g: tensor<16x8xf32>, %x: tensor<16x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = nn.mul %g, %x : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %1 = nn.reduce_sum %0 {axes = array<i64: 0>} : (tensor<16x8xf32>) -> tensor<8xf32>
  %2 = nn.reduce_sum %g {axes = array<i64: 0>} : (tensor<16x8xf32>) -> tensor<8xf32>
  return %1, %2 : tensor<8xf32>, tensor<8xf32>
}

// -----

// What a matmul needs is stored anyway: the sum reads it.
// CHECK-LABEL: func.func @stored
// CHECK: %[[G:.*]] = nn.fused rows
// CHECK: nn.fused columns [16, 8] (%{{.*}} = %[[G]] : tensor<16x8xf32>)
func.func @stored(%d: tensor<16x8xf32>, %w: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<16x8xf32>) {
  %0 = nn.tanh %d : (tensor<16x8xf32>) -> tensor<16x8xf32>
  %1 = nn.reduce_sum %0 {axes = array<i64: 0>} : (tensor<16x8xf32>) -> tensor<8xf32>
  %2 = nn.matmul %0, %w : (tensor<16x8xf32>, tensor<8x8xf32>) -> tensor<16x8xf32>
  return %1, %2 : tensor<8xf32>, tensor<16x8xf32>
}

// -----

// A summand in memory has other rows: it is read as the sum's.
// CHECK-LABEL: func.func @other_rows
// CHECK: %[[R:.*]] = nn.reshape %arg0 : tensor<2x12x5xf32> -> tensor<24x5xf32>
// CHECK: nn.fused columns [24, 5] (%{{.*}} = %[[R]] : tensor<24x5xf32>, %{{.*}} = %arg1 : tensor<24x5xf32>)
func.func @other_rows(%a: tensor<2x12x5xf32>, %b: tensor<24x5xf32>) -> tensor<5xf32> {
  %0 = nn.reshape %a : tensor<2x12x5xf32> -> tensor<24x5xf32>
  %1 = nn.mul %0, %b : (tensor<24x5xf32>, tensor<24x5xf32>) -> tensor<24x5xf32>
  %2 = nn.reduce_sum %1 {axes = array<i64: 0>} : (tensor<24x5xf32>) -> tensor<5xf32>
  return %2 : tensor<5xf32>
}

// -----

// Rows of which neither refines the other: the summand is stored.
// CHECK-LABEL: func.func @neither_refines
// CHECK: nn.fused rows [3, 8, 5]
// CHECK: nn.fused columns [4, 6, 5]
func.func @neither_refines(%a: tensor<3x8x5xf32>, %b: tensor<4x6x5xf32>) -> tensor<5xf32> {
  %0 = nn.exp %a : (tensor<3x8x5xf32>) -> tensor<3x8x5xf32>
  %1 = nn.reshape %0 : tensor<3x8x5xf32> -> tensor<4x6x5xf32>
  %2 = nn.mul %1, %b : (tensor<4x6x5xf32>, tensor<4x6x5xf32>) -> tensor<4x6x5xf32>
  %3 = nn.reduce_sum %2 {axes = array<i64: 0, 1>} : (tensor<4x6x5xf32>) -> tensor<5xf32>
  return %3 : tensor<5xf32>
}

// -----

// What backward computes again is no part of a kernel whose sum forward reads.
// CHECK-LABEL: func.func @again
// CHECK: %[[S:.*]] = nn.fused columns [16, 8] (%{{.*}} = %arg0 : tensor<16x8xf32>) -> tensor<8xf32> attributes {place = #nn.place<@u>}
// CHECK: nn.fused columns [16, 8] (%{{.*}} = %arg0 : tensor<16x8xf32>) -> tensor<8xf32> attributes {place = #nn.place<@u, recompute>}
func.func @again(%x: tensor<16x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = nn.mul %x, %x {place = #nn.place<@u>} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %1 = nn.reduce_sum %0 {axes = array<i64: 0>, place = #nn.place<@u>} : (tensor<16x8xf32>) -> tensor<8xf32>
  %2 = nn.mul %x, %x {place = #nn.place<@u, recompute>} : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = nn.reduce_sum %2 {axes = array<i64: 0>, place = #nn.place<@u, recompute>} : (tensor<16x8xf32>) -> tensor<8xf32>
  return %1, %3 : tensor<8xf32>, tensor<8xf32>
}
