// RUN: shardonnx-opt %s | shardonnx-opt | FileCheck %s

// Every exec op is read back as it is printed.

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
fsdp.unit @h.0 sharded f32 reduce f32 length 256 [@w at 0 size 64]
exec.space private bytes 4096 lower_bound 4000
// CHECK: exec.input 0 "input_ids" "tokens" limit 16 : tensor<2x4xi64>
exec.input 0 "input_ids" "tokens" limit 16 : tensor<2x4xi64>
// CHECK: exec.constant @table = dense<{{.*}}> : tensor<2xf32>
exec.constant @table = dense<[1.0, 2.0]> : tensor<2xf32>

// CHECK: exec.kernel @double rows
exec.kernel @double rows [4, 8] [memref<4x8xf32>, memref<4x8xf32, strided<[16, 1]>>] {
^bb0(%x: tensor<4x8xf32>):
  %y = nn.add %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  nn.yield %y : tensor<4x8xf32>
}

// CHECK-LABEL: @first_microbatch
func.func @first_microbatch() {
  // CHECK: exec.gather_start @h.0
  exec.gather_start @h.0
  // CHECK: exec.gather_wait @h.0
  exec.gather_wait @h.0
  // CHECK: %[[W:.*]] = exec.buffer params @h.0 0 : memref<8x8xf32>
  %w = exec.buffer params @h.0 0 : memref<8x8xf32>
  // CHECK: exec.buffer private 64 : memref<4x8xf32>
  %x = exec.buffer private 64 : memref<4x8xf32>
  %y = exec.alloc : memref<4x16xf32>
  // CHECK: exec.view %{{.*}}[8] : memref<4x16xf32> to memref<4x8xf32, strided<[16, 1]>>
  %y1 = exec.view %y[8] : memref<4x16xf32> to memref<4x8xf32, strided<[16, 1]>>
  // CHECK: exec.launch @double(%{{.*}}) into (%{{.*}}) : (memref<4x8xf32>) -> (memref<4x8xf32, strided<[16, 1]>>)
  exec.launch @double(%x) into (%y1) : (memref<4x8xf32>) -> (memref<4x8xf32, strided<[16, 1]>>)
  %z = exec.alloc : memref<4x8xf32>
  // CHECK: exec.gemm %{{.*}}, %{{.*}} into %{{.*}} : memref<4x8xf32, strided<[16, 1]>>, memref<8x8xf32>, memref<4x8xf32>
  exec.gemm %y1, %w into %z : memref<4x8xf32, strided<[16, 1]>>, memref<8x8xf32>, memref<4x8xf32>
  // CHECK: %[[HOST:.*]] = exec.alloc host : memref<4x16xf32>
  %host = exec.alloc host : memref<4x16xf32>
  // CHECK: exec.offload_start 3 %{{.*}} into %[[HOST]] : memref<4x16xf32>
  exec.offload_start 3 %y into %host : memref<4x16xf32>
  // CHECK: exec.offload_wait 3 %{{.*}} : memref<4x16xf32>
  exec.offload_wait 3 %y : memref<4x16xf32>
  // CHECK: exec.reload_start 3 %[[HOST]] into %{{.*}} : memref<4x16xf32>
  exec.reload_start 3 %host into %y : memref<4x16xf32>
  // CHECK: exec.reload_wait 3 %{{.*}} : memref<4x16xf32>
  exec.reload_wait 3 %y : memref<4x16xf32>
  // CHECK: exec.buffer host 64 : memref<4xf32>
  %planned = exec.buffer host 64 : memref<4xf32>
  // CHECK: exec.gather_free @h.0
  exec.gather_free @h.0
  // CHECK: exec.gather_reshard @h.0
  exec.gather_reshard @h.0
  // CHECK: exec.grad_acquire @h.0
  exec.grad_acquire @h.0
  %g = exec.buffer gradients @h.0 0 : memref<8x8xf32>
  // CHECK: exec.zero %{{.*}} : memref<8x8xf32>
  exec.zero %g : memref<8x8xf32>
  // CHECK: exec.reduce_start @h.0 accumulate
  exec.reduce_start @h.0 accumulate
  // CHECK: exec.reduce_wait @h.0
  exec.reduce_wait @h.0
  %zt = exec.view %z[0] : memref<4x8xf32> to memref<8x4xf32, strided<[1, 8]>>
  %c = exec.alloc : memref<8x4xf32>
  // CHECK: exec.copy %{{.*}} into %{{.*}} : memref<8x4xf32, strided<[1, 8]>>, memref<8x4xf32>
  exec.copy %zt into %c : memref<8x4xf32, strided<[1, 8]>>, memref<8x4xf32>
  return
}

