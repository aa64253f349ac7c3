// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two linear layers with GELU between them, from differentiation on. Forward
// keeps the pre-activation x, as large as the product that nn-recompute kept;
// backward makes GELU's output again from it, and the gradient at x, with the
// bias's gradient beside the first weight's, comes out of products. The second
// bias is added by the kernel of the loss. GELU's casts are a part of it, and a
// bias's gradient has the weight gradient's dtype.

// RUN: shardonnx-opt %s --pass-pipeline='builtin.module(nn-differentiate, nn-decompose-step, func.func(nn-fuse-epilogues))' | FileCheck %s

module attributes {nn.reduce_dtype = f32} {
nn.parameter @w : tensor<4x16xbf16> trainable {onnx_name = "w"}
nn.parameter @b : tensor<16xbf16> trainable {onnx_name = "b"}
nn.parameter @v : tensor<16x4xbf16> trainable {onnx_name = "v"}
nn.parameter @c : tensor<4xbf16> trainable {onnx_name = "c"}

// CHECK-LABEL: func.func @microbatch
// CHECK: %[[H:.*]], %[[X:.*]] = nn.matmul_epilogue gelu_bias %{{.*}}, %[[W:.*]], %{{.*}} : (tensor<6x4xbf16>, tensor<4x16xbf16>, tensor<16xbf16>) -> (tensor<6x16xbf16>, tensor<6x16xbf16>)
// CHECK: nn.matmul %[[H]], %[[V:.*]] : (tensor<6x16xbf16>, tensor<16x4xbf16>)
// CHECK: nn.loss_scale
// CHECK: %[[DY:.*]] = nn.reshape %{{.*}} {place = #nn.place<backward>} : tensor<2x3x4xbf16> -> tensor<6x4xbf16>
// CHECK: %[[DX:.*]] = nn.matmul_epilogue dgelu %[[DY]], %[[V]], %[[X]] {place = #nn.place<backward>, transpose_rhs}
// CHECK: %[[X3:.*]] = nn.reshape %[[X]]
// CHECK: %[[AGAIN:.*]] = nn.gelu %[[X3]] {place = #nn.place<recompute>, tanh}
// CHECK: %[[H2:.*]] = nn.reshape %[[AGAIN]]
// CHECK: %{{.*}}, %[[DC:.*]] = nn.matmul_epilogue bgrad %[[H2]], %[[DY]] {place = #nn.place<backward>, transpose_lhs} : (tensor<6x16xbf16>, tensor<6x4xbf16>) -> (tensor<16x4xf32>, tensor<4xf32>)
// CHECK: nn.grad @c, %[[DC]]
// CHECK: %[[DW:.*]], %[[DB:.*]] = nn.matmul_epilogue bgrad %{{.*}}, %[[DX]] {place = #nn.place<backward>, transpose_lhs} : (tensor<6x4xbf16>, tensor<6x16xbf16>) -> (tensor<4x16xf32>, tensor<16xf32>)
// CHECK: nn.grad @b, %[[DB]]
// CHECK: nn.grad @w, %[[DW]]
// CHECK-NOT: nn.sigmoid
// CHECK: return
func.func @forward(%a: tensor<2x3x4xbf16>) {
  %w = nn.get @w : tensor<4x16xbf16>
  %b = nn.get @b : tensor<16xbf16>
  %v = nn.get @v : tensor<16x4xbf16>
  %c = nn.get @c : tensor<4xbf16>
  %rows = nn.reshape %a : tensor<2x3x4xbf16> -> tensor<6x4xbf16>
  %p = nn.matmul %rows, %w : (tensor<6x4xbf16>, tensor<4x16xbf16>) -> tensor<6x16xbf16>
  %x = nn.add %p, %b : (tensor<6x16xbf16>, tensor<16xbf16>) -> tensor<6x16xbf16>
  %x3 = nn.reshape %x : tensor<6x16xbf16> -> tensor<2x3x16xbf16>
  %h3 = nn.gelu %x3 {tanh} : (tensor<2x3x16xbf16>) -> tensor<2x3x16xbf16>
  %h = nn.reshape %h3 : tensor<2x3x16xbf16> -> tensor<6x16xbf16>
  %q = nn.matmul %h, %v : (tensor<6x16xbf16>, tensor<16x4xbf16>) -> tensor<6x4xbf16>
  %y = nn.add %q, %c : (tensor<6x4xbf16>, tensor<4xbf16>) -> tensor<6x4xbf16>
  %y3 = nn.reshape %y : tensor<6x4xbf16> -> tensor<2x3x4xbf16>
  %f = nn.cast %y3 : tensor<2x3x4xbf16> -> tensor<2x3x4xf32>
  %square = nn.mul %f, %f : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %loss = nn.reduce_sum %square {axes = array<i64: 0, 1, 2>} : (tensor<2x3x4xf32>) -> tensor<f32>
  nn.loss %loss {denominator = "batches"} : tensor<f32>
  return
}
}
