// RUN: shardonnx-opt %s -nn-recompute | FileCheck %s

// What another unit reads is kept: making x1 again would gather block 0's bias
// for the backward of block 1. Inside a unit, the relu is computed again.
nn.parameter @h.0.b : tensor<8xf32> trainable {onnx_name = "h.0.b", place = #nn.place<@h.0>}
nn.parameter @h.1.w : tensor<8x8xf32> trainable {onnx_name = "h.1.w", place = #nn.place<@h.1>}

// CHECK-LABEL: func.func @microbatch
func.func @microbatch(%x0: tensor<4x8xf32>) {
  %b = nn.get @h.0.b {place = #nn.place<@h.0>} : tensor<8xf32>
  %w = nn.get @h.1.w {place = #nn.place<@h.1>} : tensor<8x8xf32>
  // CHECK: %[[X1:.*]] = nn.add
  %x1 = nn.add %x0, %b {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[M:.*]] = nn.matmul %[[X1]]
  %m = nn.matmul %x1, %w {place = #nn.place<@h.1>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %r = nn.relu %m {place = #nn.place<@h.1>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = nn.matmul %r, %w {place = #nn.place<@h.1>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: nn.loss_scale
  %seed = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  // Nothing is added up again before the gradients are.
  // CHECK-NOT: nn.add
  %dy = nn.mul %y, %seed {place = #nn.place<@h.1, backward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %dp = nn.mul %dy, %m {place = #nn.place<@h.1, backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[R:.*]] = nn.relu %[[M]] {place = #nn.place<{{.*}}recompute>
  // CHECK: nn.matmul %[[R]], %{{.*}} {place = #nn.place<@h.1, backward>, transpose_lhs}
  // CHECK: nn.matmul %[[X1]], %{{.*}} {place = #nn.place<@h.1, backward>, transpose_lhs}
  %dv = nn.matmul %r, %dp {place = #nn.place<@h.1, backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %dw = nn.matmul %x1, %dp {place = #nn.place<@h.1, backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %sum = nn.add %dv, %dw {place = #nn.place<@h.1, backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  nn.grad @h.1.w, %sum {place = #nn.place<backward>} : tensor<8x8xf32>
  return
}
