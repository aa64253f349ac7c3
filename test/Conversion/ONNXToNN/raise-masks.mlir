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

// Of causal and padding, causal becomes an attribute; numbers that hide become
// booleans, and the number an attribute.
// CHECK-LABEL: func.func @causal
func.func @causal(%row: tensor<2x1x1x4xi1>, %q: tensor<2x4x1x8xf32>) -> tensor<2x4x1x8xf32> {
  %rows = nn.iota {axis = 2 : i64} : () -> tensor<1x1x4x1xi64>
  %columns = nn.iota {axis = 3 : i64} : () -> tensor<1x1x1x4xi64>
  %causal = nn.compare ge %rows, %columns : (tensor<1x1x4x1xi64>, tensor<1x1x1x4xi64>) -> tensor<1x1x4x4xi1>
  %all = nn.broadcast %row : tensor<2x1x1x4xi1> -> tensor<2x1x4x4xi1>
  %both = nn.and %causal, %all : (tensor<1x1x4x4xi1>, tensor<2x1x4x4xi1>) -> tensor<2x1x4x4xi1>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %least = nn.constant dense<-3.0e38> : tensor<f32>
  %mask = nn.select %both, %zero, %least : (tensor<2x1x4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x4x4xf32>
  // CHECK: nn.attention %arg1, %arg1, %arg1, %arg0 {added, causal, hidden = -3.000000e+38 : f32, scale
  %r, %lse = nn.attention %q, %q, %q, %mask {scale = 1.0 : f32} : (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x1x4x4xf32>) -> (tensor<2x4x1x8xf32>, tensor<2x1x4xf32>)
  return %r : tensor<2x4x1x8xf32>
}

// Where it hides said twice by one number, as AttentionMaskConverter does; by
// -inf beside another causal mask; but not by another finite number there.
// CHECK-LABEL: func.func @nested
func.func @nested(%row: tensor<2x1x1x4xi1>, %q: tensor<2x4x1x8xf32>) -> tensor<2x4x1x8xf32> {
  %rows = nn.iota {axis = 2 : i64} : () -> tensor<1x1x4x1xi64>
  %columns = nn.iota {axis = 3 : i64} : () -> tensor<1x1x1x4xi64>
  %causal = nn.compare ge %rows, %columns : (tensor<1x1x4x1xi64>, tensor<1x1x1x4xi64>) -> tensor<1x1x4x4xi1>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %least = nn.constant dense<-3.0e38> : tensor<f32>
  %inner = nn.select %causal, %zero, %least : (tensor<1x1x4x4xi1>, tensor<f32>, tensor<f32>) -> tensor<1x1x4x4xf32>
  // CHECK: %[[SHOWN:.*]] = nn.compare eq %arg0
  // CHECK: nn.attention %arg1, %arg1, %arg1, %[[SHOWN]] {added, causal, hidden = -3.000000e+38 : f32, scale
  %mask = nn.select %row, %least, %inner : (tensor<2x1x1x4xi1>, tensor<f32>, tensor<1x1x4x4xf32>) -> tensor<2x1x4x4xf32>
  %r, %lse = nn.attention %q, %q, %q, %mask {scale = 1.0 : f32} : (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x1x4x4xf32>) -> (tensor<2x4x1x8xf32>, tensor<2x1x4xf32>)
  // CHECK: nn.attention %arg1, %arg1, %arg1, %arg0 {causal, scale = 1.000000e+00 : f32}
  %none = nn.constant dense<0xFF800000> : tensor<f32>
  %infinite = nn.select %row, %zero, %none : (tensor<2x1x1x4xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x1x4xf32>
  %s, %lse2 = nn.attention %q, %q, %q, %infinite {causal, scale = 1.0 : f32} : (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x1x1x4xf32>) -> (tensor<2x4x1x8xf32>, tensor<2x1x4xf32>)
  // CHECK: %[[NUMBERS:.*]] = nn.select %arg0
  // CHECK: nn.attention %arg1, %arg1, %arg1, %[[NUMBERS]] {causal, scale = 1.000000e+00 : f32}
  %finite = nn.select %row, %zero, %least : (tensor<2x1x1x4xi1>, tensor<f32>, tensor<f32>) -> tensor<2x1x1x4xf32>
  %t, %lse3 = nn.attention %q, %q, %q, %finite {causal, scale = 1.0 : f32} : (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x1x1x4xf32>) -> (tensor<2x4x1x8xf32>, tensor<2x1x4xf32>)
  %u = nn.add %r, %s : (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>) -> tensor<2x4x1x8xf32>
  %v = nn.add %u, %t : (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>) -> tensor<2x4x1x8xf32>
  return %v : tensor<2x4x1x8xf32>
}

// A broadcast of floats stays before an op that has another operand.
// CHECK-LABEL: func.func @floats
func.func @floats(%row: tensor<1x4xf32>, %x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK: nn.broadcast
  %all = nn.broadcast %row : tensor<1x4xf32> -> tensor<2x4xf32>
  %r = nn.add %all, %x : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}
