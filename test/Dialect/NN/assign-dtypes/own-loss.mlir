// RUN: shardonnx-opt %s --nn-assign-dtypes="param-dtype=bf16" | FileCheck %s

// A loss that the graph computes by itself is computed in its type, and
// reported in f32.
// CHECK: %[[MEAN:.*]] = nn.reduce_mean %{{.*}} : (tensor<4x3xbf16>) -> tensor<bf16>
// CHECK: %[[LOSS:.*]] = nn.cast %[[MEAN]] : tensor<bf16> -> tensor<f32>
// CHECK: nn.loss %[[LOSS]]
func.func @forward(%x: tensor<4x3xf32> {nn.name = "x"}) {
  %square = nn.mul %x, %x : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  %mean = nn.reduce_mean %square {axes = array<i64: 0, 1>} : (tensor<4x3xf32>) -> tensor<f32>
  nn.loss %mean {denominator = "batches"} : tensor<f32>
  return
}
