// RUN: shardonnx-opt %s -split-input-file -fsdp-make-update | FileCheck %s

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

// -----

// Muon's matrices are begun four units ahead; each unit's are done before its
// other parameters.
nn.parameter @m0 : tensor<16x16xf32> trainable {onnx_name = "m0"}
nn.parameter @m1 : tensor<16x16xf32> trainable {onnx_name = "m1"}
nn.parameter @m2 : tensor<16x16xf32> trainable {onnx_name = "m2"}
nn.parameter @m3 : tensor<16x16xf32> trainable {onnx_name = "m3"}
nn.parameter @m4 : tensor<16x16xf32> trainable {onnx_name = "m4"}
nn.parameter @n : tensor<8xf32> trainable {onnx_name = "n"}
fsdp.unit @u0 sharded f32 reduce f32 length 256 [@m0 at 0 size 256] matrices 256
fsdp.unit @u1 sharded f32 reduce f32 length 256 [@m1 at 0 size 256] matrices 256
fsdp.unit @plain sharded f32 reduce f32 length 256 [@n at 0 size 8]
fsdp.unit @u2 sharded f32 reduce f32 length 256 [@m2 at 0 size 256] matrices 256
fsdp.unit @u3 sharded f32 reduce f32 length 256 [@m3 at 0 size 256] matrices 256
fsdp.unit @u4 sharded f32 reduce f32 length 256 [@m4 at 0 size 256] matrices 256

// CHECK-LABEL: func.func @update()
// CHECK-NEXT:    fsdp.clip_grad_norm
// CHECK-NEXT:    fsdp.muon_start @u0
// CHECK-NEXT:    fsdp.muon_start @u1
// CHECK-NEXT:    fsdp.muon_start @u2
// CHECK-NEXT:    fsdp.muon_start @u3
// CHECK-NEXT:    fsdp.muon_finish @u0
// CHECK-NEXT:    fsdp.optimizer @u0
// CHECK-NEXT:    fsdp.muon_start @u4
// CHECK-NEXT:    fsdp.muon_finish @u1
// CHECK-NEXT:    fsdp.optimizer @u1
// CHECK-NEXT:    fsdp.optimizer @plain
// CHECK-NEXT:    fsdp.muon_finish @u2
