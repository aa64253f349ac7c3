// Which Dropout nodes drop, and what they become.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file -verify-diagnostics | FileCheck %s --check-prefixes=CHECK,GRAPH
// RUN: shardonnx-opt %s -convert-onnx-to-nn=dropout=on -split-input-file 2>/dev/null | FileCheck %s --check-prefixes=CHECK,ON
// RUN: shardonnx-opt %s -convert-onnx-to-nn=dropout=off -split-input-file | FileCheck %s --check-prefixes=CHECK,OFF

// Two streams, and an argument that holds the first sample and a key for each.
// CHECK-LABEL: func.func @trains(
// GRAPH-SAME: %[[X:.*]]: tensor<2x4xf32>, %[[R:.*]]: tensor<3xi64> {nn.kind = "random", nn.name = "random"})
// GRAPH: %[[A:.*]] = nn.dropout %[[X]], %[[R]] {ratio = 1.000000e-01 : f64, samples = 2 : i64, stream = 0 : i64}
// GRAPH: nn.dropout %[[A]], %[[R]] {ratio = 5.000000e-01 : f64, samples = 2 : i64, stream = 1 : i64}
// ON-COUNT-2: nn.dropout
// OFF-NOT: nn.dropout
func.func @trains(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %r = onnx.node "Constant"() {value = dense<0.1> : tensor<f64>} : () -> tensor<f64>
  %t = onnx.node "Constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %0 = onnx.node "Dropout"(%x, %r, %t) : (tensor<2x4xf32>, tensor<f64>, tensor<i1>) -> tensor<2x4xf32>
  %none = onnx.none
  %1 = onnx.node "Dropout"(%0, %none, %t) : (tensor<2x4xf32>, none, tensor<i1>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// Without a training_mode it does nothing, which may not be what was meant.
// CHECK-LABEL: func.func @idle(
// GRAPH-NOT: nn.dropout
// ON: nn.dropout
// OFF-NOT: nn.dropout
func.func @idle(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %r = onnx.node "Constant"() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  // expected-warning @below {{Dropout without a training_mode does nothing}}
  %0 = onnx.node "Dropout"(%x, %r) : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// A ratio of 0, and evaluation.
// CHECK-LABEL: func.func @off(
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>) -> tensor<2x4xf32>
// CHECK-NEXT: return %[[X]]
func.func @off(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %r = onnx.node "Constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %t = onnx.node "Constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %0 = onnx.node "Dropout"(%x, %r, %t) : (tensor<2x4xf32>, tensor<f32>, tensor<i1>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
