// RUN: shardonnx-opt %s -fsdp-defer-gradients | FileCheck %s

nn.parameter @table : tensor<16x8xf32> trainable {onnx_name = "table", place = #nn.place<@embed>}
nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w", place = #nn.place<@h.0>}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b", place = #nn.place<@h.0>}
nn.parameter @v : tensor<8x8xf32> trainable {onnx_name = "v", place = #nn.place<@h.1>}

// The gradient of @w is a product that nothing else reads: it waits until the
// table's is there. That of @b is no product, that of @v is of another unit, and
// what @w's gradient is the transpose of goes with it.
// CHECK-LABEL: func.func @microbatch
// CHECK:         %[[DV:.*]] = nn.matmul
// CHECK-NEXT:    nn.grad @v, %[[DV]]
// CHECK-NEXT:    %[[DX:.*]] = nn.matmul
// CHECK-NEXT:    %[[DB:.*]] = nn.reduce_sum
// CHECK-NEXT:    nn.grad @b, %[[DB]]
// CHECK-NEXT:    %[[DT:.*]] = nn.embedding_grad %{{.*}}, %[[DX]]
// CHECK-NEXT:    %[[DW:.*]] = nn.matmul
// CHECK-NEXT:    %[[DWT:.*]] = nn.transpose %[[DW]]
// CHECK-NEXT:    nn.grad @w, %[[DWT]]
// CHECK-NEXT:    nn.grad @table, %[[DT]]
func.func @microbatch(%ids: tensor<4xi64>, %x: tensor<4x8xf32>, %dy: tensor<4x8xf32>, %w: tensor<8x8xf32>) {
  %dv = nn.matmul %x, %dy {transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  nn.grad @v, %dv : tensor<8x8xf32>
  %dw = nn.matmul %x, %dy {transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %dwt = nn.transpose %dw {permutation = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  nn.grad @w, %dwt : tensor<8x8xf32>
  %dx = nn.matmul %dy, %w {transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %db = nn.reduce_sum %dy {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
  nn.grad @b, %db : tensor<8xf32>
  %dt = nn.embedding_grad %ids, %dx : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<16x8xf32>
  nn.grad @table, %dt : tensor<16x8xf32>
  return
}
