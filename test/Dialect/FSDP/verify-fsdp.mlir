// RUN: shardonnx-opt %s -verify-fsdp -verify-diagnostics -split-input-file

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  %u = fsdp.all_gather @u
  %w = fsdp.view %u[@w] : tensor<8x8xf32>
  fsdp.free %u
  // expected-error @+1 {{reads unit @u after its free}}
  %0 = nn.relu %w : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

// A transpose may lie in the unit's own memory.
nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  %u = fsdp.all_gather @u
  %w = fsdp.view %u[@w] : tensor<8x8xf32>
  %t = nn.transpose %w {permutation = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  fsdp.free %u
  // expected-error @+1 {{reads unit @u after its free}}
  %0 = nn.relu %t : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  %u = fsdp.all_gather @u
  fsdp.free %u
  // expected-error @+1 {{reads unit @u after its free}}
  %w = fsdp.view %u[@w] : tensor<8x8xf32>
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  %u = fsdp.all_gather @u
  fsdp.free %u
  // expected-error @+1 {{unit @u is freed twice}}
  fsdp.free %u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  // expected-error @+1 {{unit @u is never freed}}
  %u = fsdp.all_gather @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  %u = fsdp.all_gather @u
  // expected-error @+1 {{unit @u is gathered already}}
  %v = fsdp.all_gather @u
  fsdp.free %u
  fsdp.free %v
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  %u = fsdp.all_gather @u
  // expected-error @+1 {{unit @u is gathered already}}
  fsdp.all_gather_start @u
  fsdp.free %u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  fsdp.all_gather_start @u
  // expected-error @+1 {{unit @u was started already}}
  fsdp.all_gather_start @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  // expected-error @+1 {{no gather of unit @u was started}}
  %u = fsdp.all_gather_wait @u
  fsdp.free %u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
// expected-error @+1 {{the gather of unit @u is started and never awaited}}
func.func @f() {
  fsdp.all_gather_start @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f(%dw: tensor<8x8xf32>, %db: tensor<8xf32>) {
  fsdp.reduce_scatter @u [@w, @b](%dw, %db : tensor<8x8xf32>, tensor<8xf32>)
  // expected-error @+1 {{unit @u is reduced twice}}
  fsdp.reduce_scatter @u [@w, @b](%dw, %db : tensor<8x8xf32>, tensor<8xf32>)
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64]
fsdp.unit @v sharded f32 reduce f32 length 256 [@b at 0 size 8]
// expected-error @+1 {{never reduces the gradients of unit @v}}
func.func @f(%dw: tensor<8x8xf32>) {
  fsdp.reduce_scatter @u [@w](%dw : tensor<8x8xf32>)
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f(%dw: tensor<8x8xf32>, %db: tensor<8xf32>) {
  // expected-error @+1 {{unit @u was not acquired before its reduction}}
  fsdp.reduce_start @u [@w, @b](%dw, %db : tensor<8x8xf32>, tensor<8xf32>)
  fsdp.reduce_wait @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f(%dy: tensor<8x8xf32>, %db: tensor<8xf32>) {
  // expected-error @+1 {{writes a gradient of unit @u before its acquire}}
  %dw = nn.relu %dy : (tensor<8x8xf32>) -> tensor<8x8xf32>
  fsdp.grad_acquire @u
  fsdp.reduce_start @u [@w, @b](%dw, %db : tensor<8x8xf32>, tensor<8xf32>)
  fsdp.reduce_wait @u
  return
}

// -----

// A reshape writes nothing: what it reshapes does.
nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f(%dy: tensor<64xf32>, %db: tensor<8xf32>) {
  // expected-error @+1 {{writes a gradient of unit @u before its acquire}}
  %0 = nn.relu %dy : (tensor<64xf32>) -> tensor<64xf32>
  fsdp.grad_acquire @u
  %dw = nn.reshape %0 : tensor<64xf32> -> tensor<8x8xf32>
  fsdp.reduce_start @u [@w, @b](%dw, %db : tensor<8x8xf32>, tensor<8xf32>)
  fsdp.reduce_wait @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  // expected-error @+1 {{unit @u is acquired and never reduced}}
  fsdp.grad_acquire @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  fsdp.grad_acquire @u
  // expected-error @+1 {{unit @u is acquired already}}
  fsdp.grad_acquire @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f() {
  // expected-error @+1 {{no reduction of unit @u was started}}
  fsdp.reduce_wait @u
  return
}

// -----

// expected-error @+1 {{no @update awaits the reduction of unit @u}}
module {
nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f(%dw: tensor<8x8xf32>, %db: tensor<8xf32>) {
  fsdp.grad_acquire @u
  fsdp.reduce_start @u [@w, @b](%dw, %db : tensor<8x8xf32>, tensor<8xf32>)
  return
}
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @f(%dw: tensor<8x8xf32>, %db: tensor<8xf32>) {
  fsdp.grad_acquire @u
  fsdp.reduce_start @u [@w, @b](%dw, %db : tensor<8x8xf32>, tensor<8xf32>)
  return
}
func.func @update() {
  // expected-error @+1 {{reads the gradients of unit @u before its reduce_wait}}
  fsdp.clip_grad_norm
  fsdp.reduce_wait @u
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @update() {
  // expected-error @+1 {{no reduction of unit @u is open here}}
  fsdp.reduce_wait @u
  fsdp.clip_grad_norm
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @update() {
  // expected-error @+1 {{stands before the clip}}
  fsdp.optimizer @u
  fsdp.clip_grad_norm
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @update() {
  fsdp.clip_grad_norm
  // expected-error @+1 {{stands here twice}}
  fsdp.clip_grad_norm
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
func.func @update() {
  fsdp.clip_grad_norm
  fsdp.optimizer @u
  // expected-error @+1 {{updates unit @u twice}}
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
nn.parameter @b : tensor<8xf32> trainable {onnx_name = "b"}
nn.parameter @frozen : tensor<8xf32> {onnx_name = "frozen"}
fsdp.unit @u sharded f32 reduce f32 length 512 [@w at 0 size 64, @b at 256 size 8]
// expected-error @+1 {{never updates unit @u}}
func.func @update() {
  fsdp.clip_grad_norm
  return
}

// -----

// A kept unit is whole where a function begins, once it is awaited.
nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64] kept
func.func @eval() {
  %u = fsdp.all_gather_wait @u
  %w = fsdp.view %u[@w] : tensor<8x8xf32>
  return
}
func.func @update() {
  %u = fsdp.all_gather_wait @u
  fsdp.free %u
  fsdp.clip_grad_norm
  fsdp.optimizer @u
  fsdp.all_gather_start @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64] kept
func.func @eval() {
  %u = fsdp.all_gather_wait @u
  // expected-error @+1 {{frees unit @u, which is kept, outside @update}}
  fsdp.free %u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64] kept
func.func @eval() {
  // expected-error @+1 {{gathers unit @u, which is kept, outside @update}}
  fsdp.all_gather_start @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64] kept
func.func @update() {
  %u = fsdp.all_gather_wait @u
  fsdp.free %u
  // expected-error @+1 {{gathers unit @u, which is kept, before its optimizer}}
  fsdp.all_gather_start @u
  fsdp.clip_grad_norm
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64] kept
func.func @update() {
  %u = fsdp.all_gather_wait @u
  fsdp.clip_grad_norm
  // expected-error @+1 {{writes unit @u, which is read}}
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64] kept
func.func @eval() {
  %u = fsdp.all_gather_wait @u
  %w = fsdp.view %u[@w] : tensor<8x8xf32>
  return
}
// expected-error @+1 {{never gathers unit @u, which is kept}}
func.func @update() {
  fsdp.clip_grad_norm
  fsdp.optimizer @u
  return
}

// -----

// What @update gathers early is awaited where the step begins, and there alone.
nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64] early
func.func @first_microbatch() {
  %u = fsdp.all_gather_wait @u
  fsdp.free %u
  return
}
func.func @eval() {
  // expected-error @+1 {{no gather of unit @u was started}}
  %u = fsdp.all_gather_wait @u
  fsdp.free %u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64] early
// expected-error @+1 {{the gather of unit @u is started and never awaited}}
func.func @first_microbatch() {
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64] early
func.func @update() {
  fsdp.clip_grad_norm
  // expected-error @+1 {{gathers unit @u early, before its optimizer}}
  fsdp.all_gather_start @u
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<8x8xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 64] early
// expected-error @+1 {{never gathers unit @u early}}
func.func @update() {
  fsdp.clip_grad_norm
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<16x16xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 256] matrices 256
func.func @update() {
  fsdp.clip_grad_norm
  fsdp.muon_start @u
  // expected-error @+1 {{has no muon_finish of unit @u before it}}
  fsdp.optimizer @u
  fsdp.muon_finish @u
  return
}

// -----

nn.parameter @w : tensor<16x16xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 256] matrices 256
func.func @update() {
  fsdp.clip_grad_norm
  // expected-error @+1 {{has no muon_start of unit @u before it that is open}}
  fsdp.muon_finish @u
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<16x16xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 256] matrices 256
func.func @update() {
  fsdp.clip_grad_norm
  // expected-error @+1 {{has no muon_finish of unit @u before it}}
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<16x16xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 256] matrices 256
func.func @update() {
  fsdp.clip_grad_norm
  fsdp.muon_start @u
  fsdp.muon_finish @u
  // expected-error @+1 {{has no muon_start of unit @u before it that is open}}
  fsdp.muon_finish @u
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<16x16xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 256] matrices 256
func.func @update() {
  fsdp.clip_grad_norm
  fsdp.muon_start @u
  // expected-error @+1 {{starts unit @u twice}}
  fsdp.muon_start @u
  fsdp.muon_finish @u
  fsdp.optimizer @u
  return
}

// -----

nn.parameter @w : tensor<16x16xf32> trainable {onnx_name = "w"}
fsdp.unit @u sharded f32 reduce f32 length 256 [@w at 0 size 256]
func.func @update() {
  fsdp.clip_grad_norm
  // expected-error @+1 {{is of unit @u, without matrices}}
  fsdp.muon_start @u
  fsdp.optimizer @u
  return
}
