// Nodes that draw random numbers.
// RUN: shardonnx-opt %s -convert-onnx-to-nn -split-input-file -verify-diagnostics | FileCheck %s

// A normal number takes two streams; a type of 16 bits is cast to.
// CHECK-LABEL: func.func @draws(
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>, %[[R:.*]]: tensor<6xi64> {nn.kind = "random", nn.name = "random"})
// CHECK: %[[U:.*]] = nn.random_uniform %[[R]] {samples = 2 : i64, stream = 0 : i64} : (tensor<6xi64>) -> tensor<2x3xf32>
// CHECK: nn.mul %[[U]], %{{.*}}
// CHECK: nn.add
// CHECK: %[[RADIUS:.*]] = nn.random_uniform %[[R]] {{.*}}stream = 1
// CHECK: %[[ANGLE:.*]] = nn.random_uniform %[[R]] {{.*}}stream = 2
// CHECK: nn.sub %{{.*}}, %[[RADIUS]]
// CHECK: nn.log
// CHECK: nn.sqrt
// CHECK: nn.mul %[[ANGLE]]
// CHECK: nn.cos
// CHECK: nn.cast {{.*}} -> tensor<2x4xf16>
// CHECK: %[[P:.*]] = nn.random_uniform %[[R]] {{.*}}stream = 3 : i64} : (tensor<6xi64>) -> tensor<2x4xf32>
// CHECK: %[[LESS:.*]] = nn.compare lt %[[P]], %[[X]]
// CHECK: nn.cast %[[LESS]] {{.*}} -> tensor<2x4xi64>
// CHECK: nn.random_uniform %[[R]] {{.*}}stream = 4 : i64} : (tensor<6xi64>) -> tensor<2xf32>
func.func @draws(%x: tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<2x4xf16>, tensor<2x4xi64>, tensor<2xf32>) {
  %u = onnx.node "RandomUniform"() {high = 3.0 : f32, low = 1.0 : f32, shape = array<i64: 2, 3>} : () -> tensor<2x3xf32>
  %n = onnx.node "RandomNormalLike"(%x) {dtype = 10 : i64, mean = 1.0 : f32, scale = 0.5 : f32} : (tensor<2x4xf32>) -> tensor<2x4xf16>
  %b = onnx.node "Bernoulli"(%x) {dtype = 7 : i64} : (tensor<2x4xf32>) -> tensor<2x4xi64>
  %s = onnx.node "Constant"() {value = dense<0.0> : tensor<2xf32>} : () -> tensor<2xf32>
  %l = onnx.node "RandomUniformLike"(%s) : (tensor<2xf32>) -> tensor<2xf32>
  return %u, %n, %b, %l : tensor<2x3xf32>, tensor<2x4xf16>, tensor<2x4xi64>, tensor<2xf32>
}

// -----

// expected-error @+1 {{RandomNormal ×1 ('n'): axis 0 of what it draws for does not count samples, so ranks cannot draw apart}}
module {
  func.func @f(%x: tensor<2x4xf32>) -> tensor<4xf32> {
    %0 = onnx.node "RandomNormal"() {shape = array<i64: 3>} : () -> tensor<3xf32> loc(fused<{node = "n", op = "RandomNormal"}>["n"])
    %1 = onnx.node "Constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
