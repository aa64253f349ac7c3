// RUN: shardonnx-opt %s -fsdp-order | FileCheck %s

nn.parameter @a.w : tensor<8x8xf32> trainable {onnx_name = "a.w", place = #nn.place<@a>}
nn.parameter @b.w : tensor<8x8xf32> trainable {onnx_name = "b.w", place = #nn.place<@b>}

// What unit a still has to do with its parameters comes before what unit b
// computes again, so that neither is gathered twice.
// CHECK-LABEL: func.func @microbatch
func.func @microbatch(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) {
  %seed = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  // CHECK: nn.mul %{{.*}} {place = #nn.place<@a, backward>}
  // CHECK-NEXT: %[[A:.*]] = nn.get @a.w
  // CHECK-NEXT: nn.matmul %{{.*}}, %[[A]] {place = #nn.place<@a, backward>
  // CHECK-NEXT: nn.get @b.w
  // CHECK-NEXT: nn.transpose %{{.*}} {{{.*}}place = #nn.place<@b, recompute>}
  // CHECK-NEXT: nn.matmul %{{.*}} {place = #nn.place<@b, backward>}
  %d1 = nn.mul %dy, %seed {place = #nn.place<@a, backward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %b = nn.get @b.w : tensor<8x8xf32>
  %again = nn.transpose %b {permutation = array<i64: 1, 0>, place = #nn.place<@b, recompute>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %a = nn.get @a.w : tensor<8x8xf32>
  %d2 = nn.matmul %d1, %a {place = #nn.place<@a, backward>, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %d3 = nn.matmul %d2, %again {place = #nn.place<@b, backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %dw = nn.matmul %x, %d3 {place = #nn.place<@b, backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  nn.grad @b.w, %dw {place = #nn.place<backward>} : tensor<8x8xf32>
  return
}
