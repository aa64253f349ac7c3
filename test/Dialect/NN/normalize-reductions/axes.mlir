// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two forms of reduction remain: the last axis, kept, and all axes but the last.

// RUN: shardonnx-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(nn-normalize-reductions,canonicalize))' | FileCheck %s

// CHECK-LABEL: func.func @last
// CHECK: %[[R:.*]] = nn.reduce_mean %arg0 {axes = array<i64: 2>, keepdims}{{.*}} -> tensor<2x3x1xf32>
// CHECK: nn.reshape %[[R]] : tensor<2x3x1xf32> -> tensor<2x3xf32>
func.func @last(%x: tensor<2x3x4xf32>) -> tensor<2x3xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>} : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// A gradient summed over the batch: the axes behind are one.
// CHECK-LABEL: func.func @leading
// CHECK: %[[V:.*]] = nn.reshape %arg0 : tensor<2x3x4xf32> -> tensor<2x12xf32>
// CHECK: nn.reduce_sum %[[V]] {axes = array<i64: 0>} : (tensor<2x12xf32>) -> tensor<12xf32>
func.func @leading(%x: tensor<2x3x4xf32>) -> tensor<3x4xf32> {
  %0 = nn.reduce_sum %x {axes = array<i64: 0>} : (tensor<2x3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @middle
// CHECK: %[[T:.*]] = nn.transpose %arg0 {permutation = array<i64: 0, 2, 1>}
// CHECK: nn.reduce_max %[[T]] {axes = array<i64: 2>, keepdims}
func.func @middle(%x: tensor<2x3x4xf32>) -> tensor<2x1x4xf32> {
  %0 = nn.reduce_max %x {axes = array<i64: 1>, keepdims} : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
  return %0 : tensor<2x1x4xf32>
}

// -----

// A total in two steps, so that the first has rows for the threads.
// CHECK-LABEL: func.func @total
// CHECK: nn.reduce_sum %arg0 {axes = array<i64: 1>, keepdims}{{.*}} -> tensor<64x1xf32>
// CHECK: nn.reduce_sum %{{.*}} {axes = array<i64: 0>, keepdims} : (tensor<64xf32>) -> tensor<1xf32>
func.func @total(%x: tensor<64x32xf32>) -> tensor<f32> {
  %0 = nn.reduce_sum %x {axes = array<i64: 0, 1>} : (tensor<64x32xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @unit_axis
// CHECK-NOT: reduce
// CHECK: nn.reshape %arg0 : tensor<4x1xf32> -> tensor<4xf32>
func.func @unit_axis(%x: tensor<4x1xf32>) -> tensor<4xf32> {
  %0 = nn.reduce_sum %x {axes = array<i64: 1>} : (tensor<4x1xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
