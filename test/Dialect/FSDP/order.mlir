// RUN: shardonnx-opt %s -fsdp-order | FileCheck %s

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @v : tensor<8x8xf32> trainable {onnx_name = "v"}

// CHECK-LABEL: func.func @microbatch
// CHECK-SAME:    (%[[X:.*]]: tensor<4x8xf32>, %[[DY:.*]]: tensor<4x8xf32>)
func.func @microbatch(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) {
  %w = nn.get @w : tensor<8x8xf32>
  %seed = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  // CHECK: %[[DA:.*]] = nn.mul %[[DY]]
  // The weight gradient goes first: x is not needed behind it.
  // CHECK-NEXT: nn.matmul %[[X]], %[[DA]] {place = #nn.place<backward>, transpose_lhs}
  // CHECK-NEXT: %[[DX:.*]] = nn.matmul %[[DA]], %{{.*}} {place = #nn.place<backward>, transpose_rhs}
  %da = nn.mul %dy, %seed {place = #nn.place<backward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %dx = nn.matmul %da, %w {place = #nn.place<backward>, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK-NEXT: %[[DB:.*]] = nn.relu %[[DX]]
  // A product that something else reads too stays where it is.
  // CHECK-NEXT: nn.neg
  // CHECK-NEXT: nn.matmul %[[X]], %[[DB]]
  %db = nn.relu %dx {place = #nn.place<backward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %other = nn.neg %db {place = #nn.place<backward>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %dv = nn.matmul %x, %db {place = #nn.place<backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %dw = nn.matmul %x, %da {place = #nn.place<backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %dvt = nn.transpose %dv {permutation = array<i64: 1, 0>, place = #nn.place<backward>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %used = nn.neg %dv {place = #nn.place<backward>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  nn.grad @w, %dw {place = #nn.place<backward>} : tensor<8x8xf32>
  nn.grad @v, %dvt {place = #nn.place<backward>} : tensor<8x8xf32>
  return
}
