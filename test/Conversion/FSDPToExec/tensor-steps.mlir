// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps of whole tensors, which blocks of threads join, lie side by side and are
// cleared once, before anything runs.

// RUN: shardonnx-opt %s -fsdp-to-exec | FileCheck %s

// CHECK-LABEL: func.func @eval
// CHECK: %[[STEPS:.*]] = exec.alloc : memref<8xf32>
// CHECK-NEXT: exec.zero %[[STEPS]] : memref<8xf32>
// CHECK-NOT: exec.zero
// CHECK: exec.launch @rows_f8_tensor_step(
// CHECK: exec.launch @rows_f8_tensor_step(
func.func @eval(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) {
  %0 = nn.fused rows [4, 8] (%p = %x : tensor<4x8xf32>) -> tensor<1xf32> attributes {place = #nn.place<@h.0>} {
    %s = nn.f8_tensor_step e4m3 %p : (tensor<4x8xf32>) -> tensor<1xf32>
    nn.yield %s : tensor<1xf32>
  }
  %1 = nn.fused rows [4, 8] (%q = %y : tensor<4x8xf32>) -> tensor<1xf32> attributes {place = #nn.place<@h.1>} {
    %s = nn.f8_tensor_step e4m3 %q : (tensor<4x8xf32>) -> tensor<1xf32>
    nn.yield %s : tensor<1xf32>
  }
  return
}
