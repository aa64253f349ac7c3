// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Named ops come apart; what they become keeps the unit.

// RUN: shardonnx-opt %s --pass-pipeline='builtin.module(func.func(nn-decompose))' | FileCheck %s

// CHECK-LABEL: func.func @softmax
// CHECK-NOT: nn.softmax
// CHECK: nn.reduce_max %arg0 {axes = array<i64: 1>, keepdims, place = #nn.place<@h0>}
// CHECK: nn.exp %{{.*}} {place = #nn.place<@h0>}
// CHECK: nn.reduce_sum %{{.*}} {axes = array<i64: 1>, keepdims, place = #nn.place<@h0>}
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.softmax %x {place = #nn.place<@h0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
