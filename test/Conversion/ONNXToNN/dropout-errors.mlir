// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file -verify-diagnostics

// expected-error @+1 {{Dropout ×1 ('d'): axis 0 of what it draws for does not count samples, so ranks cannot draw apart; --dropout=off leaves dropout out}}
module {
  func.func @f(%x: tensor<2x4xf32>) -> tensor<1x4xf32> {
    %w = onnx.node "Constant"() {value_ints = array<i64: 0>} : () -> tensor<1xi64>
    %s = onnx.node "ReduceSum"(%x, %w) : (tensor<2x4xf32>, tensor<1xi64>) -> tensor<1x4xf32>
    %r = onnx.node "Constant"() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
    %t = onnx.node "Constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
    %0 = onnx.node "Dropout"(%s, %r, %t) : (tensor<1x4xf32>, tensor<f32>, tensor<i1>) -> tensor<1x4xf32> loc(fused<{node = "d", op = "Dropout"}>["d"])
    return %0 : tensor<1x4xf32>
  }
}

// -----

// expected-error @+1 {{Dropout ×1 ('d'): its ratio is not within [0, 1)}}
module {
  func.func @f(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %r = onnx.node "Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
    %t = onnx.node "Constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
    %0 = onnx.node "Dropout"(%x, %r, %t) : (tensor<2x4xf32>, tensor<f32>, tensor<i1>) -> tensor<2x4xf32> loc(fused<{node = "d", op = "Dropout"}>["d"])
    return %0 : tensor<2x4xf32>
  }
}

// -----

// expected-error @+1 {{Dropout ×1 ('d'): its ratio or training_mode depends on data}}
module {
  func.func @f(%x: tensor<2x4xf32>, %t: tensor<i1>) -> tensor<2x4xf32> {
    %r = onnx.node "Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
    %0 = onnx.node "Dropout"(%x, %r, %t) : (tensor<2x4xf32>, tensor<f32>, tensor<i1>) -> tensor<2x4xf32> loc(fused<{node = "d", op = "Dropout"}>["d"])
    return %0 : tensor<2x4xf32>
  }
}
