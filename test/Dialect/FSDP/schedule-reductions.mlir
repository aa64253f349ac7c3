// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics -fsdp-schedule-reductions | FileCheck %s
// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics -fsdp-schedule-reductions=gradient-buffers=1 | FileCheck %s --check-prefix=ONE
// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics -fsdp-schedule-reductions=unsharded=true | FileCheck %s --check-prefix=WHOLE

nn.parameter @a : tensor<8xf32> trainable {onnx_name = "a"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @c : tensor<8xf32> trainable {onnx_name = "c"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@a at 0 size 8]
fsdp.unit @v sharded f32 reduce f32 length 256 [@b at 0 size 8]
fsdp.unit @w replicated f32 reduce f32 length 256 [@c at 0 size 8]

// Two gradient buffers: the third unit waits for the first one's reduction.
// CHECK-LABEL: func.func @microbatch
// CHECK:         fsdp.grad_acquire @u
// CHECK-NEXT:    nn.neg
// CHECK-NEXT:    fsdp.reduce_start @u
// CHECK-NEXT:    fsdp.grad_acquire @v
// CHECK-NEXT:    nn.exp
// CHECK-NEXT:    fsdp.reduce_start @v
// CHECK-NEXT:    fsdp.reduce_wait @u
// CHECK-NEXT:    fsdp.grad_acquire @w
// CHECK-NEXT:    nn.log
// CHECK-NEXT:    nn.reshape
// CHECK-NEXT:    fsdp.reduce_start @w
// CHECK-NEXT:    return
// CHECK-LABEL: func.func @update
// CHECK-NEXT:    fsdp.reduce_wait @v
// CHECK-NEXT:    fsdp.reduce_wait @w
// CHECK-NEXT:    fsdp.clip_grad_norm

// ONE:      fsdp.reduce_start @u
// ONE-NEXT: fsdp.reduce_wait @u
// ONE-NEXT: fsdp.grad_acquire @v

// Every unit has a buffer of its own over the step: nothing is awaited in it.
// WHOLE:       module attributes {fsdp.unsharded_accumulation}
// WHOLE-LABEL: func.func @microbatch
// WHOLE-NOT:     fsdp.reduce_wait
// WHOLE-LABEL: func.func @update
// WHOLE-NEXT:    fsdp.reduce_wait @u
// WHOLE-NEXT:    fsdp.reduce_wait @v
// WHOLE-NEXT:    fsdp.reduce_wait @w
func.func @microbatch(%x: tensor<8xf32>) {
  %0 = nn.neg %x : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.reduce_scatter @u [@a](%0 : tensor<8xf32>)
  %1 = nn.exp %x : (tensor<8xf32>) -> tensor<8xf32>
  fsdp.reduce_scatter @v [@b](%1 : tensor<8xf32>)
  %2 = nn.log %x : (tensor<8xf32>) -> tensor<8xf32>
  // A reshape writes nothing: the logarithm is the first writer.
  %3 = nn.reshape %2 : tensor<8xf32> -> tensor<8xf32>
  fsdp.all_reduce @w [@c](%3 : tensor<8xf32>)
  return
}
func.func @update() {
  fsdp.clip_grad_norm
  fsdp.optimizer @u
  fsdp.optimizer @v
  fsdp.optimizer @w
  return
}

// -----

nn.parameter @a : tensor<8xf32> trainable {onnx_name = "a"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@a at 0 size 8]
// expected-error @+1 {{reduces gradients, but there is no @update to await them}}
func.func @microbatch(%x: tensor<8xf32>) {
  fsdp.reduce_scatter @u [@a](%x : tensor<8xf32>)
  return
}
