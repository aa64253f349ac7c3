// RUN: shardonnx-opt %s -fsdp-to-exec -exec-plan-memory -verify-exec | FileCheck %s
// RUN: shardonnx-opt %s -fsdp-to-exec=deterministic=true -exec-plan-memory -verify-exec | FileCheck %s --check-prefix=STRICT

// Unsharded accumulation: the first microbatch writes gradients where they are
// reduced, the next ones add to them there. A product adds by itself; a column
// sum does not, so it is added from beside. The tied @w has two gradients: the
// first of them writes (or adds), the second adds, and their sum is no kernel.

module attributes {fsdp.unsharded_accumulation} {
  nn.parameter @w : tensor<16x8xf32> trainable {onnx_name = "w"}
  nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
  fsdp.unit @root sharded f32 reduce f32 length 512 [@w at 0 size 128, @b at 256 size 8]

  // CHECK-LABEL: func.func @first_microbatch()
  // CHECK: exec.grad_acquire @root
  // CHECK: %[[DW:.*]] = exec.buffer gradients @root 0 : memref<16x8xf32>
  // CHECK: exec.gemm %{{.*}}, %{{.*}} into %[[DW]] {{.*}}:
  // CHECK: %[[DB:.*]] = exec.buffer gradients @root 1024 : memref<8xf32>
  // CHECK: exec.launch @columns_reduce_sum(%{{.*}}) into (%[[DB]])
  // CHECK: exec.embedding_grad %{{.*}}, %{{.*}} into %[[DW]] accumulate
  // CHECK-NOT: exec.launch
  // CHECK: exec.reduce_start @root{{$}}

  // Bit for bit: the sum is what it was.
  // STRICT-LABEL: func.func @first_microbatch()
  // STRICT: exec.launch @rows_add(
  // STRICT-NOT: accumulate
  // STRICT-LABEL: func.func @next_microbatch()
  // STRICT: exec.launch @rows_add(
  // STRICT: exec.copy %{{.*}} into %{{.*}} accumulate
  // STRICT: exec.copy %{{.*}} into %{{.*}} accumulate
  // STRICT: exec.reduce_start @root{{$}}
  func.func @first_microbatch(%x: tensor<4x8xf32> {nn.name = "x"}, %y: tensor<4x16xf32> {nn.name = "y"}, %ids: tensor<4xi64> {nn.name = "ids"}) {
    fsdp.grad_acquire @root
    %head = nn.matmul %y, %x {transpose_lhs} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %db = nn.fused columns [4, 8] (%p = %x : tensor<4x8xf32>) -> tensor<8xf32> {
      %s = nn.reduce_sum %p {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
      nn.yield %s : tensor<8xf32>
    }
    %table = nn.embedding_grad %ids, %x : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %dw = nn.fused rows [16, 8] (%p = %head : tensor<16x8xf32>, %q = %table : tensor<16x8xf32>) -> tensor<16x8xf32> {
      %s = nn.add %p, %q : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
      nn.yield %s : tensor<16x8xf32>
    }
    fsdp.reduce_start @root [@w, @b] (%dw, %db : tensor<16x8xf32>, tensor<8xf32>)
    return
  }

  // CHECK-LABEL: func.func @next_microbatch()
  // CHECK: %[[DW:.*]] = exec.buffer gradients @root 0 : memref<16x8xf32>
  // CHECK: exec.gemm %{{.*}}, %{{.*}} into %[[DW]] accumulate
  // CHECK: exec.launch @columns_reduce_sum(%{{.*}}) into (%[[SUM:.*]]) :
  // CHECK: exec.embedding_grad %{{.*}}, %{{.*}} into %[[DW]] accumulate
  // CHECK: %[[DB:.*]] = exec.buffer gradients @root 1024 : memref<8xf32>
  // CHECK: exec.copy %[[SUM]] into %[[DB]] accumulate
  // CHECK: exec.reduce_start @root{{$}}
  func.func @next_microbatch(%x: tensor<4x8xf32> {nn.name = "x"}, %y: tensor<4x16xf32> {nn.name = "y"}, %ids: tensor<4xi64> {nn.name = "ids"}) {
    fsdp.grad_acquire @root
    %head = nn.matmul %y, %x {transpose_lhs} : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %db = nn.fused columns [4, 8] (%p = %x : tensor<4x8xf32>) -> tensor<8xf32> {
      %s = nn.reduce_sum %p {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
      nn.yield %s : tensor<8xf32>
    }
    %table = nn.embedding_grad %ids, %x : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<16x8xf32>
    %dw = nn.fused rows [16, 8] (%p = %head : tensor<16x8xf32>, %q = %table : tensor<16x8xf32>) -> tensor<16x8xf32> {
      %s = nn.add %p, %q : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
      nn.yield %s : tensor<16x8xf32>
    }
    fsdp.reduce_start @root [@w, @b] (%dw, %db : tensor<16x8xf32>, tensor<8xf32>) {accumulate_unsharded}
    return
  }
  func.func @update() {
    fsdp.reduce_wait @root
    fsdp.clip_grad_norm
    fsdp.optimizer @root
    return
  }
}
