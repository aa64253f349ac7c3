// RUN: shardonnx-opt %s --nn-sum-outputs --nn-make-eval | FileCheck %s
// What is known is not computed, and where nothing flows there is no loss: the
// gradient is zero.
// CHECK-LABEL: func.func @eval
// CHECK-SAME: (%{{.*}}: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.gradient_of = "x"})
// CHECK: %[[ZERO:.*]] = nn.constant dense<0.000000e+00> : tensor<f32>
// CHECK: %[[ALL:.*]] = nn.broadcast %[[ZERO]]
// CHECK: return %[[ALL]]
func.func @forward(%x: tensor<2xf32> {nn.name = "x"})
    -> (tensor<f32> {nn.name = "y", nn.value = dense<2> : tensor<1xi64>}) {
  %0 = nn.constant dense<0.0> : tensor<f32>
  return %0 : tensor<f32>
}
