// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of h = gelu(x) and x, both 4x8 and both read by backward, x is kept, since
// gelu gives h again; of the matmul's result and the sum with the bias, the
// matmul's, which is stored anyway.

// RUN: shardonnx-opt %s --pass-pipeline='builtin.module(func.func(nn-recompute))' | FileCheck %s

// With mlps-again its product is computed again, too: what is kept is the row
// that it reads. What reads the hidden values is not.
// RUN: shardonnx-opt %s --pass-pipeline='builtin.module(func.func(nn-recompute{mlps-again}))' | FileCheck %s --check-prefix=MLPS
// MLPS: nn.loss_scale
// MLPS: %[[M2:.*]] = nn.matmul %arg0, %arg1 {place = #nn.place<recompute>}
// MLPS-NEXT: %[[X2:.*]] = nn.add %[[M2]], %arg2 {place = #nn.place<recompute>}
// MLPS-NEXT: nn.gelu %[[X2]] {place = #nn.place<recompute>}
// MLPS-NOT: nn.matmul {{.*}}#nn.place<recompute>

// CHECK-LABEL: func.func @step
// CHECK: %[[M:.*]] = nn.matmul
// CHECK: %[[X:.*]] = nn.add %[[M]], %arg2 :
// CHECK: %[[H:.*]] = nn.gelu %[[X]] :
// CHECK: nn.matmul %[[H]]
// CHECK: %[[S:.*]] = nn.loss_scale
// CHECK: %[[X2:.*]] = nn.add %[[M]], %arg2 {place = #nn.place<recompute>}
// CHECK: %[[H2:.*]] = nn.gelu %[[X2]] {place = #nn.place<recompute>}
// CHECK: nn.matmul %[[H2]], %{{.*}} {place = #nn.place<backward>, transpose_lhs}
// CHECK: nn.mul %{{.*}}, %[[X2]]
func.func @step(%a: tensor<4x4xf32>, %w: tensor<4x8xf32>, %b: tensor<8xf32>, %v: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4x8xf32>) {
  %m = nn.matmul %a, %w : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %x = nn.add %m, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %h = nn.gelu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = nn.matmul %h, %v : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %s = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  %g = nn.mul %y, %s {place = #nn.place<backward>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %dv = nn.matmul %h, %g {place = #nn.place<backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %dh = nn.matmul %g, %v {place = #nn.place<backward>, transpose_rhs} : (tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<4x8xf32>
  %dx = nn.mul %dh, %x {place = #nn.place<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %dv, %dx : tensor<8x4xf32>, tensor<4x8xf32>
}
