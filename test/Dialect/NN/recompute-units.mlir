// RUN: shardonnx-opt %s -nn-recompute | FileCheck %s

// What another unit reads is kept: making x1 again would gather block 0's bias
// for the backward of block 1. Inside a unit, the relu is computed again.
nn.parameter @h.0.b : tensor<8xf32> trainable {nn.unit = @h.0, onnx_name = "h.0.b"}
nn.parameter @h.1.w : tensor<8x8xf32> trainable {nn.unit = @h.1, onnx_name = "h.1.w"}

// CHECK-LABEL: func.func @microbatch
func.func @microbatch(%x0: tensor<4x8xf32>) {
  %b = nn.get @h.0.b {nn.unit = @h.0} : tensor<8xf32>
  %w = nn.get @h.1.w {nn.unit = @h.1} : tensor<8x8xf32>
  // CHECK: %[[X1:.*]] = nn.add
  %x1 = nn.add %x0, %b {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[M:.*]] = nn.matmul %[[X1]]
  %m = nn.matmul %x1, %w {nn.unit = @h.1} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %r = nn.relu %m {nn.unit = @h.1} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = nn.matmul %r, %w {nn.unit = @h.1} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: nn.loss_scale
  %seed = nn.loss_scale : tensor<f32>
  // Nothing is added up again before the gradients are.
  // CHECK-NOT: nn.add
  %dy = nn.mul %y, %seed {nn.unit = @h.1} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %dp = nn.mul %dy, %m {nn.unit = @h.1} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[R:.*]] = nn.relu %[[M]] {fsdp.recompute
  // CHECK: nn.matmul %[[R]], %{{.*}} {nn.unit = @h.1, transpose_lhs}
  // CHECK: nn.matmul %[[X1]], %{{.*}} {nn.unit = @h.1, transpose_lhs}
  %dv = nn.matmul %r, %dp {nn.unit = @h.1, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %dw = nn.matmul %x1, %dp {nn.unit = @h.1, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %sum = nn.add %dv, %dw {nn.unit = @h.1} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  nn.grad @h.1.w, %sum : tensor<8x8xf32>
  return
}
