// RUN: shardonnx-opt %s -fsdp-recreate-parameters -split-input-file | FileCheck %s

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w", place = #nn.place<@a>}

// CHECK-LABEL: func.func @microbatch
func.func @microbatch(%x: tensor<4x8xf32>) {
  %one = nn.constant dense<1.0> : tensor<f32>
  // CHECK: %[[W:.*]] = nn.get @w
  %w = nn.get @w : tensor<8x8xf32>
  // CHECK: %[[ONE:.*]] = nn.add %[[W]]
  %w1 = nn.add %w, %one {place = #nn.place<@a>} : (tensor<8x8xf32>, tensor<f32>) -> tensor<8x8xf32>
  // CHECK: %[[Y:.*]] = nn.matmul %{{.*}}, %[[ONE]]
  %y = nn.matmul %x, %w1 {place = #nn.place<@a>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[SEED:.*]] = nn.loss_scale
  %seed = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  // CHECK: %[[DY:.*]] = nn.mul %[[Y]], %[[SEED]]
  %dy = nn.mul %y, %seed {place = #nn.place<@a, backward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  // Backward makes 1 + w again, once for the unit; what depends on x is kept.
  // CHECK:      %[[WB:.*]] = nn.get @w
  // CHECK-NEXT: %[[AGAIN:.*]] = nn.add %[[WB]]
  // CHECK-NEXT: nn.matmul %[[DY]], %[[AGAIN]]
  // CHECK-NEXT: nn.matmul %[[Y]], %[[AGAIN]]
  %dx = nn.matmul %dy, %w1 {place = #nn.place<@a, backward>, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %dz = nn.matmul %y, %w1 {place = #nn.place<@a>, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %dw = nn.matmul %dx, %dz {place = #nn.place<@a, backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  nn.grad @w, %dw {place = #nn.place<backward>} : tensor<8x8xf32>
  return
}

// -----

// The largest element of a row is kept: to find it again would read the
// parameter once more. What is made of it in full size is made again.

nn.parameter @w : tensor<8x64xf32> trainable {onnx_name = "w", place = #nn.place<@a>}

// CHECK-LABEL: func.func @microbatch
func.func @microbatch(%x: tensor<4x8xf32>) {
  // CHECK: %[[W:.*]] = nn.get @w
  %w = nn.get @w : tensor<8x64xf32>
  // CHECK: %[[LARGEST:.*]] = nn.fused rows [8, 64] (%{{.*}} = %[[W]]
  %largest = nn.fused rows [8, 64] (%a = %w : tensor<8x64xf32>) -> (tensor<8x1xf32>) attributes {place = #nn.place<@a>} {
    %0 = nn.reduce_max %a {axes = array<i64: 1>, keepdims} : (tensor<8x64xf32>) -> tensor<8x1xf32>
    nn.yield %0 : tensor<8x1xf32>
  }
  // CHECK: nn.div %[[W]], %[[LARGEST]]
  %v = nn.div %w, %largest {place = #nn.place<@a>} : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
  %y = nn.matmul %x, %v {place = #nn.place<@a>} : (tensor<4x8xf32>, tensor<8x64xf32>) -> tensor<4x64xf32>
  // CHECK: nn.loss_scale
  %seed = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  %dy = nn.mul %y, %seed {place = #nn.place<@a, backward>} : (tensor<4x64xf32>, tensor<f32>) -> tensor<4x64xf32>
  // CHECK: %[[WB:.*]] = nn.get @w
  // CHECK-NEXT: nn.div %[[WB]], %[[LARGEST]]
  %dx = nn.matmul %dy, %v {place = #nn.place<@a, backward>, transpose_rhs} : (tensor<4x64xf32>, tensor<8x64xf32>) -> tensor<4x8xf32>
  %dw = nn.matmul %dx, %dy {place = #nn.place<@a, backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x64xf32>) -> tensor<8x64xf32>
  nn.grad @w, %dw {place = #nn.place<backward>} : tensor<8x64xf32>
  return
}
