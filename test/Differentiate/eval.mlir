// RUN: shardonnx-opt %s -split-input-file --nn-sum-outputs | FileCheck %s --check-prefix=SUM
// RUN: shardonnx-opt %s -split-input-file --nn-sum-outputs --nn-differentiate --nn-make-eval | FileCheck %s

// Weights and float inputs are trained on the sum of all float outputs; then
// all of them are arguments, and gradients are results.

// SUM: nn.parameter @x : tensor<2x3xf32> trainable {argument = 0 : i64
// SUM-LABEL: func.func @forward
// SUM: nn.get @x : tensor<2x3xf16>
// SUM: nn.loss %{{.*}} {denominator = "batches"}

// CHECK-NOT: nn.parameter
// CHECK-LABEL: func.func @eval
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3xf16> {nn.name = "x"}
// CHECK-SAME: %[[N:[^:]*]]: tensor<2xi64> {nn.name = "n"}
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x3xf16> {nn.name = "fc", nn.source = #nn.external<{{.*}}>, nn.weight = "w"}
// CHECK-SAME: -> (tensor<2x4xf16> {nn.name = "y"}, tensor<2xi64> {nn.name = "m"},
// CHECK-SAME: tensor<4x3xf16> {nn.gradient_of = "fc"}, tensor<2x3xf16> {nn.gradient_of = "x"})
// The file holds the transpose of the parameter.
// CHECK: %[[WT:.*]] = nn.transpose %[[W]] {permutation = array<i64: 1, 0>}
// CHECK: %[[Y:.*]] = nn.matmul %[[X]], %[[WT]]
// CHECK-NOT: nn.loss %
// CHECK-NOT: nn.grad @
// CHECK: return %[[Y]], %[[N]], %{{.*}}, %{{.*}} : tensor<2x4xf16>, tensor<2xi64>, tensor<4x3xf16>, tensor<2x3xf16>
nn.parameter @w : tensor<3x4xf32> trainable {onnx_name = "fc", source = #nn.external<file = "m.onnx", offset = 64, length = 24, elementType = f16, transposed = true>}
func.func @forward(%x: tensor<2x3xf16> {nn.name = "x"}, %n: tensor<2xi64> {nn.name = "n"})
    -> (tensor<2x4xf16> {nn.name = "y"}, tensor<2xi64> {nn.name = "m"}) {
  %w = nn.get @w : tensor<3x4xf16>
  %y = nn.matmul %x, %w : (tensor<2x3xf16>, tensor<3x4xf16>) -> tensor<2x4xf16>
  return %y, %n : tensor<2x4xf16>, tensor<2xi64>
}
