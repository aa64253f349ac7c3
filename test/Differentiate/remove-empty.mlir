// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics --nn-remove-empty | FileCheck %s

// Sums over nothing are zeros, a concat leaves nothing out but nothing.
// CHECK-LABEL: func.func @sums
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3xf32>, %[[NONE:[^:]*]]: tensor<2x0xf32>
// CHECK: %[[EMPTY:.*]] = nn.constant dense<> : tensor<2x0xf32>
// CHECK: nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK: %[[SUM:.*]] = nn.broadcast {{.*}} -> tensor<2xf32>
// CHECK: nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK: %[[PRODUCT:.*]] = nn.broadcast {{.*}} -> tensor<2x2xf32>
// CHECK: return %[[X]], %[[EMPTY]], %[[SUM]], %[[PRODUCT]]
func.func @sums(%x: tensor<2x3xf32>, %none: tensor<2x0xf32>)
    -> (tensor<2x3xf32>, tensor<2x0xf32>, tensor<2xf32>, tensor<2x2xf32>) {
  %join = nn.concat %none, %x {axis = 1 : i64} : (tensor<2x0xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %exp = nn.exp %none : (tensor<2x0xf32>) -> tensor<2x0xf32>
  %sum = nn.reduce_sum %none {axes = array<i64: 1>} : (tensor<2x0xf32>) -> tensor<2xf32>
  %product = nn.matmul %none, %none {transpose_rhs} : (tensor<2x0xf32>, tensor<2x0xf32>) -> tensor<2x2xf32>
  return %join, %exp, %sum, %product : tensor<2x3xf32>, tensor<2x0xf32>, tensor<2xf32>, tensor<2x2xf32>
}

// -----

func.func @maximum(%none: tensor<2x0xf32>) -> tensor<2xf32> {
  // expected-error @below {{'nn.reduce_max' reads a tensor of no elements, of which it makes some}}
  %max = nn.reduce_max %none {axes = array<i64: 1>} : (tensor<2x0xf32>) -> tensor<2xf32>
  return %max : tensor<2xf32>
}
