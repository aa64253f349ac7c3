// RUN: shardonnx-opt %s --nn-assign-dtypes="param-dtype=bf16 reduce-dtype=f32 output-dtype=f32" | FileCheck %s
// RUN: shardonnx-opt %s --nn-assign-dtypes | FileCheck %s --check-prefix=F32
// RUN: not shardonnx-opt %s --nn-assign-dtypes=param-dtype=f8 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: --param-dtype=f8 is unknown; it is f32, bf16 or f16
// F32-NOT: bf16
// F32: nn.reduce_dtype = f32
// F32-NOT: bf16

// CHECK: module attributes {nn.reduce_dtype = f32}
// Masters stay f32.
// CHECK: nn.parameter @w : tensor<8xf32> trainable
nn.parameter @w : tensor<8xf32> trainable {onnx_name = "w"}

// CHECK-LABEL: func.func @forward
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[IDS:.*]]: tensor<4xi64>) -> tensor<4x8xf32>
func.func @forward(%x: tensor<4x8xf32>, %ids: tensor<4xi64>) -> tensor<4x8xf32> {
  // Float inputs enter in the parameter dtype.
  // CHECK: %[[LOW:.*]] = nn.cast %[[X]] : tensor<4x8xf32> -> tensor<4x8xbf16>
  // CHECK: %[[W:.*]] = nn.get @w : tensor<8xbf16>
  %w = nn.get @w : tensor<8xf32>
  // Statistics stay f32.
  // CHECK: nn.rms_norm %[[LOW]], %[[W]] {{.*}} -> (tensor<4x8xbf16>, tensor<4x1xf32>)
  %n, %rstd = nn.rms_norm %x, %w {epsilon = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>)
  // With a scalar: in f32, then rounded.
  // CHECK: %[[HALF:.*]] = nn.constant dense<5.000000e-01> : tensor<f32>
  // CHECK: %[[WIDE:.*]] = nn.cast %{{.*}} : tensor<4x8xbf16> -> tensor<4x8xf32>
  // CHECK: %[[PRODUCT:.*]] = nn.mul %[[WIDE]], %[[HALF]] : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  // CHECK: %[[ROUNDED:.*]] = nn.cast %[[PRODUCT]] : tensor<4x8xf32> -> tensor<4x8xbf16>
  %half = nn.constant dense<0.5> : tensor<f32>
  %h = nn.mul %n, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  // CHECK: nn.add %[[ROUNDED]], %[[LOW]] : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %a = nn.add %h, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // What comes from constants alone stays f32.
  // CHECK: nn.add %[[HALF]], %[[HALF]] : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %one = nn.add %half, %half : (tensor<f32>, tensor<f32>) -> tensor<f32>
  // Joined tensors agree.
  // CHECK: nn.concat {{.*}} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x8xbf16>
  %l = nn.slice %a {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 4>} : (tensor<4x8xf32>) -> tensor<4x4xf32>
  %z = nn.constant dense<0.0> : tensor<4x4xf32>
  %c = nn.concat %l, %z {axis = 1 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  // Losses compute in f32 from any type.
  // CHECK: nn.cross_entropy {{.*}} : (tensor<4x8xbf16>, tensor<4xi64>) -> tensor<f32>
  %s = nn.cross_entropy %c, %ids : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
  // CHECK: %[[OUT:.*]] = nn.cast %{{.*}} : tensor<4x8xbf16> -> tensor<4x8xf32>
  // CHECK-NEXT: return %[[OUT]]
  return %c : tensor<4x8xf32>
}
