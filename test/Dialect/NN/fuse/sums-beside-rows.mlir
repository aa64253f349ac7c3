// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums of columns in the kernel over the rows that they add up, for GPUs.

// RUN: shardonnx-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(nn-fuse{sums-beside-rows=true},canonicalize))' | FileCheck %s

// A norm's gradients of its rows, its weight and its bias: one kernel, which
// reads both tensors once.
// CHECK-LABEL: func.func @norm
// CHECK: %[[F:.*]]:3 = nn.fused rows [16, 8]
// CHECK-SAME: -> (tensor<16x8xf32>, tensor<8xf32>, tensor<8xf32>)
// CHECK: nn.reduce_sum {{.*}} {axes = array<i64: 0>}
// CHECK-NOT: nn.fused
// CHECK: return %[[F]]#0, %[[F]]#1, %[[F]]#2
func.func @norm(%g: tensor<16x8xf32>, %x: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %p = nn.mul %g, %x : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %m = nn.reduce_mean %p {axes = array<i64: 1>, keepdims} : (tensor<16x8xf32>) -> tensor<16x1xf32>
  %d = nn.sub %g, %m : (tensor<16x8xf32>, tensor<16x1xf32>) -> tensor<16x8xf32>
  %w = nn.reduce_sum %p {axes = array<i64: 0>} : (tensor<16x8xf32>) -> tensor<8xf32>
  %b = nn.reduce_sum %g {axes = array<i64: 0>} : (tensor<16x8xf32>) -> tensor<8xf32>
  return %d, %w, %b : tensor<16x8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Rows that nothing else needs are summed by a kernel over columns.
// CHECK-LABEL: func.func @alone
// CHECK: nn.fused columns [16, 8]
// CHECK-NOT: nn.fused
func.func @alone(%g: tensor<16x8xf32>, %x: tensor<16x8xf32>) -> tensor<8xf32> {
  %p = nn.mul %g, %x : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %w = nn.reduce_sum %p {axes = array<i64: 0>} : (tensor<16x8xf32>) -> tensor<8xf32>
  return %w : tensor<8xf32>
}

// -----

// A kernel has room for two sums: of three the last is one of its own.
// CHECK-LABEL: func.func @three
// CHECK-DAG: nn.fused rows {{.*}} -> (tensor<16x8xf32>, tensor<8xf32>, tensor<8xf32>)
// CHECK-DAG: nn.fused columns {{.*}} -> tensor<8xf32>
func.func @three(%g: tensor<16x8xf32>, %x: tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %p = nn.mul %g, %x : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %a = nn.reduce_sum %p {axes = array<i64: 0>} : (tensor<16x8xf32>) -> tensor<8xf32>
  %b = nn.reduce_sum %g {axes = array<i64: 0>} : (tensor<16x8xf32>) -> tensor<8xf32>
  %c = nn.reduce_sum %x {axes = array<i64: 0>} : (tensor<16x8xf32>) -> tensor<8xf32>
  return %p, %a, %b, %c : tensor<16x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// What reads the sum before the rows can be computed keeps them apart.
// CHECK-LABEL: func.func @waits
// CHECK: nn.fused columns
// CHECK: nn.fused rows
func.func @waits(%g: tensor<16x8xf32>, %v: tensor<8x8xf32>) -> tensor<16x8xf32> {
  %a = nn.reduce_sum %g {axes = array<i64: 0>} : (tensor<16x8xf32>) -> tensor<8xf32>
  %r = nn.reshape %a : tensor<8xf32> -> tensor<1x8xf32>
  %m = nn.matmul %r, %v : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
  %y = nn.mul %g, %m : (tensor<16x8xf32>, tensor<1x8xf32>) -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}
