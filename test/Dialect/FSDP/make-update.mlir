// RUN: shardonnx-opt %s -fsdp-make-update | FileCheck %s

// Every unit that trains, in order, behind the clip; a frozen one has no state
// that an optimizer could change.
nn.parameter @a : tensor<8xf32> trainable {onnx_name = "a"}
nn.parameter @b : tensor<8xf32> {onnx_name = "b"}
nn.parameter @c : tensor<8xf32> trainable {onnx_name = "c"}
fsdp.unit @first sharded f32 reduce f32 length 256 [@a at 0 size 8]
fsdp.unit @frozen sharded f32 reduce f32 length 0 [] frozen 256 [@b at 0 size 8]
fsdp.unit @last sharded f32 reduce f32 length 256 [@c at 0 size 8]

// CHECK-LABEL: func.func @update()
// CHECK-NEXT:    fsdp.clip_grad_norm
// CHECK-NEXT:    fsdp.optimizer @first
// CHECK-NEXT:    fsdp.optimizer @last
// CHECK-NEXT:    return
