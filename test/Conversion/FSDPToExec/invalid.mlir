// RUN: shardonnx-opt %s -fsdp-to-exec -split-input-file -verify-diagnostics

func.func @eval(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{is in no kernel: run the fusion first}}
  %y = nn.add %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @eval(%x: tensor<1x4x2x8xf32>, %s: tensor<2xf32>) {
  // expected-error @+1 {{is not taken apart: run nn-decompose first}}
  %0:2 = nn.attention %x, %x, %x sink(%s) {scale = 1.0 : f32} : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<2xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
  return
}

// -----

fsdp.unit @u sharded f32 reduce f32 length 0 []
func.func @eval() {
  // expected-error @+1 {{is not asynchronous: run fsdp-schedule first}}
  %0 = fsdp.all_gather @u
  return
}

// -----

func.func @first_microbatch(%x: tensor<4x8xf32>) {
  return
}
// expected-error @+1 {{input #0 is 'tensor<2x8xf32>', was 'tensor<4x8xf32>'}}
func.func @eval(%x: tensor<2x8xf32>) {
  return
}

// -----

nn.parameter @w : tensor<8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 8]
func.func @first_microbatch(%x: tensor<8xf32>) {
  // expected-error @+1 {{has no grad_acquire of @u before it}}
  fsdp.reduce_start @u [@w] (%x : tensor<8xf32>)
  return
}
