// RUN: shardonnx-opt %s | shardonnx-opt | FileCheck %s
// RUN: shardonnx-opt %s --mlir-print-op-generic | shardonnx-opt | FileCheck %s

// CHECK: onnx.initializer @fc.weight : tensor<4x8xf32> from "m.onnx"[64, 128] {graph_name = "val_1", trainable, transposed}
onnx.initializer @fc.weight : tensor<4x8xf32> from "m.onnx"[64, 128] {graph_name = "val_1", trainable, transposed}
// CHECK: onnx.initializer @flags : tensor<3xi1> from "data/flags.bin"[0, 3]
onnx.initializer @flags : tensor<3xi1> from "data/flags.bin"[0, 3]
// CHECK: onnx.initializer @axes : tensor<1xi64> = dense<-1> : tensor<1xi64>
onnx.initializer @axes : tensor<1xi64> = dense<-1> : tensor<1xi64>

// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK: %[[NONE:.*]] = onnx.none
  %none = onnx.none
  // CHECK: %[[W:.*]] = onnx.get @fc.weight : tensor<4x8xf32>
  %w = onnx.get @fc.weight : tensor<4x8xf32>
  // CHECK: onnx.node "Gemm"(%{{.*}}, %[[W]], %[[NONE]]) {alpha = 1.000000e+00 : f32, transA = 0 : i64} : (tensor<2x4xf32>, tensor<4x8xf32>, none) -> tensor<2x8xf32>
  %y = onnx.node "Gemm"(%x, %w, %none) {alpha = 1.0 : f32, transA = 0 : i64} : (tensor<2x4xf32>, tensor<4x8xf32>, none) -> tensor<2x8xf32>
  // CHECK: %[[SEQ:.*]] = onnx.node "SplitToSequence"(%{{.*}}) {axis = 1 : i64} : (tensor<2x8xf32>) -> !onnx.seq<tensor<?x?xf32>>
  %s = onnx.node "SplitToSequence"(%y) {axis = 1 : i64} : (tensor<2x8xf32>) -> !onnx.seq<tensor<?x?xf32>>
  // CHECK: onnx.node "Thing" in "com.example"(%[[SEQ]]) : (!onnx.seq<tensor<?x?xf32>>) -> (tensor<2x4xf32>, tensor<*xf32>)
  %z:2 = onnx.node "Thing" in "com.example"(%s) : (!onnx.seq<tensor<?x?xf32>>) -> (tensor<2x4xf32>, tensor<*xf32>)
  return %z#0 : tensor<2x4xf32>
}
