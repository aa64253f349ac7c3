// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Equal but for the name: one is left. Another layout is another kernel.

// RUN: shardonnx-opt %s --exec-dedupe-kernels | FileCheck %s

// CHECK: exec.kernel @layer0
// CHECK-NOT: exec.kernel @layer1
// CHECK: exec.kernel @strided
exec.kernel @layer0 rows [4, 8] [memref<4x8xf32>, memref<4x8xf32>] {
^bb0(%x: tensor<4x8xf32>):
  %0 = nn.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  nn.yield %0 : tensor<4x8xf32>
}
exec.kernel @layer1 rows [4, 8] [memref<4x8xf32>, memref<4x8xf32>] {
^bb0(%y: tensor<4x8xf32>):
  %1 = nn.exp %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  nn.yield %1 : tensor<4x8xf32>
}
exec.kernel @strided rows [4, 8] [memref<4x8xf32, strided<[16, 1]>>, memref<4x8xf32>] {
^bb0(%x: tensor<4x8xf32>):
  %0 = nn.exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  nn.yield %0 : tensor<4x8xf32>
}
