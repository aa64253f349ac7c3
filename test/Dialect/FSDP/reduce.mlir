// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics -fsdp-reduce | FileCheck %s

nn.parameter @w : tensor<8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 8, @b at 256 size 8]
// CHECK-LABEL: func.func @microbatch
func.func @microbatch(%x: tensor<8xf32>) {
  // Right behind the last gradient, in the order of the unit; a narrow one is
  // widened.
  // CHECK:      %[[DB:.*]] = nn.neg
  // CHECK-NEXT: %[[NARROW:.*]] = nn.cast
  // CHECK-NEXT: %[[DW:.*]] = nn.cast %[[NARROW]] {place = #nn.place<@u>} : tensor<8xbf16> -> tensor<8xf32>
  // CHECK-NEXT: fsdp.reduce_scatter @u [@w, @b](%[[DW]], %[[DB]] : tensor<8xf32>, tensor<8xf32>)
  // CHECK-NEXT: nn.relu
  // CHECK-NOT:  nn.grad
  %db = nn.neg %x : (tensor<8xf32>) -> tensor<8xf32>
  %dw = nn.cast %x : tensor<8xf32> -> tensor<8xbf16>
  %0 = nn.relu %x : (tensor<8xf32>) -> tensor<8xf32>
  nn.grad @b, %db : tensor<8xf32>
  nn.grad @w, %dw : tensor<8xbf16>
  return
}

// -----

nn.parameter @w : tensor<8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 8]
func.func @microbatch(%x: tensor<8xf32>) {
  nn.grad @w, %x : tensor<8xf32>
  // expected-error @+1 {{is the second gradient of @w}}
  nn.grad @w, %x : tensor<8xf32>
  return
}

// -----

nn.parameter @w : tensor<8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
// expected-error @+1 {{trains @b, which gets no gradient}}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 8, @b at 256 size 8]
func.func @microbatch(%x: tensor<8xf32>) {
  nn.grad @w, %x : tensor<8xf32>
  return
}
