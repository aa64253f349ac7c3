// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps of weights lie behind a step's 18 scalars, one for each set of weights
// that are scaled together, in whichever functions they are read. Parameters
// tell which the update takes of them.

// RUN: shardonnx-opt %s -fsdp-to-exec | FileCheck %s

// CHECK: nn.parameter @p {{.*}}nn.f8_steps = array<i64: 0, 1>
// CHECK: nn.parameter @q {{.*}}nn.f8_steps = array<i64: 0>
// CHECK: nn.parameter @r
// CHECK-NOT: nn.f8_steps
// CHECK-LABEL: func.func @first
// CHECK: exec.buffer scalar 18 : memref<1xf32>
// CHECK: exec.buffer scalar 22 : memref<1xf32>
// CHECK-LABEL: func.func @second
// CHECK: exec.buffer scalar 18 : memref<1xf32>
nn.parameter @p : tensor<32x48xf32> trainable {onnx_name = "p", place = #nn.place<@h>}
nn.parameter @q : tensor<32x48xf32> trainable {onnx_name = "q", place = #nn.place<@h>}
nn.parameter @r : tensor<32x48xf32> trainable {onnx_name = "r", place = #nn.place<@h>}
func.func @first(%x: tensor<4x8xf32>) {
  %s = nn.f8_weight_step [@p, @q] {place = #nn.place<@h>} : tensor<1xf32>
  %t = nn.f8_weight_step [@p] {place = #nn.place<@h>} : tensor<1xf32>
  %0 = nn.fused rows [4, 8] (%a = %x : tensor<4x8xf32>, %b = %s : tensor<1xf32>, %c = %t : tensor<1xf32>) -> tensor<4x8xf32> attributes {place = #nn.place<@h>} {
    %1 = nn.mul %a, %b : (tensor<4x8xf32>, tensor<1xf32>) -> tensor<4x8xf32>
    %2 = nn.mul %1, %c : (tensor<4x8xf32>, tensor<1xf32>) -> tensor<4x8xf32>
    nn.yield %2 : tensor<4x8xf32>
  }
  return
}
func.func @second(%x: tensor<4x8xf32>) {
  %s = nn.f8_weight_step [@p, @q] {place = #nn.place<@h>} : tensor<1xf32>
  %0 = nn.fused rows [4, 8] (%a = %x : tensor<4x8xf32>, %b = %s : tensor<1xf32>) -> tensor<4x8xf32> attributes {place = #nn.place<@h>} {
    %1 = nn.mul %a, %b : (tensor<4x8xf32>, tensor<1xf32>) -> tensor<4x8xf32>
    nn.yield %1 : tensor<4x8xf32>
  }
  return
}
