// The gradient drops what the forward pass dropped; evaluation drops nothing.
// RUN: shardonnx-opt %s --nn-differentiate | FileCheck %s

nn.parameter @w : tensor<2x4xf32> trainable {onnx_name = "w"}
// CHECK-LABEL: func.func @microbatch(
// CHECK-SAME: %[[R:.*]]: tensor<2xi64>
// CHECK: nn.dropout %{{.*}}, %[[R]] {ratio = 2.500000e-01 : f64, samples = 2 : i64, stream = 0 : i64}
// CHECK: %[[G:.*]] = nn.broadcast
// CHECK: %[[D:.*]] = nn.dropout %[[G]], %[[R]] {place = #nn.place<backward>, ratio = 2.500000e-01 : f64, samples = 2 : i64, stream = 0 : i64}
// CHECK: nn.grad @w, %[[D]]
// CHECK-LABEL: func.func @eval(
// CHECK-NOT: nn.dropout
func.func @forward(%r: tensor<2xi64>) {
  %w = nn.get @w : tensor<2x4xf32>
  %0 = nn.dropout %w, %r {ratio = 0.25 : f64, samples = 2 : i64, stream = 0 : i64} : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %1 = nn.reduce_sum %0 {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  nn.loss %1 {denominator = "batches"} : tensor<f32>
  return
}
