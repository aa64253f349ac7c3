// RUN: shardonnx-opt %s "-nn-split-sequences=context=2 tensor=2" "-nn-partition=context=2 tensor=2" -split-input-file -verify-diagnostics | FileCheck %s
// RUN: shardonnx-opt %s "-nn-split-sequences=context=2 tensor=2 attention=all-gather" "-nn-partition=context=2 tensor=2" -split-input-file | FileCheck %s --check-prefix=GATHER

// Heads that both axes split: each rank of the tensor axis has a section of
// them, of which each of the context axis has a part.

// CHECK: module attributes {nn.mesh = {context = 2 : i64, tensor = 2 : i64}
// CHECK-LABEL: func.func @forward
func.func @forward(%ids: tensor<1x4xi64>, %bias: tensor<1x4x1x4xf32>) {
  %w = nn.get @w : tensor<16x8xf32>
  %x = nn.embedding %w, %ids : (tensor<16x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
  %q = nn.get @q : tensor<8x8xf32>
  // CHECK: nn.matmul {{.*}} -> tensor<1x2x4xf32>
  %qp = nn.matmul %x, %q : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32>
  %qh = nn.reshape %qp : tensor<1x4x8xf32> -> tensor<1x4x4x2xf32>
  // CHECK: nn.all_to_all {{.*}} split_sections = array<i64: 2>} : (tensor<1x2x2x2xf32>) -> tensor<1x4x1x2xf32>
  // CHECK: %[[OURS:.*]] = nn.part_slice %{{.*}} {axis = "context", dim = 1 : i64, parts = 2 : i64, sections = array<i64: 2, 2>} : (tensor<1x4x1x4xf32>) -> tensor<1x2x1x4xf32>
  // CHECK: nn.all_slice %[[OURS]] {axis = "tensor", dim = 1 : i64, parts = 2 : i64, sections = array<i64: 2>} : (tensor<1x2x1x4xf32>) -> tensor<1x1x1x4xf32>
  // CHECK: nn.attention {{.*}} -> (tensor<1x4x1x2xf32>, tensor<1x1x4xf32>)
  // CHECK: nn.all_to_all {{.*}} join_sections = array<i64: 2>{{.*}} : (tensor<1x4x1x2xf32>) -> tensor<1x2x2x2xf32>
  %a:2 = nn.attention %qh, %qh, %qh, %bias {scale = 1.0 : f32} : (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>, tensor<1x4x1x4xf32>) -> (tensor<1x4x4x2xf32>, tensor<1x4x4xf32>)
  %flat = nn.reshape %a#0 : tensor<1x4x4x2xf32> -> tensor<1x4x8xf32>
  %o = nn.get @o : tensor<8x8xf32>
  // CHECK: nn.matmul {{.*}} : (tensor<1x2x4xf32>, tensor<4x8xf32>) -> tensor<1x2x8xf32>
  // CHECK: nn.reduce_scatter {{.*}} {axis = "tensor", dim = 1
  %y = nn.matmul %flat, %o : (tensor<1x4x8xf32>, tensor<8x8xf32>) -> tensor<1x4x8xf32>
  return
}
nn.parameter @w : tensor<16x8xf32> trainable {onnx_name = "w"}
nn.parameter @q : tensor<8x8xf32> trainable {onnx_name = "q"}
nn.parameter @o : tensor<8x8xf32> trainable {onnx_name = "o"}

// -----

// Heads that only the tensor axis divides.
// CHECK-LABEL: func.func @heads
// GATHER-LABEL: func.func @heads
func.func @heads(%ids: tensor<1x4xi64>) {
  %w = nn.get @w : tensor<16x12xf32>
  %e = nn.embedding %w, %ids : (tensor<16x12xf32>, tensor<1x4xi64>) -> tensor<1x4x12xf32>
  %wq = nn.get @q : tensor<12x12xf32>
  %qp = nn.matmul %e, %wq : (tensor<1x4x12xf32>, tensor<12x12xf32>) -> tensor<1x4x12xf32>
  %q = nn.reshape %qp : tensor<1x4x12xf32> -> tensor<1x4x6x2xf32>
  // CHECK: nn.ring_attention {{.*}} -> (tensor<1x2x3x2xf32>, tensor<1x3x2xf32>)
  // GATHER: nn.all_gather %{{.*}} : (tensor<1x2x3x2xf32>) -> tensor<1x4x3x2xf32>
  // GATHER: nn.part_roll %{{.*}} : (tensor<1x4x3x2xf32>) -> tensor<1x4x3x2xf32>
  // GATHER: nn.attention {{.*}} -> (tensor<1x2x3x2xf32>, tensor<1x3x2xf32>)
  %0:2 = nn.attention %q, %q, %q {scale = 1.0 : f32, causal} : (tensor<1x4x6x2xf32>, tensor<1x4x6x2xf32>, tensor<1x4x6x2xf32>) -> (tensor<1x4x6x2xf32>, tensor<1x6x4xf32>)
  %flat = nn.reshape %0#0 : tensor<1x4x6x2xf32> -> tensor<1x4x12xf32>
  %o = nn.get @o : tensor<12x12xf32>
  %y = nn.matmul %flat, %o : (tensor<1x4x12xf32>, tensor<12x12xf32>) -> tensor<1x4x12xf32>
  return
}
nn.parameter @w : tensor<16x12xf32> trainable {onnx_name = "w"}
nn.parameter @q : tensor<12x12xf32> trainable {onnx_name = "q"}
nn.parameter @o : tensor<12x12xf32> trainable {onnx_name = "o"}
