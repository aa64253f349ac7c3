// Whose the gradient is at a tie: of all maxima, or of the first in the order
// of the axes, which is the one that counts down from the most.
// RUN: shardonnx-opt %s --nn-differentiate | FileCheck %s

nn.parameter @w : tensor<2x3x4xf32> trainable {onnx_name = "w"}
// CHECK-LABEL: func.func @microbatch(
// CHECK: %[[WINS:.*]] = nn.compare eq %{{.*}} -> tensor<2x3x4xi1>
// CHECK: %[[DOWN:.*]] = nn.select %[[WINS]], %{{.*}} -> tensor<2x3x4xf32>
// CHECK: %[[MOST:.*]] = nn.reduce_max %[[DOWN]] {axes = array<i64: 1, 2>, keepdims{{.*}}} : (tensor<2x3x4xf32>) -> tensor<2x1x1xf32>
// CHECK: %[[HERE:.*]] = nn.compare eq %[[DOWN]], %[[MOST]]
// CHECK: %[[FIRST:.*]] = nn.and %[[WINS]], %[[HERE]]
// CHECK: %[[G:.*]] = nn.select %[[FIRST]], %{{.*}} -> tensor<2x3x4xf32>
// CHECK: nn.grad @w
func.func @forward() {
  %w = nn.get @w : tensor<2x3x4xf32>
  %0 = nn.reduce_max %w {axes = array<i64: 1, 2>, nn.first} : (tensor<2x3x4xf32>) -> tensor<2xf32>
  %1 = nn.reduce_sum %0 {axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<f32>
  nn.loss %1 {denominator = "batches"} : tensor<f32>
  return
}
