// RUN: shardonnx-opt %s -raise-attention -canonicalize -split-input-file | FileCheck %s

// A score of each head beside those of the keys, whose weights are left out, as
// gpt-oss has it: without its maximum, behind the keys.
// CHECK-LABEL: func.func @behind
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x5x8xf32>, %[[S:.*]]: tensor<4xf32>)
// CHECK: %{{.*}}, %{{.*}} = nn.attention %{{.*}}, %{{.*}}, %{{.*}} sink(%[[S]]) {causal, scale = 5.000000e-01 : f32} :
// CHECK-NOT: nn.softmax
func.func @behind(%q: tensor<2x4x5x8xf32>, %sinks: tensor<4xf32>) -> tensor<2x4x5x8xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %hide = nn.constant dense<-3.40282347E+38> : tensor<f32>
  %row = nn.iota {axis = 2 : i64} : () -> tensor<1x1x5x1xi64>
  %column = nn.iota {axis = 3 : i64} : () -> tensor<1x1x1x5xi64>
  %seen = nn.compare ge %row, %column : (tensor<1x1x5x1xi64>, tensor<1x1x1x5xi64>) -> tensor<1x1x5x5xi1>
  %mask = nn.select %seen, %zero, %hide : (tensor<1x1x5x5xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x5x5xf32>
  %s = nn.matmul %q, %q {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %d = nn.mul %s, %half : (tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %m = nn.add %d, %mask : (tensor<2x4x5x5xf32>, tensor<1x1x5x5xf32>) -> tensor<2x4x5x5xf32>
  %one = nn.reshape %sinks : tensor<4xf32> -> tensor<1x4x1x1xf32>
  %all = nn.broadcast %one : tensor<1x4x1x1xf32> -> tensor<2x4x5x1xf32>
  %c = nn.concat %m, %all {axis = 3 : i64} : (tensor<2x4x5x5xf32>, tensor<2x4x5x1xf32>) -> tensor<2x4x5x6xf32>
  %largest = nn.reduce_max %c {axes = array<i64: 3>, keepdims} : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x1xf32>
  %safe = nn.sub %c, %largest : (tensor<2x4x5x6xf32>, tensor<2x4x5x1xf32>) -> tensor<2x4x5x6xf32>
  %p = nn.softmax %safe : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  %keys = nn.slice %p {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 4, 5, 5>} : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %keys, %q : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// Before the keys.
// CHECK-LABEL: func.func @before
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} sink(%arg1) {scale
func.func @before(%q: tensor<2x4x5x8xf32>, %sinks: tensor<4xf32>) -> tensor<2x4x5x8xf32> {
  %s = nn.matmul %q, %q {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %one = nn.reshape %sinks : tensor<4xf32> -> tensor<4x1x1xf32>
  %all = nn.broadcast %one : tensor<4x1x1xf32> -> tensor<2x4x5x1xf32>
  %c = nn.concat %all, %s {axis = 3 : i64} : (tensor<2x4x5x1xf32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x6xf32>
  %p = nn.softmax %c : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  %keys = nn.slice %p {offsets = array<i64: 0, 0, 0, 1>, sizes = array<i64: 2, 4, 5, 5>} : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %keys, %q : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// What is left out is a key's.
// CHECK-LABEL: func.func @other
// CHECK: nn.softmax
func.func @other(%q: tensor<2x4x5x8xf32>, %sinks: tensor<4xf32>) -> tensor<2x4x5x8xf32> {
  %s = nn.matmul %q, %q {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %one = nn.reshape %sinks : tensor<4xf32> -> tensor<4x1x1xf32>
  %all = nn.broadcast %one : tensor<4x1x1xf32> -> tensor<2x4x5x1xf32>
  %c = nn.concat %all, %s {axis = 3 : i64} : (tensor<2x4x5x1xf32>, tensor<2x4x5x5xf32>) -> tensor<2x4x5x6xf32>
  %p = nn.softmax %c : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  %keys = nn.slice %p {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 4, 5, 5>} : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %keys, %q : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// Values times a number: the result is. What a mask hides by a number weighs
// nothing beside a sink.
// CHECK-LABEL: func.func @scaled_values
// CHECK: %[[SEVEN:.*]] = nn.constant dense<0.699999988> : tensor<f32>
// CHECK: %[[R:.*]], %{{.*}} = nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %arg2 sink(%arg1) {scale = 1.000000e+00 : f32} :
// CHECK: %[[T:.*]] = nn.transpose %[[R]]
// CHECK: nn.mul %[[T]], %[[SEVEN]]
func.func @scaled_values(%q: tensor<2x4x5x8xf32>, %sinks: tensor<4xf32>, %seen: tensor<2x1x5x5xi1>) -> tensor<2x4x5x8xf32> {
  %hide = nn.constant dense<-1.0e+09> : tensor<f32>
  %seven = nn.constant dense<0.7> : tensor<f32>
  %v = nn.mul %q, %seven : (tensor<2x4x5x8xf32>, tensor<f32>) -> tensor<2x4x5x8xf32>
  %s = nn.matmul %q, %q {transpose_rhs} : (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x5xf32>
  %w = nn.select %seen, %s, %hide : (tensor<2x1x5x5xi1>, tensor<2x4x5x5xf32>, tensor<f32>) -> tensor<2x4x5x5xf32>
  %one = nn.reshape %sinks : tensor<4xf32> -> tensor<4x1x1xf32>
  %all = nn.broadcast %one : tensor<4x1x1xf32> -> tensor<2x4x5x1xf32>
  %c = nn.concat %w, %all {axis = 3 : i64} : (tensor<2x4x5x5xf32>, tensor<2x4x5x1xf32>) -> tensor<2x4x5x6xf32>
  %p = nn.softmax %c : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x6xf32>
  %keys = nn.slice %p {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 2, 4, 5, 5>} : (tensor<2x4x5x6xf32>) -> tensor<2x4x5x5xf32>
  %o = nn.matmul %keys, %v : (tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %o : tensor<2x4x5x8xf32>
}

// -----

// What is compared may be floats.
// CHECK-LABEL: func.func @distances
// CHECK: nn.attention
func.func @distances(%q: tensor<1x2x3x4xf32>, %d: tensor<3x3xf32>, %e: tensor<3x3xf32>) -> tensor<1x2x3x4xf32> {
  %one = nn.constant dense<1.5> : tensor<f32>
  %hide = nn.constant dense<0xFF800000> : tensor<f32>
  %h = nn.add %d, %one : (tensor<3x3xf32>, tensor<f32>) -> tensor<3x3xf32>
  %m = nn.compare ge %h, %e : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xi1>
  %s = nn.matmul %q, %q {transpose_rhs} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %t = nn.select %m, %s, %hide : (tensor<3x3xi1>, tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<1x2x3x3xf32>
  %p = nn.softmax %t : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %o = nn.matmul %p, %q : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}
