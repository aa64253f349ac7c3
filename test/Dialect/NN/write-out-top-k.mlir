// RUN: shardonnx-opt %s -nn-write-out-top-k | FileCheck %s

// Two rounds: the peak or a NaN, its first place, the element there, the rest.
// CHECK-LABEL: func.func @two
func.func @two(%x: tensor<3x5xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>) {
  // CHECK: %[[PLACES:.*]] = nn.iota {axis = 1 : i64} : () -> tensor<1x5xf32>
  // CHECK: %[[NAN:.*]] = nn.compare ne %[[X:.*]], %[[X]]
  // CHECK: %[[PEAK:.*]] = nn.reduce_max %[[X]] {axes = array<i64: 1>, keepdims}
  // CHECK: %[[IS:.*]] = nn.compare eq %[[X]], %[[PEAK]]
  // CHECK: nn.or %[[IS]], %[[NAN]]
  // CHECK: nn.reduce_max
  // CHECK: %[[FIRST:.*]] = nn.neg
  // CHECK: %[[CHOSEN:.*]] = nn.compare eq %[[PLACES]], %[[FIRST]]
  // CHECK: %[[V0:.*]] = nn.reduce_sum
  // CHECK: %[[REST:.*]] = nn.select %[[CHOSEN]]
  // CHECK: nn.reduce_max %[[REST]]
  // CHECK: %[[RANKS:.*]] = nn.select %[[CHOSEN]]
  // CHECK: nn.reduce_max %[[RANKS]]
  // CHECK: %[[SECOND:.*]] = nn.neg
  // CHECK: %[[V1:.*]] = nn.reduce_sum
  // CHECK: nn.concat %[[V0]], %[[V1]] {axis = 1 : i64}
  // CHECK: %[[I:.*]] = nn.concat %[[FIRST]], %[[SECOND]]
  // CHECK: nn.cast %[[I]] : tensor<3x2xf32> -> tensor<3x2xi64>
  %v:2 = nn.top_k %x {axis = 1 : i64, k = 2 : i64} : (tensor<3x5xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  return %v#0, %v#1 : tensor<3x2xf32>, tensor<3x2xi64>
}

// Integers, and more elements than are worth it, stay.
// CHECK-LABEL: func.func @others
func.func @others(%x: tensor<3x5xi64>, %y: tensor<50xf32>) -> (tensor<3x2xi64>, tensor<40xf32>) {
  // CHECK: nn.top_k
  %v:2 = nn.top_k %x {axis = 1 : i64, k = 2 : i64} : (tensor<3x5xi64>) -> (tensor<3x2xi64>, tensor<3x2xi64>)
  // CHECK: nn.top_k
  %w:2 = nn.top_k %y {axis = 0 : i64, k = 40 : i64} : (tensor<50xf32>) -> (tensor<40xf32>, tensor<40xi64>)
  return %v#0, %w#0 : tensor<3x2xi64>, tensor<40xf32>
}
