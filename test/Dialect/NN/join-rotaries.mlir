// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: shardonnx-opt %s --nn-join-rotaries --canonicalize -split-input-file | FileCheck %s

// Two heads of queries and one of keys, side by side in a product: three heads
// turn together.
// CHECK-LABEL: func.func @grouped
// CHECK: %[[C:.*]] = nn.slice %arg0 {offsets = array<i64: 0, 0>, place = #nn.place<@u>, sizes = array<i64: 6, 12>}
// CHECK: %[[H:.*]] = nn.reshape %[[C]] {{.*}} -> tensor<2x3x3x4xf32>
// CHECK: %[[R:.*]] = nn.rotary %[[H]], %arg1, %arg2 {place = #nn.place<@u>}
// CHECK-NOT: nn.rotary
// CHECK: %[[Q:.*]] = nn.slice %[[R]] {offsets = array<i64: 0, 0, 0, 0>, {{.*}}sizes = array<i64: 2, 3, 2, 4>}
// CHECK: %[[K:.*]] = nn.slice %[[R]] {offsets = array<i64: 0, 0, 2, 0>, {{.*}}sizes = array<i64: 2, 3, 1, 4>}
// CHECK: return %[[Q]], %[[K]]
func.func @grouped(%m: tensor<6x16xf32>, %cos: tensor<3x2xf32>, %sin: tensor<3x2xf32>) -> (tensor<2x3x2x4xf32>, tensor<2x3x1x4xf32>) {
  %0 = nn.slice %m {offsets = array<i64: 0, 0>, place = #nn.place<@u>, sizes = array<i64: 6, 8>} : (tensor<6x16xf32>) -> tensor<6x8xf32>
  %1 = nn.slice %m {offsets = array<i64: 0, 8>, place = #nn.place<@u>, sizes = array<i64: 6, 4>} : (tensor<6x16xf32>) -> tensor<6x4xf32>
  %q = nn.reshape %0 {place = #nn.place<@u>} : tensor<6x8xf32> -> tensor<2x3x2x4xf32>
  %k = nn.reshape %1 {place = #nn.place<@u>} : tensor<6x4xf32> -> tensor<2x3x1x4xf32>
  %a = nn.rotary %q, %cos, %sin {place = #nn.place<@u>} : (tensor<2x3x2x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x2x4xf32>
  %b = nn.rotary %k, %cos, %sin {place = #nn.place<@u>} : (tensor<2x3x1x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x1x4xf32>
  return %a, %b : tensor<2x3x2x4xf32>, tensor<2x3x1x4xf32>
}

// -----

// Other angles, a gap between the columns, and columns that something else
// reads stay apart.
// CHECK-LABEL: func.func @apart
// CHECK-COUNT-4: nn.rotary
func.func @apart(%m: tensor<6x16xf32>, %cos: tensor<3x2xf32>, %sin: tensor<3x2xf32>) -> (tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>, tensor<6x4xf32>) {
  %0 = nn.slice %m {offsets = array<i64: 0, 0>, sizes = array<i64: 6, 4>} : (tensor<6x16xf32>) -> tensor<6x4xf32>
  %1 = nn.slice %m {offsets = array<i64: 0, 4>, sizes = array<i64: 6, 4>} : (tensor<6x16xf32>) -> tensor<6x4xf32>
  %2 = nn.slice %m {offsets = array<i64: 0, 8>, sizes = array<i64: 6, 4>} : (tensor<6x16xf32>) -> tensor<6x4xf32>
  %3 = nn.slice %m {offsets = array<i64: 0, 12>, sizes = array<i64: 6, 4>} : (tensor<6x16xf32>) -> tensor<6x4xf32>
  %q = nn.reshape %0 : tensor<6x4xf32> -> tensor<2x3x1x4xf32>
  %k = nn.reshape %1 : tensor<6x4xf32> -> tensor<2x3x1x4xf32>
  %v = nn.reshape %2 : tensor<6x4xf32> -> tensor<2x3x1x4xf32>
  %w = nn.reshape %3 : tensor<6x4xf32> -> tensor<2x3x1x4xf32>
  %a = nn.rotary %q, %cos, %sin : (tensor<2x3x1x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x1x4xf32>
  %b = nn.rotary %k, %sin, %cos : (tensor<2x3x1x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x1x4xf32>
  %c = nn.rotary %v, %cos, %sin : (tensor<2x3x1x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x1x4xf32>
  %d = nn.rotary %w, %cos, %sin : (tensor<2x3x1x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x1x4xf32>
  return %a, %b, %c, %d, %3 : tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>, tensor<2x3x1x4xf32>, tensor<6x4xf32>
}
