// RUN: shardonnx-opt %s | shardonnx-opt | FileCheck %s
// RUN: shardonnx-opt --mlir-print-op-generic %s | shardonnx-opt | FileCheck %s

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}

// CHECK:      fsdp.unit @u sharded bf16 reduce f32 length 512 [
// CHECK-NEXT:   @w at 0 size 64,
// CHECK-NEXT:   @b at 256 size 8
// CHECK-NEXT: ] frozen 256 [
// CHECK-NEXT:   @frozen at 0 size 8
// CHECK-NEXT: ] reshard_after_forward
fsdp.unit @u sharded bf16 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8] frozen 256 [@frozen at 0 size 8] reshard_after_forward
// CHECK: fsdp.unit @copy replicated f32 reduce f32 length 0 []
fsdp.unit @copy replicated f32 reduce f32 length 0 []

// CHECK-LABEL: func.func @sync
func.func @sync(%dw: tensor<8x8xf32>, %db: tensor<8xf32>) -> tensor<8x8xbf16> {
  // CHECK: %[[U:.*]] = fsdp.all_gather @u
  %u = fsdp.all_gather @u
  // CHECK: fsdp.view %[[U]][@w] : tensor<8x8xbf16>
  %w = fsdp.view %u[@w] : tensor<8x8xbf16>
  // CHECK: fsdp.view %[[U]][@frozen] : tensor<8xbf16>
  %f = fsdp.view %u[@frozen] : tensor<8xbf16>
  %0 = nn.add %w, %f : (tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<8x8xbf16>
  // CHECK: fsdp.free %[[U]]
  fsdp.free %u
  // CHECK: fsdp.reduce_scatter @u [@w, @b](%{{.*}}, %{{.*}} : tensor<8x8xf32>, tensor<8xf32>)
  fsdp.reduce_scatter @u [@w, @b](%dw, %db : tensor<8x8xf32>, tensor<8xf32>)
  return %0 : tensor<8x8xbf16>
}

// CHECK-LABEL: func.func @async
func.func @async(%dw: tensor<8x8xf32>, %db: tensor<8xf32>) {
  // CHECK: fsdp.all_gather_start @u
  fsdp.all_gather_start @u
  // CHECK: fsdp.all_gather_wait @u
  %u = fsdp.all_gather_wait @u
  fsdp.free %u
  // CHECK: fsdp.grad_acquire @u
  fsdp.grad_acquire @u
  // CHECK: fsdp.reduce_start @u [@w, @b](%{{.*}}, %{{.*}} : tensor<8x8xf32>, tensor<8xf32>) {accumulate}
  fsdp.reduce_start @u [@w, @b](%dw, %db : tensor<8x8xf32>, tensor<8xf32>) {accumulate}
  // CHECK: fsdp.reduce_wait @u
  fsdp.reduce_wait @u
  // CHECK: fsdp.clip_grad_norm
  fsdp.clip_grad_norm
  // CHECK: fsdp.optimizer @u
  fsdp.optimizer @u
  return
}
