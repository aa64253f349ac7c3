// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// h and k are computed again for products of backward, though forward has
// written them for its own: kept where the unit may keep more, the smaller one
// first.

// RUN: shardonnx-opt %s --pass-pipeline='builtin.module(func.func(nn-recompute))' | FileCheck %s --check-prefixes=CHECK,FEWEST
// RUN: shardonnx-opt %s --pass-pipeline='builtin.module(func.func(nn-recompute{keep-percent=40}))' | FileCheck %s --check-prefixes=CHECK,SOME
// RUN: sed 's/module {/module attributes {fsdp.recompute_plan = {u}} {/' %s | shardonnx-opt --pass-pipeline='builtin.module(func.func(nn-recompute))' | FileCheck %s --check-prefixes=CHECK,LEAST
// RUN: sed 's/module {/module attributes {fsdp.recompute_plan = {u = "selective"}} {/' %s | shardonnx-opt --pass-pipeline='builtin.module(func.func(nn-recompute{keep-percent=40}))' | FileCheck %s --check-prefixes=CHECK,FEWEST

// CHECK-LABEL: func.func @step
// CHECK: %[[H:.*]] = nn.tanh
// CHECK: %[[K:.*]] = nn.sigmoid
// CHECK: nn.loss_scale
// FEWEST-DAG: nn.tanh {{.*}}recompute
// FEWEST-DAG: nn.sigmoid {{.*}}recompute
// SOME-NOT: nn.tanh
// SOME: nn.matmul %[[H]]
// SOME: nn.sigmoid {{.*}}recompute
// LEAST-NOT: recompute
// LEAST: nn.matmul %[[H]]
// LEAST: nn.matmul %[[K]]
module {
  func.func @step(%a: tensor<4x4xf32>, %w: tensor<4x8xf32>, %b: tensor<4x16xf32>, %v: tensor<8x4xf32>, %u: tensor<16x4xf32>) -> (tensor<8x4xf32>, tensor<16x4xf32>, tensor<4x8xf32>, tensor<4x16xf32>) {
    %x = nn.matmul %a, %w {place = #nn.place<@u>} : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %h = nn.tanh %x {place = #nn.place<@u>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %y = nn.matmul %h, %v {place = #nn.place<@u>} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
    %z = nn.matmul %a, %b {place = #nn.place<@u>} : (tensor<4x4xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
    %k = nn.sigmoid %z {place = #nn.place<@u>} : (tensor<4x16xf32>) -> tensor<4x16xf32>
    %o = nn.matmul %k, %u {place = #nn.place<@u>} : (tensor<4x16xf32>, tensor<16x4xf32>) -> tensor<4x4xf32>
    %s = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
    %g = nn.mul %y, %s {place = #nn.place<@u, backward>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %f = nn.mul %o, %s {place = #nn.place<@u, backward>} : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
    %dv = nn.matmul %h, %g {place = #nn.place<@u, backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %du = nn.matmul %k, %f {place = #nn.place<@u, backward>, transpose_lhs} : (tensor<4x16xf32>, tensor<4x4xf32>) -> tensor<16x4xf32>
    %dx = nn.mul %x, %s {place = #nn.place<@u, backward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    %dz = nn.mul %z, %s {place = #nn.place<@u, backward>} : (tensor<4x16xf32>, tensor<f32>) -> tensor<4x16xf32>
    return %dv, %du, %dx, %dz : tensor<8x4xf32>, tensor<16x4xf32>, tensor<4x8xf32>, tensor<4x16xf32>
  }
}