// CHECK-LABEL: @calls
func.func @calls() {
  %ids = exec.buffer input 0 : memref<2x4xi64>
  %seed = exec.buffer scalar 0 : memref<f32>
  %table = exec.buffer constant @table 0 : memref<2xf32>
  %q = exec.alloc : memref<2x4x2x8xf32>
  %k = exec.alloc : memref<2x4x1x8xf32>
  %o = exec.alloc : memref<2x4x2x8xf32>
  %lse = exec.alloc : memref<2x2x4xf32>
  %dk = exec.alloc : memref<2x4x1x8xf32>
  %ws = exec.alloc : memref<256xi8>
  // CHECK: exec.attention %{{.*}}, %{{.*}}, %{{.*}} into %{{.*}}, %{{.*}} {causal, scale = 5.000000e-01 : f32}
  exec.attention %q, %k, %k into %o, %lse {causal, scale = 0.5 : f32}
    : memref<2x4x2x8xf32>, memref<2x4x1x8xf32>, memref<2x4x1x8xf32>, memref<2x4x2x8xf32>, memref<2x2x4xf32>
  // CHECK: exec.attention_grad {{.*}} workspace %{{.*}} : memref<256xi8>
  exec.attention_grad %q, %k, %k, %o, %lse, %o into %q, %dk, %dk workspace %ws : memref<256xi8> {scale = 0.5 : f32}
    : memref<2x4x2x8xf32>, memref<2x4x1x8xf32>, memref<2x4x1x8xf32>, memref<2x4x2x8xf32>, memref<2x2x4xf32>,
      memref<2x4x2x8xf32>, memref<2x4x2x8xf32>, memref<2x4x1x8xf32>, memref<2x4x1x8xf32>
  %e = exec.alloc : memref<16x8xf32>
  %x = exec.alloc : memref<2x4x8xf32>
  // CHECK: exec.embedding %{{.*}}, %{{.*}} into
  exec.embedding %e, %ids into %x : memref<16x8xf32>, memref<2x4xi64>, memref<2x4x8xf32>
  // CHECK: exec.embedding_grad
  exec.embedding_grad %ids, %x into %e : memref<2x4xi64>, memref<2x4x8xf32>, memref<16x8xf32>
  %rows = exec.view %x[0] : memref<2x4x8xf32> to memref<8x8xf32>
  %labels = exec.view %ids[0] : memref<2x4xi64> to memref<8xi64>
  %loss = exec.alloc : memref<f32>
  // CHECK: exec.cross_entropy %{{.*}}, %{{.*}} seed %{{.*}} : memref<f32> into %{{.*}} grad
  exec.cross_entropy %rows, %labels seed %seed : memref<f32> into %loss grad %rows : memref<8x8xf32>
    : memref<8x8xf32>, memref<8xi64>, memref<f32>
  // CHECK: exec.linear_cross_entropy %{{.*}}, %{{.*}}, %{{.*}} seed
  // CHECK-SAME: {chunk_rows = 8 : i64, transpose_weight}
  exec.linear_cross_entropy %rows, %e, %labels seed %seed : memref<f32> into %loss grad %rows, %e : memref<8x8xf32>, memref<16x8xf32>
    workspace %ws : memref<256xi8> {chunk_rows = 8, transpose_weight}
    : memref<8x8xf32>, memref<16x8xf32>, memref<8xi64>, memref<f32>
  // CHECK: exec.loss %{{.*}} {denominator = "labels"} : memref<f32>
  exec.loss %loss {denominator = "labels"} : memref<f32>
  // CHECK: exec.clip_grad_norm
  exec.clip_grad_norm
  // CHECK: exec.optimizer @h.0
  exec.optimizer @h.0
  return
}
