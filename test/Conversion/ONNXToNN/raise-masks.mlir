// Masks that depend on data.
// RUN: shardonnx-opt %s -raise-masks | FileCheck %s

// What all queries share is computed once, and attention repeats it.
// CHECK-LABEL: func.func @padding
// CHECK-SAME: %[[SEEN:[a-z0-9]+]]: tensor<2x4xi64>
func.func @padding(%seen: tensor<2x4xi64>, %q: tensor<2x4x1x8xf32>) -> tensor<2x4x1x8xf32> {
  // CHECK: %[[FLAGS:.*]] = nn.cast %[[SEEN]] : tensor<2x4xi64> -> tensor<2x4xi1>
  // CHECK: %[[ROW:.*]] = nn.reshape %[[FLAGS]] : tensor<2x4xi1> -> tensor<2x1x1x4xi1>
  %flags = nn.cast %seen : tensor<2x4xi64> -> tensor<2x4xi1>
  %row = nn.reshape %flags : tensor<2x4xi1> -> tensor<2x1x1x4xi1>
  %all = nn.broadcast %row : tensor<2x1x1x4xi1> -> tensor<2x1x4x4xi1>
  %true = nn.constant dense<true> : tensor<1x1x4x1xi1>
  %both = nn.and %true, %all : (tensor<1x1x4x1xi1>, tensor<2x1x4x4xi1>) -> tensor<2x1x4x4xi1>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[ROW]]
  %r, %lse = nn.attention %q, %q, %q, %both {scale = 1.0 : f32} : (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x1x4x4xi1>) -> (tensor<2x4x1x8xf32>, tensor<2x1x4xf32>)
  return %r : tensor<2x4x1x8xf32>
}

// Of causal and padding, causal becomes an attribute; numbers stay numbers.
// CHECK-LABEL: func.func @causal
func.func @causal(%row: tensor<2x1x1x4xi1>, %q: tensor<2x4x1x8xf32>) -> tensor<2x4x1x8xf32> {
  %rows = nn.iota {axis = 2 : i64} : () -> tensor<1x1x4x1xi64>
  %columns = nn.iota {axis = 3 : i64} : () -> tensor<1x1x1x4xi64>
  %causal = nn.compare ge %rows, %columns : (tensor<1x1x4x1xi64>, tensor<1x1x1x4xi64>) -> tensor<1x1x4x4xi1>
  %all = nn.broadcast %row : tensor<2x1x1x4xi1> -> tensor<2x1x4x4xi1>
  %both = nn.and %causal, %all : (tensor<1x1x4x4xi1>, tensor<2x1x4x4xi1>) -> tensor<2x1x4x4xi1>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %least = nn.constant dense<-3.0e38> : tensor<f32>
  // CHECK: %[[MASK:.*]] = nn.select %arg0, {{.*}} -> tensor<2x1x1x4xf32>
  %mask = nn.select %both, %zero, %least : (tensor<2x1x4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x4x4xf32>
  // CHECK: nn.attention %arg1, %arg1, %arg1, %[[MASK]] {causal, scale
  %r, %lse = nn.attention %q, %q, %q, %mask {scale = 1.0 : f32} : (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x1x4x4xf32>) -> (tensor<2x4x1x8xf32>, tensor<2x1x4xf32>)
  return %r : tensor<2x4x1x8xf32>
}

// A broadcast of floats stays before an op that has another operand.
// CHECK-LABEL: func.func @floats
func.func @floats(%row: tensor<1x4xf32>, %x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK: nn.broadcast
  %all = nn.broadcast %row : tensor<1x4xf32> -> tensor<2x4xf32>
  %r = nn.add %all, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}
