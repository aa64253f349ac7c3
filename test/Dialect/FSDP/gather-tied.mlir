// RUN: shardonnx-opt %s -fsdp-make-units -fsdp-gather | FileCheck %s
// RUN: shardonnx-opt %s -fsdp-make-units=strategy=shard_grad_op -fsdp-gather | FileCheck %s --check-prefix=KEEP

// The table is read by the embedding and by the head (tied): its unit is freed
// while the blocks run, and gathered again for the head. The block reads its
// bias on both sides of the module inside it, which does not free it.
nn.parameter @wte.weight : tensor<32x8xf32> {onnx_name = "wte.weight", place = #nn.place<@wte>}
nn.parameter @h.bias : tensor<8xf32> {onnx_name = "h.bias", place = #nn.place<@h.0>}
nn.parameter @h.mlp : tensor<8x8xf32> {onnx_name = "h.mlp", place = #nn.place<@h.0.mlp>}

// CHECK-LABEL: func.func @eval
// CHECK:      %[[TABLE:.*]] = fsdp.all_gather @wte
// CHECK:      nn.embedding
// CHECK-NEXT: fsdp.free %[[TABLE]]
// CHECK:      %[[BLOCK:.*]] = fsdp.all_gather @h.0
// CHECK:      nn.add
// CHECK-NEXT: %[[MLP:.*]] = fsdp.all_gather @h.0.mlp
// CHECK:      fsdp.free %[[MLP]]
// CHECK-NEXT: nn.add
// CHECK-NEXT: fsdp.free %[[BLOCK]]
// CHECK:      %[[HEAD:.*]] = fsdp.all_gather @wte
// CHECK:      nn.matmul
// CHECK-NEXT: fsdp.free %[[HEAD]]

// KEEP:     fsdp.all_gather @wte
// KEEP-NOT: fsdp.all_gather @wte
func.func @eval(%ids: tensor<4xi64>) -> tensor<4x32xf32> {
  %t = nn.get @wte.weight : tensor<32x8xf32>
  %b = nn.get @h.bias : tensor<8xf32>
  %w = nn.get @h.mlp : tensor<8x8xf32>
  %x = nn.embedding %t, %ids : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %0 = nn.add %x, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %1 = nn.matmul %0, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = nn.add %1, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %3 = nn.matmul %2, %t {transpose_rhs} : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
  return %3 : tensor<4x32xf32>
}
