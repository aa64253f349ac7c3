// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Groups that are equal but for the unit become one kernel. Another layout is
// another kernel.

// RUN: shardonnx-opt %s -fsdp-to-exec | FileCheck %s

// CHECK: exec.kernel @rows_exp rows [4, 8] [memref<4x8xf32>, memref<4x8xf32>]
// CHECK: exec.kernel @rows_exp_0 rows [4, 8] [memref<4x8xf32, strided<[16, 1]>>, memref<4x8xf32>]
// CHECK-NOT: exec.kernel
// CHECK: exec.launch @rows_exp(
// CHECK: exec.launch @rows_exp(
// CHECK: exec.launch @rows_exp_0(
func.func @eval(%x: tensor<4x8xf32>, %wide: tensor<4x16xf32>) {
  %layer0 = nn.fused rows [4, 8] (%p = %x : tensor<4x8xf32>) -> tensor<4x8xf32> attributes {place = #nn.place<@h.0>} {
    %e = nn.exp %p : (tensor<4x8xf32>) -> tensor<4x8xf32>
    nn.yield %e : tensor<4x8xf32>
  }
  %layer1 = nn.fused rows [4, 8] (%q = %layer0 : tensor<4x8xf32>) -> tensor<4x8xf32> attributes {place = #nn.place<@h.1>} {
    %e = nn.exp %q : (tensor<4x8xf32>) -> tensor<4x8xf32>
    nn.yield %e : tensor<4x8xf32>
  }
  %half = nn.slice %wide {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 8>} : (tensor<4x16xf32>) -> tensor<4x8xf32>
  %strided = nn.fused rows [4, 8] (%r = %half : tensor<4x8xf32>) -> tensor<4x8xf32> {
    %e = nn.exp %r : (tensor<4x8xf32>) -> tensor<4x8xf32>
    nn.yield %e : tensor<4x8xf32>
  }
  return
}
