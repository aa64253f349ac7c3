// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In bf16 with gradients in f32: the casts of GELU's gradient are a part of it,
// the bias's gradient has the weight gradient's dtype.

// RUN: shardonnx-opt %s --pass-pipeline='builtin.module(nn-differentiate, nn-decompose-step, func.func(nn-fuse-epilogues))' | FileCheck %s

module attributes {nn.reduce_dtype = f32} {
nn.parameter @w : tensor<8x16xbf16> trainable {onnx_name = "w"}
nn.parameter @b : tensor<16xbf16> trainable {onnx_name = "b"}
nn.parameter @v : tensor<16x8xbf16> trainable {onnx_name = "v"}

// CHECK-LABEL: func.func @microbatch
// CHECK: nn.matmul_epilogue gelu_bias {{.*}} -> (tensor<6x16xbf16>, tensor<6x16xbf16>)
// CHECK: nn.matmul_epilogue dgelu {{.*}} : (tensor<6x8xbf16>, tensor<16x8xbf16>, tensor<6x16xbf16>) -> tensor<6x16xbf16>
// CHECK: nn.matmul_epilogue bgrad {{.*}} -> (tensor<8x16xf32>, tensor<16xf32>)
// CHECK-NOT: nn.reduce_sum {{.*}} -> tensor<16xf32>
func.func @forward(%a: tensor<6x8xbf16>) {
  %w = nn.get @w : tensor<8x16xbf16>
  %b = nn.get @b : tensor<16xbf16>
  %v = nn.get @v : tensor<16x8xbf16>
  %p = nn.matmul %a, %w : (tensor<6x8xbf16>, tensor<8x16xbf16>) -> tensor<6x16xbf16>
  %x = nn.add %p, %b : (tensor<6x16xbf16>, tensor<16xbf16>) -> tensor<6x16xbf16>
  %h = nn.gelu %x {tanh} : (tensor<6x16xbf16>) -> tensor<6x16xbf16>
  %y = nn.matmul %h, %v : (tensor<6x16xbf16>, tensor<16x8xbf16>) -> tensor<6x8xbf16>
  %f = nn.cast %y : tensor<6x8xbf16> -> tensor<6x8xf32>
  %square = nn.mul %f, %f : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x8xf32>
  %loss = nn.reduce_sum %square {axes = array<i64: 0, 1>} : (tensor<6x8xf32>) -> tensor<f32>
  nn.loss %loss {denominator = "batches"} : tensor<f32>
  return
}
}
