// RUN: shardonnx-opt %s -verify-diagnostics -split-input-file

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
// expected-error @+1 {{@b at 72 is not aligned to 256 elements}}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 72 size 8]

// -----

nn.parameter @big : tensor<300xf32> trainable {onnx_name = "big"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
// expected-error @+1 {{@b at 256 overlaps the parameter before it, which ends at 300}}
fsdp.unit @u sharded f32 reduce f32 length 512 [@big at 0 size 300, @b at 256 size 8]

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
// expected-error @+1 {{@b ends at 264, beyond the trainable length 256}}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64, @b at 256 size 8]

// -----

// expected-error @+1 {{frozen length 100 is not a multiple of 256}}
fsdp.unit @u sharded f32 reduce f32 length 0 [] frozen 100 []

// -----

// expected-error @+1 {{dtype 'i32' is not f32, bf16 or f16}}
fsdp.unit @u sharded i32 reduce f32 length 0 []

// -----

// expected-error @+1 {{@nowhere is not an nn.parameter}}
fsdp.unit @u sharded f32 reduce f32 length 256 [@nowhere at 0 size 8]

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
// expected-error @+1 {{@w has 64 elements, its interval 60}}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 60]

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
// expected-error @+1 {{holds @w twice}}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @w at 256 size 64]

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
// expected-error @+1 {{@w is empty}}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 0]

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
// expected-error @+1 {{@frozen is frozen, but in the trainable section}}
fsdp.unit @u sharded f32 reduce f32 length 256 [@frozen at 0 size 8]

// -----

func.func @f() {
  // expected-error @+1 {{@u is not an fsdp.unit}}
  fsdp.all_gather_start @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64]
func.func @f() {
  %u = fsdp.all_gather @u
  // expected-error @+1 {{@b is not in unit @u}}
  %b = fsdp.view %u[@b] : tensor<8xf32>
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded bf16 reduce f32 length 256 [@w at 0 size 64]
func.func @f() {
  %u = fsdp.all_gather @u
  // expected-error @+1 {{result is 'tensor<8x8xf32>', but @w in its unit is 'tensor<8x8xbf16>'}}
  %w = fsdp.view %u[@w] : tensor<8x8xf32>
  return
}

// -----

func.func @f(%u: !fsdp.gathered) {
  // expected-error @+1 {{operand is not the result of a gather}}
  %w = fsdp.view %u[@w] : tensor<8x8xf32>
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f(%dw: tensor<8x8xf32>) {
  // expected-error @+1 {{reduces 1 of the 2 trainable parameters of @u}}
  fsdp.reduce_scatter @u [@w](%dw : tensor<8x8xf32>)
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f(%dw: tensor<8x8xf32>, %db: tensor<8xf32>) {
  // expected-error @+1 {{has @b where unit @u has @w}}
  fsdp.reduce_scatter @u [@b, @w](%db, %dw : tensor<8xf32>, tensor<8x8xf32>)
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f(%dw: tensor<8x8xf32>) {
  // expected-error @+1 {{names 2 parameters for 1 gradients}}
  fsdp.reduce_scatter @u [@w, @b](%dw : tensor<8x8xf32>)
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f(%dw: tensor<8x8xbf16>, %db: tensor<8xf32>) {
  // expected-error @+1 {{gradient of @w is 'tensor<8x8xbf16>', not 'tensor<8x8xf32>'}}
  fsdp.reduce_start @u [@w, @b](%dw, %db : tensor<8x8xbf16>, tensor<8xf32>)
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f(%dw: tensor<8x8xf32>, %db: tensor<8xf32>) {
  // expected-error @+1 {{does not suit the sharded unit @u}}
  fsdp.all_reduce @u [@w, @b](%dw, %db : tensor<8x8xf32>, tensor<8xf32>)
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 0 [] frozen 256 [@frozen at 0 size 8]
func.func @f() {
  // expected-error @+1 {{unit @u has nothing to train}}
  fsdp.optimizer @u
  return
}

// -----

// expected-error @+1 {{reshard_group 1 wants reshard_after_forward and two ranks or more}}
fsdp.unit @u sharded f32 reduce f32 length 0 [] reshard_after_forward reshard_group 1

// -----

// expected-error @+1 {{reshard_group 4 wants reshard_after_forward and two ranks or more}}
fsdp.unit @u sharded f32 reduce f32 length 0 [] reshard_group 4

// -----

// expected-error @+1 {{is kept, so it is sharded and does not reshard}}
fsdp.unit @u sharded f32 reduce f32 length 0 [] reshard_after_forward kept

// -----

// expected-error @+1 {{is kept, so it is sharded and does not reshard}}
fsdp.unit @u replicated f32 reduce f32 length 0 [] kept
