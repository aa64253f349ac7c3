// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics -fsdp-split-microbatch | FileCheck %s

nn.parameter @a : tensor<8xf32> trainable {onnx_name = "a"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@a at 0 size 8]
// CHECK-LABEL: func.func @first_microbatch
// CHECK:         fsdp.reduce_start @u [@a](%{{.*}} : tensor<8xf32>){{$}}
// CHECK-LABEL: func.func @next_microbatch
// CHECK:         fsdp.reduce_start @u [@a](%{{.*}} : tensor<8xf32>) {accumulate}
// CHECK-NOT:   func.func @microbatch
func.func @microbatch(%x: tensor<8xf32>) {
  fsdp.grad_acquire @u
  fsdp.reduce_start @u [@a](%x : tensor<8xf32>)
  return
}

// -----

// expected-error @+1 {{has no @microbatch to split}}
module {}

// -----

// Unsharded accumulation: the next microbatches add to the gradients, and the
// reduction sums them up anew.
// CHECK-LABEL: func.func @first_microbatch
// CHECK:         fsdp.reduce_start @u [@a](%{{.*}} : tensor<8xf32>){{$}}
// CHECK-LABEL: func.func @next_microbatch
// CHECK:         fsdp.reduce_start @u [@a](%{{.*}} : tensor<8xf32>) {accumulate_unsharded}
module attributes {fsdp.unsharded_accumulation} {
  nn.parameter @a : tensor<8xf32> trainable {onnx_name = "a"}
  fsdp.unit @u sharded f32 reduce f32 length 256 [@a at 0 size 8]
  func.func @microbatch(%x: tensor<8xf32>) {
    fsdp.grad_acquire @u
    fsdp.reduce_start @u [@a](%x : tensor<8xf32>)
    return
  }
}
