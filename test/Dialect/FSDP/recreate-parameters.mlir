// RUN: shardonnx-opt %s -fsdp-recreate-parameters | FileCheck %s

nn.parameter @w : tensor<8x8xf32> trainable {nn.unit = @a, onnx_name = "w"}

// CHECK-LABEL: func.func @microbatch
func.func @microbatch(%x: tensor<4x8xf32>) {
  %one = nn.constant dense<1.0> : tensor<f32>
  // CHECK: %[[W:.*]] = nn.get @w
  %w = nn.get @w : tensor<8x8xf32>
  // CHECK: %[[ONE:.*]] = nn.add %[[W]]
  %w1 = nn.add %w, %one {nn.unit = @a} : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  // CHECK: %[[Y:.*]] = nn.matmul %{{.*}}, %[[ONE]]
  %y = nn.matmul %x, %w1 {nn.unit = @a} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[SEED:.*]] = nn.loss_scale
  %seed = nn.loss_scale : tensor<f32>
  // CHECK: %[[DY:.*]] = nn.mul %[[Y]], %[[SEED]]
  %dy = nn.mul %y, %seed {nn.unit = @a} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  // Backward makes 1 + w again, once for the unit; what depends on x is kept.
  // CHECK:      %[[WB:.*]] = nn.get @w
  // CHECK-NEXT: %[[AGAIN:.*]] = nn.add %[[WB]]
  // CHECK-NEXT: nn.matmul %[[DY]], %[[AGAIN]]
  // CHECK-NEXT: nn.matmul %[[Y]], %[[AGAIN]]
  %dx = nn.matmul %dy, %w1 {nn.unit = @a, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %dz = nn.matmul %y, %w1 {nn.unit = @a, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %dw = nn.matmul %dx, %dz {nn.unit = @a, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  nn.grad @w, %dw : tensor<8x8xf32>
  return
}
