// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decoded weight is decoded again for backward, so it is nothing that a unit
// keeps, and does not count where more is kept by a share of that: of x, 512
// bytes, 60 % have no room for h.

// RUN: shardonnx-opt %s --pass-pipeline='builtin.module(func.func(nn-recompute{keep-percent=60}))' | FileCheck %s

// CHECK-LABEL: func.func @step
// CHECK:      nn.tanh
// CHECK:      nn.loss_scale
// CHECK:      %[[H:.*]] = nn.tanh {{.*}}recompute
// CHECK-NEXT: nn.matmul %[[H]]
module {
  nn.parameter @w : tensor<32x4xf32> {nn.packing = "bf16", onnx_name = "w", place = #nn.place<@u>}
  func.func @step(%a: tensor<4x4xf32>, %v: tensor<32x4xf32>) -> (tensor<32x4xf32>, tensor<4x4xf32>) {
    %p = nn.get @w {place = #nn.place<@u>} : tensor<64xi32>
    %w = nn.unpack %p {packing = "bf16", place = #nn.place<@u>} : (tensor<64xi32>) -> tensor<32x4xf32>
    %x = nn.matmul %a, %w {place = #nn.place<@u>, transpose_rhs} : (tensor<4x4xf32>, tensor<32x4xf32>) -> tensor<4x32xf32>
    %h = nn.tanh %x {place = #nn.place<@u>} : (tensor<4x32xf32>) -> tensor<4x32xf32>
    %y = nn.matmul %h, %v {place = #nn.place<@u>} : (tensor<4x32xf32>, tensor<32x4xf32>) -> tensor<4x4xf32>
    %s = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
    %g = nn.mul %y, %s {place = #nn.place<@u, backward>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %dv = nn.matmul %h, %g {place = #nn.place<@u, backward>, transpose_lhs} : (tensor<4x32xf32>, tensor<4x4xf32>) -> tensor<32x4xf32>
    %dx = nn.mul %x, %s {place = #nn.place<@u, backward>} : (tensor<4x32xf32>, tensor<f32>) -> tensor<4x32xf32>
    %da = nn.matmul %dx, %w {place = #nn.place<@u, backward>} : (tensor<4x32xf32>, tensor<32x4xf32>) -> tensor<4x4xf32>
    return %dv, %da : tensor<32x4xf32>, tensor<4x4xf32>
  }
}
