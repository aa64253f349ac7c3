// Integers that stand for numbers.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file -verify-diagnostics | FileCheck %s

// A weight is read as what it stands for: by the rows of axis 0, and by blocks
// of two along axis 1, the last of which is cut.
// CHECK-LABEL: func.func @weight
// CHECK: nn.constant dense<{{\[\[}}0.000000e+00, 5.000000e-01, 1.000000e+00], [-1.500000e+00, -1.750000e+00, -2.000000e+00]]> : tensor<2x3xf32>
// CHECK: nn.constant dense<{{\[\[}}5.000000e-01, 1.000000e+00, 7.500000e-01], [-8.000000e+00, -1.000000e+01, -2.400000e+01]]> : tensor<2x3xf32>
func.func @weight(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %w = onnx.node "Constant"() {value = dense<[[1, 2, 3], [-4, -5, -6]]> : tensor<2x3xi8>} : () -> tensor<2x3xi8>
  %rows = onnx.node "Constant"() {value = dense<[0.5, 0.25]> : tensor<2xf32>} : () -> tensor<2xf32>
  %zeros = onnx.node "Constant"() {value = dense<[1, 2]> : tensor<2xi8>} : () -> tensor<2xi8>
  %0 = onnx.node "DequantizeLinear"(%w, %rows, %zeros) {axis = 0 : i64} : (tensor<2x3xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x3xf32>
  %blocks = onnx.node "Constant"() {value = dense<[[0.5, 0.25], [2.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %1 = onnx.node "DequantizeLinear"(%w, %blocks) {axis = 1 : i64, block_size = 2 : i64} : (tensor<2x3xi8>, tensor<2x2xf32>) -> tensor<2x3xf32>
  %2 = onnx.node "Mul"(%x, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = onnx.node "Mul"(%x, %1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2, %3 : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// What rounds data and reads it again makes no integers, and its gradient goes
// straight through where the data was in range.
// CHECK-LABEL: func.func @aware
// CHECK-NOT: i8
// CHECK: %[[ROUNDED:.*]] = nn.mul
// CHECK: %[[ABOVE:.*]] = nn.select %{{.*}}, %[[ZERO:.*]], %[[X:.*]] : (tensor<2x4xi1>, tensor<f32>, tensor<2x4xf32>)
// CHECK: %[[INSIDE:.*]] = nn.select %{{.*}}, %[[ZERO]], %[[ABOVE]]
// CHECK: %[[SAME:.*]] = nn.stop_gradient %[[INSIDE]]
// CHECK: %[[THROUGH:.*]] = nn.sub %[[INSIDE]], %[[SAME]]
// CHECK: %[[STOPPED:.*]] = nn.stop_gradient %[[ROUNDED]]
// CHECK: nn.add %[[STOPPED]], %[[THROUGH]]
func.func @aware(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = onnx.node "Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.node "Constant"() {value = dense<3> : tensor<ui8>} : () -> tensor<ui8>
  %0 = onnx.node "QuantizeLinear"(%x, %s, %z) : (tensor<2x4xf32>, tensor<f32>, tensor<ui8>) -> tensor<2x4xui8>
  %1 = onnx.node "DequantizeLinear"(%0, %s, %z) : (tensor<2x4xui8>, tensor<f32>, tensor<ui8>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// Along another axis the integers are read as they are, too.
// CHECK-LABEL: func.func @other_axis
// CHECK: %[[ROWS:.*]] = nn.reshape %{{.*}} : tensor<2xf32> -> tensor<2x1xf32>
// CHECK: nn.div %{{.*}}, %[[ROWS]]
// CHECK-NOT: nn.stop_gradient
// CHECK: %[[COLUMNS:.*]] = nn.reshape %{{.*}} : tensor<2xf32> -> tensor<1x2xf32>
// CHECK: nn.mul %{{.*}}, %[[COLUMNS]]
func.func @other_axis(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %s = onnx.node "Constant"() {value = dense<[0.5, 0.25]> : tensor<2xf32>} : () -> tensor<2xf32>
  %z = onnx.node "Constant"() {value = dense<0> : tensor<2xi8>} : () -> tensor<2xi8>
  %0 = onnx.node "QuantizeLinear"(%x, %s, %z) {axis = 0 : i64} : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x2xi8>
  %1 = onnx.node "DequantizeLinear"(%0, %s, %z) : (tensor<2x2xi8>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}

// -----

// On another grid the integers are read as they are.
// CHECK-LABEL: func.func @other_grid
// CHECK-NOT: nn.stop_gradient
// CHECK: nn.mul
func.func @other_grid(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %s = onnx.node "Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %t = onnx.node "Constant"() {value = dense<0.25> : tensor<f32>} : () -> tensor<f32>
  %z = onnx.node "Constant"() {value = dense<0> : tensor<i8>} : () -> tensor<i8>
  %0 = onnx.node "QuantizeLinear"(%x, %s, %z) : (tensor<2x4xf32>, tensor<f32>, tensor<i8>) -> tensor<2x4xi8>
  %1 = onnx.node "DequantizeLinear"(%0, %t, %z) : (tensor<2x4xi8>, tensor<f32>, tensor<i8>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// expected-error @+1 {{QuantizeLinear ×1 ('q'): it computes i8 from data}}
module {
  func.func @f(%x: tensor<2x4xf32>) -> tensor<2x4xi8> {
    %s = onnx.node "Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
    %z = onnx.node "Constant"() {value = dense<0> : tensor<i8>} : () -> tensor<i8>
    %0 = onnx.node "QuantizeLinear"(%x, %s, %z) : (tensor<2x4xf32>, tensor<f32>, tensor<i8>) -> tensor<2x4xi8> loc(fused<{node = "q", op = "QuantizeLinear"}>["q"])
    return %0 : tensor<2x4xi8>
  }
}

// -----

// expected-error @+1 {{DequantizeLinear ×1 ('d'): its scale or zero point does not fit its axis and block_size}}
module {
  func.func @f(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %w = onnx.node "Constant"() {value = dense<1> : tensor<2x3xi8>} : () -> tensor<2x3xi8>
    %s = onnx.node "Constant"() {value = dense<0.5> : tensor<2xf32>} : () -> tensor<2xf32>
    %0 = onnx.node "DequantizeLinear"(%w, %s) {axis = 1 : i64} : (tensor<2x3xi8>, tensor<2xf32>) -> tensor<2x3xf32> loc(fused<{node = "d", op = "DequantizeLinear"}>["d"])
    %1 = onnx.node "Mul"(%x, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
}

// -----

// expected-error @+1 {{DequantizeLinear ×1 ('d'): only of integers of 8 to 32 bits, those of more than 16 without a zero point}}
module {
  func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
    %w = onnx.node "Constant"() {value = dense<1> : tensor<3xi32>} : () -> tensor<3xi32>
    %s = onnx.node "Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
    %z = onnx.node "Constant"() {value = dense<7> : tensor<i32>} : () -> tensor<i32>
    %0 = onnx.node "DequantizeLinear"(%w, %s, %z) : (tensor<3xi32>, tensor<f32>, tensor<i32>) -> tensor<3xf32> loc(fused<{node = "d", op = "DequantizeLinear"}>["d"])
    %1 = onnx.node "Mul"(%x, %0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
}
