// Matrices looked up for a product alone are multiplied with where they lie.
// RUN: shardonnx-opt %s -nn-group-matmuls -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @experts
func.func @experts(%w: tensor<4x6x3xf32>, %i: tensor<4x2xi64>, %x: tensor<8x3x1xf32>) -> tensor<8x6x1xf32> {
  // CHECK-NOT: nn.embedding
  // CHECK: %[[ROWS:.*]] = nn.reshape %{{.*}} : tensor<8x3x1xf32> -> tensor<8x3xf32>
  // CHECK: nn.grouped_matmul %[[ROWS]], %{{.*}}, %{{.*}} {transposed} : (tensor<8x3xf32>, tensor<4x6x3xf32>, tensor<8xi64>) -> tensor<8x6xf32>
  // CHECK-NOT: nn.embedding
  %t = nn.reshape %w : tensor<4x6x3xf32> -> tensor<4x18xf32>
  %e = nn.embedding %t, %i : (tensor<4x18xf32>, tensor<4x2xi64>) -> tensor<4x2x18xf32>
  %m = nn.reshape %e : tensor<4x2x18xf32> -> tensor<8x6x3xf32>
  %y = nn.matmul %m, %x : (tensor<8x6x3xf32>, tensor<8x3x1xf32>) -> tensor<8x6x1xf32>
  return %y : tensor<8x6x1xf32>
}

// -----

// CHECK-LABEL: func.func @on_the_right
func.func @on_the_right(%w: tensor<4x3x6xf32>, %i: tensor<8xi64>, %x: tensor<8x1x3xf32>) -> tensor<8x1x6xf32> {
  // CHECK: nn.grouped_matmul %{{.*}} : (tensor<8x3xf32>, tensor<4x3x6xf32>, tensor<8xi64>) -> tensor<8x6xf32>
  %t = nn.reshape %w : tensor<4x3x6xf32> -> tensor<4x18xf32>
  %e = nn.embedding %t, %i : (tensor<4x18xf32>, tensor<8xi64>) -> tensor<8x18xf32>
  %m = nn.reshape %e : tensor<8x18xf32> -> tensor<8x3x6xf32>
  %y = nn.matmul %x, %m : (tensor<8x1x3xf32>, tensor<8x3x6xf32>) -> tensor<8x1x6xf32>
  return %y : tensor<8x1x6xf32>
}

// -----

// Several vectors for each matrix, and matrices that somebody else reads, stay.
// CHECK-LABEL: func.func @others
// CHECK-NOT: nn.grouped_matmul
func.func @others(%w: tensor<4x3x6xf32>, %i: tensor<8xi64>, %x: tensor<8x2x3xf32>, %z: tensor<8x1x3xf32>) -> (tensor<8x2x6xf32>, tensor<8x1x6xf32>, tensor<8x3x6xf32>) {
  %t = nn.reshape %w : tensor<4x3x6xf32> -> tensor<4x18xf32>
  %e = nn.embedding %t, %i : (tensor<4x18xf32>, tensor<8xi64>) -> tensor<8x18xf32>
  %m = nn.reshape %e : tensor<8x18xf32> -> tensor<8x3x6xf32>
  %y = nn.matmul %x, %m : (tensor<8x2x3xf32>, tensor<8x3x6xf32>) -> tensor<8x2x6xf32>
  %n = nn.matmul %z, %m : (tensor<8x1x3xf32>, tensor<8x3x6xf32>) -> tensor<8x1x6xf32>
  return %y, %n, %m : tensor<8x2x6xf32>, tensor<8x1x6xf32>, tensor<8x3x6xf32>
}
