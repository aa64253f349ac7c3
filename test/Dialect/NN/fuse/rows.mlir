// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What becomes a row group, and what must not.

// RUN: shardonnx-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(nn-fuse,canonicalize))' | FileCheck %s

// A chain through a reshape of leading axes is one kernel over the finer space;
// the scalar constant comes along.
// CHECK-LABEL: func.func @chain
// CHECK: nn.fused rows [2, 3, 8] (%{{.*}} = %{{.*}} : tensor<2x3x8xf32>, %{{.*}} = %arg1 : tensor<8xf32>) -> tensor<2x3x8xf32>
// CHECK: nn.constant
// CHECK: nn.mul
// CHECK: nn.add
// CHECK: nn.exp
// CHECK: nn.yield
// CHECK-NOT: nn.fused
func.func @chain(%x: tensor<6x8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %c = nn.constant dense<2.0> : tensor<f32>
  %0 = nn.mul %x, %c : (tensor<6x8xf32>, tensor<f32>) -> tensor<6x8xf32>
  %1 = nn.reshape %0 : tensor<6x8xf32> -> tensor<2x3x8xf32>
  %2 = nn.add %1, %b : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  %3 = nn.exp %2 : (tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  return %3 : tensor<2x3x8xf32>
}

// -----

// The last op needs the matmul, which needs the first: two kernels.
// CHECK-LABEL: func.func @cycle
// CHECK: %[[A:.*]] = nn.fused rows
// CHECK: %[[M:.*]] = nn.matmul %[[A]]
// CHECK: nn.fused rows {{.*}}%[[M]]
func.func @cycle(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = nn.exp %x : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = nn.matmul %0, %0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = nn.add %0, %1 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// -----

// Readers of one tensor become one kernel.
// CHECK-LABEL: func.func @siblings
// CHECK: nn.fused rows [4, 8] (%{{.*}} = %arg0 : tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK-NOT: nn.fused
func.func @siblings(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = nn.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = nn.tanh %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Ops of two units that read parameters stay apart, since these are gathered in
// turn; what reads none goes with its neighbour, and belongs where that does.
// CHECK-LABEL: func.func @units
// CHECK: nn.fused {{.*}} attributes {place = #nn.place<@a>}
// CHECK: nn.add
// CHECK: nn.fused {{.*}} attributes {place = #nn.place<@b>}
// CHECK: nn.exp
// CHECK: nn.add
// CHECK: nn.tanh
// CHECK-NOT: nn.fused
nn.parameter @p : tensor<8xf32> trainable {onnx_name = "p"}
nn.parameter @q : tensor<8xf32> trainable {onnx_name = "q"}
func.func @units(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %p = nn.get @p : tensor<8xf32>
  %q = nn.get @q : tensor<8xf32>
  %0 = nn.add %x, %p {place = #nn.place<@a>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = nn.matmul %0, %w {place = #nn.place<@a>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = nn.exp %1 {place = #nn.place<@a>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = nn.add %2, %q {place = #nn.place<@b>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %4 = nn.tanh %3 {place = #nn.place<@c>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// -----

// What backward computes again is not merged with forward, where it would be
// stored after all.
// CHECK-LABEL: func.func @backward
// CHECK: nn.fused rows
// CHECK-NEXT: nn.gelu
// CHECK-NEXT: nn.yield
// CHECK: nn.fused rows
// CHECK-NEXT: nn.tanh
// CHECK-NEXT: nn.yield
func.func @backward(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = nn.gelu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = nn.tanh %x {place = #nn.place<recompute>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// A row reduction and what uses it: one kernel, nothing stored between.
// CHECK-LABEL: func.func @center
// CHECK: nn.fused rows [4, 8] (%{{.*}} = %arg0 : tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NEXT: nn.reduce_mean %{{.*}} {axes = array<i64: 1>, keepdims}
// CHECK-NEXT: nn.sub
// CHECK-NEXT: nn.yield
func.func @center(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %1 = nn.sub %x, %0 : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// Axes of size 1 in front of counted ones are no trouble.
// CHECK-LABEL: func.func @counted_in_the_middle
func.func @counted_in_the_middle(%i: tensor<2x1x4xi64>) -> tensor<2x3x4xi1> {
  // CHECK: nn.iota {axis = 1 : i64} : () -> tensor<1x3x1xi64>
  // CHECK: nn.fused rows [2, 3, 4]
  // CHECK: nn.compare eq
  %count = nn.iota {axis = 1 : i64} : () -> tensor<1x3x1xi64>
  %hit = nn.compare eq %i, %count : (tensor<2x1x4xi64>, tensor<1x3x1xi64>) -> tensor<2x3x4xi1>
  return %hit : tensor<2x3x4xi1>
}

// -----

// One element spread over [4, 3] is no [2, 6] in a kernel of columns.
// CHECK-LABEL: func.func @spread_over_other_rows
func.func @spread_over_other_rows(%c: tensor<2x6x1xi1>, %one: tensor<1xf32>) -> tensor<1xf32> {
  // CHECK: nn.fused columns [2, 6, 1]
  %spread = nn.broadcast %one : tensor<1xf32> -> tensor<4x3x1xf32>
  %again = nn.reshape %spread : tensor<4x3x1xf32> -> tensor<2x6x1xf32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %kept = nn.select %c, %again, %zero : (tensor<2x6x1xi1>, tensor<2x6x1xf32>, tensor<f32>) -> tensor<2x6x1xf32>
  %sum = nn.reduce_sum %kept {axes = array<i64: 0, 1>} : (tensor<2x6x1xf32>) -> tensor<1xf32>
  return %sum : tensor<1xf32>
}
