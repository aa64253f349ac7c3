// The classes of a map are axis 1, as torch.nn.functional.cross_entropy has it.
// RUN: shardonnx-opt %s --nn-attach-loss=kind=cross-entropy | FileCheck %s
// RUN: not shardonnx-opt %s --nn-attach-loss 2>&1 | FileCheck %s --check-prefix=UNTOLD

// CHECK-LABEL: func.func @forward(
// CHECK-SAME: tensor<2x4x5xi64> {nn.kind = "labels", nn.name = "labels"}
// CHECK: %[[LAST:.*]] = nn.transpose %{{.*}} {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x3x4x5xf32>) -> tensor<2x4x5x3xf32>
// CHECK: %[[ROWS:.*]] = nn.reshape %[[LAST]] : tensor<2x4x5x3xf32> -> tensor<40x3xf32>
// CHECK: nn.cross_entropy %[[ROWS]], %{{.*}} : (tensor<40x3xf32>, tensor<40xi64>) -> tensor<f32>
// UNTOLD: error: cannot tell the loss from the shape [2,3,4,5] of output map; say which with --loss (mse for a regression)
func.func @forward(%x: tensor<2x3x4x5xf32> {nn.name = "x"}) -> (tensor<2x3x4x5xf32> {nn.name = "map"}) {
  %0 = nn.exp %x : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  return %0 : tensor<2x3x4x5xf32>
}
