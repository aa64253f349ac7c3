// A GatherND over a grid of known indices cuts out ranges, whatever it reads.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file | FileCheck %s

// mask[b, k] for all queries: one row of the grid is stored.
// CHECK-LABEL: func.func @padding
func.func @padding(%mask: tensor<2x4xi1> {onnx.name = "seen"}) -> tensor<2x1x3x4xi1> {
  %b = onnx.node "Constant"() {value = dense<[[[[0]]], [[[1]]]]> : tensor<2x1x1x1xi64>} : () -> tensor<2x1x1x1xi64>
  %k = onnx.node "Constant"() {value = dense<[[[[0, 1, 2, 3]]]]> : tensor<1x1x1x4xi64>} : () -> tensor<1x1x1x4xi64>
  %s = onnx.node "Constant"() {value_ints = array<i64: 2, 1, 3, 4>} : () -> tensor<4xi64>
  %last = onnx.node "Constant"() {value_ints = array<i64: -1>} : () -> tensor<1xi64>
  %b1 = onnx.node "Expand"(%b, %s) : (tensor<2x1x1x1xi64>, tensor<4xi64>) -> tensor<2x1x3x4xi64>
  %k1 = onnx.node "Expand"(%k, %s) : (tensor<1x1x1x4xi64>, tensor<4xi64>) -> tensor<2x1x3x4xi64>
  %b2 = onnx.node "Unsqueeze"(%b1, %last) : (tensor<2x1x3x4xi64>, tensor<1xi64>) -> tensor<2x1x3x4x1xi64>
  %k2 = onnx.node "Unsqueeze"(%k1, %last) : (tensor<2x1x3x4xi64>, tensor<1xi64>) -> tensor<2x1x3x4x1xi64>
  %i = onnx.node "Concat"(%b2, %k2) {axis = -1 : i64} : (tensor<2x1x3x4x1xi64>, tensor<2x1x3x4x1xi64>) -> tensor<2x1x3x4x2xi64>
  // CHECK: %[[ROW:.*]] = nn.reshape %arg0 : tensor<2x4xi1> -> tensor<2x1x1x4xi1>
  // CHECK: nn.broadcast %[[ROW]] : tensor<2x1x1x4xi1> -> tensor<2x1x3x4xi1>
  %r = onnx.node "GatherND"(%mask, %i) : (tensor<2x4xi1>, tensor<2x1x3x4x2xi64>) -> tensor<2x1x3x4xi1>
  return %r : tensor<2x1x3x4xi1>
}

// -----

// A range of columns, columns first: x[r, 1 + c] at (c, r).
// CHECK-LABEL: func.func @turned
func.func @turned(%x: tensor<2x4x5xf32>) -> tensor<2x2x5xf32> {
  %i = onnx.node "Constant"() {value = dense<[[[0, -3], [1, -3]], [[0, 2], [1, 2]]]> : tensor<2x2x2xi64>} : () -> tensor<2x2x2xi64>
  // CHECK: %[[CUT:.*]] = nn.slice %arg0 {offsets = array<i64: 0, 1, 0>, sizes = array<i64: 2, 2, 5>}
  // CHECK: nn.transpose %[[CUT]] {permutation = array<i64: 1, 0, 2>}
  %r = onnx.node "GatherND"(%x, %i) : (tensor<2x4x5xf32>, tensor<2x2x2xi64>) -> tensor<2x2x5xf32>
  return %r : tensor<2x2x5xf32>
}

// -----

// One row of all.
// CHECK-LABEL: func.func @row
func.func @row(%x: tensor<2x4xf32>) -> tensor<3x4xf32> {
  %i = onnx.node "Constant"() {value = dense<1> : tensor<3x1xi64>} : () -> tensor<3x1xi64>
  // CHECK: %[[CUT:.*]] = nn.slice %arg0 {offsets = array<i64: 1, 0>, sizes = array<i64: 1, 4>}
  // CHECK: nn.broadcast %[[CUT]] : tensor<1x4xf32> -> tensor<3x4xf32>
  %r = onnx.node "GatherND"(%x, %i) : (tensor<2x4xf32>, tensor<3x1xi64>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

// Both indices along one axis: a diagonal is no range.
// CHECK-LABEL: func.func @diagonal
func.func @diagonal(%x: tensor<2x2xf32>) -> tensor<2xf32> {
  %i = onnx.node "Constant"() {value = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>} : () -> tensor<2x2xi64>
  // CHECK: nn.gather
  %r = onnx.node "GatherND"(%x, %i) : (tensor<2x2xf32>, tensor<2x2xi64>) -> tensor<2xf32>
  return %r : tensor<2xf32>
}
