// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of tokens that the ranks of an axis share, a rank keeps its own for backward,
// and gathers the others' again. A sum over ranks is kept.

// RUN: shardonnx-opt %s --pass-pipeline='builtin.module(func.func(nn-recompute))' | FileCheck %s

// CHECK-LABEL: func.func @step
// CHECK: %[[MINE:.*]] = nn.matmul
// CHECK: nn.all_gather %[[MINE]]
// CHECK: %[[SUM:.*]] = nn.all_reduce
// CHECK: nn.loss_scale
// CHECK: %[[AGAIN:.*]] = nn.all_gather %[[MINE]] {{.*}}place = #nn.place<recompute>
// CHECK: nn.matmul %[[AGAIN]], %{{.*}} {place = #nn.place<backward>, transpose_lhs}
// CHECK-NOT: nn.all_reduce
// CHECK: nn.mul %{{.*}}, %[[SUM]]
func.func @step(%a: tensor<2x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %x = nn.matmul %a, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %all = nn.all_gather %x {axis = "tensor", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 4>, varies} : (tensor<2x4xf32>) -> tensor<4x4xf32>
  %p = nn.matmul %all, %v : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = nn.all_reduce %p {axis = "tensor", parts = 2 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  %g = nn.mul %y, %s {place = #nn.place<backward>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %dv = nn.matmul %all, %g {place = #nn.place<backward>, transpose_lhs} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %dy = nn.mul %dv, %y {place = #nn.place<backward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %dv, %dy : tensor<4x4xf32>, tensor<4x4xf32>
}
