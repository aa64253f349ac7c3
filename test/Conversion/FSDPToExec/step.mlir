// RUN: shardonnx-opt %s -fsdp-to-exec -exec-plan-memory -verify-exec | FileCheck %s

// One unit with a linear head and one fused kernel in both microbatches: the
// kernel is outlined once, gradients are written into the unit's buffer, views
// of parameters are the unit's memory. @w is at element 0, @b at 256 = byte 1024.

nn.parameter @w : tensor<8x16xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<16xf32> trainable {onnx_name = "b"}
fsdp.unit @root sharded f32 reduce f32 length 512 [@w at 0 size 128, @b at 256 size 16]

// CHECK: exec.input 0 "x" "data" limit 0 : tensor<4x8xf32>
// CHECK: exec.input 1 "labels" "labels" limit 16 : tensor<4xi64>
// CHECK: exec.kernel @rows_add rows [4, 16] [memref<4x16xf32>, memref<16xf32>, memref<4x16xf32>]
// CHECK: exec.kernel @columns_reduce_sum columns
// CHECK-NOT: exec.kernel

// CHECK-LABEL: func.func @first_microbatch()
// CHECK: exec.gather_start @root
// CHECK: exec.gather_wait @root
// CHECK: %[[W:.*]] = exec.buffer params @root 0 : memref<8x16xf32>
// CHECK: exec.gemm %{{.*}}, %[[W]] into
// CHECK: %[[B:.*]] = exec.buffer params @root 1024 : memref<16xf32>
// CHECK: exec.launch @rows_add(%{{.*}}, %[[B]]) into
// CHECK: %[[SEED:.*]] = exec.buffer scalar 0 : memref<f32>
// CHECK: exec.cross_entropy %{{.*}} seed %[[SEED]]
// CHECK: exec.loss %{{.*}} {denominator = "labels", denominator_arg = 1 : i64}
// CHECK: exec.gather_free @root
// CHECK: exec.grad_acquire @root
// CHECK: %[[XT:.*]] = exec.view %{{.*}}[0] : memref<4x8xf32> to memref<8x4xf32, strided<[1, 8]>>
// CHECK: %[[DW:.*]] = exec.buffer gradients @root 0 : memref<8x16xf32>
// CHECK: exec.gemm %[[XT]], %{{.*}} into %[[DW]]
// CHECK: %[[DB:.*]] = exec.buffer gradients @root 1024 : memref<16xf32>
// CHECK: exec.launch @columns_reduce_sum(%{{.*}}) into (%[[DB]])
// CHECK-NOT: exec.copy
// CHECK: exec.reduce_start @root
// CHECK-LABEL: func.func @next_microbatch()
// CHECK: exec.launch @rows_add
// The result of a gemm that backward reads after the reduction lies elsewhere:
// CHECK: %[[DW2:.*]] = exec.buffer gradients @root 0
// CHECK: exec.copy %{{.*}} into %[[DW2]]
// CHECK: exec.reduce_start @root accumulate
// CHECK-LABEL: func.func @update()
// CHECK: exec.reduce_wait @root
// CHECK: exec.clip_grad_norm
// CHECK: exec.optimizer @root
func.func @first_microbatch(%x: tensor<4x8xf32> {nn.name = "x"}, %labels: tensor<4xi64> {nn.name = "labels"}) {
  fsdp.all_gather_start @root
  %u = fsdp.all_gather_wait @root
  %w = fsdp.view %u[@w] : tensor<8x16xf32>
  %b = fsdp.view %u[@b] : tensor<16xf32>
  %xw = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %y = nn.fused rows [4, 16] (%p = %xw : tensor<4x16xf32>, %q = %b : tensor<16xf32>) -> tensor<4x16xf32> {
    %s = nn.add %p, %q : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    nn.yield %s : tensor<4x16xf32>
  }
  %seed = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  %sum, %dy = nn.cross_entropy_grad %y, %labels, %seed {place = #nn.place<backward>} : (tensor<4x16xf32>, tensor<4xi64>, tensor<f32>) -> (tensor<f32>, tensor<4x16xf32>)
  nn.loss %sum {denominator = "labels", denominator_arg = 1 : i64, place = #nn.place<backward>} : tensor<f32>
  fsdp.free %u
  fsdp.grad_acquire @root
  %dw = nn.matmul %x, %dy {place = #nn.place<backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  %db = nn.fused columns [4, 16] (%p = %dy : tensor<4x16xf32>) -> tensor<16xf32> attributes {place = #nn.place<backward>} {
    %s = nn.reduce_sum %p {axes = array<i64: 0>} : (tensor<4x16xf32>) -> tensor<16xf32>
    nn.yield %s : tensor<16xf32>
  }
  fsdp.reduce_start @root [@w, @b] (%dw, %db : tensor<8x16xf32>, tensor<16xf32>)
  return
}
func.func @next_microbatch(%x: tensor<4x8xf32> {nn.name = "x"}, %labels: tensor<4xi64> {nn.name = "labels"}) {
  fsdp.all_gather_start @root
  %u = fsdp.all_gather_wait @root
  %w = fsdp.view %u[@w] : tensor<8x16xf32>
  %b = fsdp.view %u[@b] : tensor<16xf32>
  %xw = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %y = nn.fused rows [4, 16] (%p = %xw : tensor<4x16xf32>, %q = %b : tensor<16xf32>) -> tensor<4x16xf32> {
    %s = nn.add %p, %q : (tensor<4x16xf32>, tensor<16xf32>) -> tensor<4x16xf32>
    nn.yield %s : tensor<4x16xf32>
  }
  fsdp.grad_acquire @root
  %dw = nn.matmul %x, %y {transpose_lhs} : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
  %db = nn.fused columns [4, 16] (%p = %y : tensor<4x16xf32>) -> tensor<16xf32> {
    %s = nn.reduce_sum %p {axes = array<i64: 0>} : (tensor<4x16xf32>) -> tensor<16xf32>
    nn.yield %s : tensor<16xf32>
  }
  fsdp.reduce_start @root [@w, @b] (%dw, %db : tensor<8x16xf32>, tensor<16xf32>) {accumulate}
  %z = nn.matmul %x, %dw : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  fsdp.free %u
  return
}
func.func @update() {
  fsdp.reduce_wait @root
  fsdp.clip_grad_norm
  fsdp.optimizer @root
  return
}
