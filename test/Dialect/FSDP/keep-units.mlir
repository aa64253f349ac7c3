// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-shard=strategy=shard_opt -fsdp-schedule | FileCheck %s
// RUN: shardonnx-opt %s -fsdp-keep-units | FileCheck %s --check-prefix=ONE

// Units are awaited in the order of need, and neither gathered nor freed, in
// what reads them.
// CHECK: fsdp.unit @root sharded f32 reduce f32 length 256 [
// CHECK: ] kept
// CHECK-LABEL: func.func @first_microbatch
// CHECK-NOT:     fsdp.all_gather_start
// CHECK-NOT:     fsdp.free
// CHECK:         fsdp.all_gather_wait @root
// CHECK:         fsdp.all_gather_wait @h.0
// CHECK:         fsdp.all_gather_wait @h.1
// CHECK-NOT:     fsdp.all_gather
// CHECK-NOT:     fsdp.free
// CHECK-LABEL: func.func @next_microbatch
// CHECK-NOT:     fsdp.all_gather_start
// CHECK-NOT:     fsdp.free
// CHECK-LABEL: func.func @eval
// CHECK-NOT:     fsdp.all_gather_start
// CHECK-NOT:     fsdp.free
// CHECK:         fsdp.all_gather_wait @root

// @update: nobody reads the units any more, then each is written and gathered.
// CHECK-LABEL: func.func @update
// CHECK-DAG:     %[[ROOT:.*]] = fsdp.all_gather_wait @root
// CHECK-DAG:     fsdp.free %[[ROOT]]
// CHECK-DAG:     %[[H0:.*]] = fsdp.all_gather_wait @h.0
// CHECK-DAG:     fsdp.free %[[H0]]
// CHECK:         fsdp.clip_grad_norm
// CHECK-NEXT:    fsdp.optimizer @root
// CHECK-NEXT:    fsdp.all_gather_start @root
// CHECK-NEXT:    fsdp.optimizer @h.0
// CHECK-NEXT:    fsdp.all_gather_start @h.0
// CHECK-NEXT:    fsdp.optimizer @h.1
// CHECK-NEXT:    fsdp.all_gather_start @h.1
// CHECK-NEXT:    return

// A unit that is gathered twice is awaited once; one without an optimizer stays
// for good; others are left alone.
nn.parameter @a : tensor<8xf32> trainable {onnx_name = "a"}
nn.parameter @b : tensor<8xf32> {onnx_name = "b"}
nn.parameter @c : tensor<8xf32> trainable {onnx_name = "c"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@a at 0 size 8] kept
fsdp.unit @frozen sharded f32 reduce f32 length 0 [] frozen 256 [@b at 0 size 8] kept
fsdp.unit @v sharded f32 reduce f32 length 256 [@c at 0 size 8] reshard_after_forward
// ONE-LABEL: func.func @microbatch
// ONE-NEXT:    %[[U:.*]] = fsdp.all_gather_wait @u
// ONE-NEXT:    fsdp.view %[[U]][@a]
// ONE-NEXT:    fsdp.all_gather_wait @frozen
// ONE-NEXT:    %[[V:.*]] = fsdp.all_gather @v
// ONE-NEXT:    fsdp.free %[[V]]
// ONE-NEXT:    fsdp.view %[[U]][@a]
// ONE-NEXT:    return
func.func @microbatch() {
  %u = fsdp.all_gather @u
  %a = fsdp.view %u[@a] : tensor<8xf32>
  fsdp.free %u
  %b = fsdp.all_gather @frozen
  fsdp.free %b
  %v = fsdp.all_gather @v
  fsdp.free %v
  %again = fsdp.all_gather @u
  %a2 = fsdp.view %again[@a] : tensor<8xf32>
  fsdp.free %again
  return
}
// ONE-LABEL: func.func @update
// ONE-NEXT:    %[[W:.*]] = fsdp.all_gather_wait @u
// ONE-NEXT:    fsdp.free %[[W]]
// ONE-NEXT:    fsdp.clip_grad_norm
// ONE-NEXT:    fsdp.optimizer @u
// ONE-NEXT:    fsdp.all_gather_start @u
// ONE-NEXT:    fsdp.optimizer @v
// ONE-NEXT:    return
func.func @update() {
  fsdp.clip_grad_norm
  fsdp.optimizer @u
  fsdp.optimizer @v
  return
}
