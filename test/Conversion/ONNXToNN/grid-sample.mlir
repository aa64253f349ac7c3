// The neighbours of every point are one gather, whose rows are summed by their
// weights; what lies outside has the weight 0.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file -verify-diagnostics | FileCheck %s

// CHECK-LABEL: func.func @bilinear(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4x5xf16>, %[[G:.*]]: tensor<2x6x7x2xf32>
// CHECK-DAG: %[[ROWS:.*]] = nn.transpose %{{.*}} {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x20xf16>) -> tensor<2x20x3xf16>
// CHECK-DAG: %[[AT:.*]] = nn.reshape %{{.*}} : tensor<2x168xi64> -> tensor<2x168x1xi64>
// CHECK: %[[READ:.*]] = nn.gather %[[ROWS]], %[[AT]] {{.*}} -> tensor<2x168x3xf16>
// CHECK: nn.mul
// CHECK: %[[SUM:.*]] = nn.reduce_sum %{{.*}} {axes = array<i64: 1>} : (tensor<2x4x42x3xf32>) -> tensor<2x42x3xf32>
// CHECK: nn.transpose %{{.*}} {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x6x7x3xf32>) -> tensor<2x3x6x7xf32>
// CHECK: nn.cast %{{.*}} : tensor<2x3x6x7xf32> -> tensor<2x3x6x7xf16>
func.func @bilinear(%x: tensor<2x3x4x5xf16>, %g: tensor<2x6x7x2xf32>) -> tensor<2x3x6x7xf16> {
  %0 = onnx.node "GridSample"(%x, %g) {mode = "bilinear"} : (tensor<2x3x4x5xf16>, tensor<2x6x7x2xf32>) -> tensor<2x3x6x7xf16>
  return %0 : tensor<2x3x6x7xf16>
}

// -----

// expected-error @+1 {{GridSample ×1 ('s'): its mode or padding_mode is not known}}
module {
  func.func @f(%x: tensor<2x3x4x5xf32>, %g: tensor<2x6x7x2xf32>) -> tensor<2x3x6x7xf32> {
    %0 = onnx.node "GridSample"(%x, %g) {padding_mode = "wrap"} : (tensor<2x3x4x5xf32>, tensor<2x6x7x2xf32>) -> tensor<2x3x6x7xf32> loc(fused<{node = "s", op = "GridSample"}>["s"])
    return %0 : tensor<2x3x6x7xf32>
  }
}
