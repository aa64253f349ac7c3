// RUN: shardonnx-opt %s -verify-exec -split-input-file -verify-diagnostics

exec.space private bytes 1024 lower_bound 1024
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
func.func @first_microbatch() {
  // expected-note @+1 {{this}}
  %a = exec.buffer private 0 : memref<64xf32>
  // expected-error @+1 {{overlaps what lives at the same time in the private space}}
  %b = exec.buffer private 192 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  exec.zero %b : memref<64xf32>
  exec.copy %a into %b : memref<64xf32>, memref<64xf32>
  return
}

// -----

exec.space private bytes 256 lower_bound 256
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
func.func @first_microbatch() {
  // expected-error @+1 {{ends at byte 320 of the private space of 256}}
  %a = exec.buffer private 64 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  return
}

// -----

exec.space private bytes 512 lower_bound 256
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
func.func @first_microbatch() {
  // expected-error @+1 {{is not aligned to 64 bytes}}
  %a = exec.buffer private 32 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  return
}

// -----

exec.space private bytes 512 lower_bound 512
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %b = exec.buffer private 256 : memref<64xf32>
  // expected-error @+1 {{reads a buffer that nothing has written}}
  exec.copy %a into %b : memref<64xf32>, memref<64xf32>
  return
}

// -----

exec.space private bytes 0 lower_bound 0
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
func.func @first_microbatch() {
  // expected-error @+1 {{has no place: run exec-plan-memory first}}
  %a = exec.alloc : memref<64xf32>
  return
}

// -----

exec.space private bytes 256 lower_bound 256
exec.space params bytes 1024 lower_bound 1024
exec.space gradients bytes 1024 lower_bound 1024
fsdp.unit @u sharded f32 reduce f32 length 256 [] {exec.param_offset = 0 : i64, exec.grad_offset = 0 : i64}
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %w = exec.buffer params @u 0 : memref<64xf32>
  exec.gather_start @u
  exec.gather_wait @u
  exec.copy %w into %a : memref<64xf32>, memref<64xf32>
  exec.gather_free @u
  // expected-error @+1 {{reads parameters of @u after they were freed}}
  exec.copy %w into %a : memref<64xf32>, memref<64xf32>
  return
}
func.func @next_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %w = exec.buffer params @u 0 : memref<64xf32>
  exec.gather_start @u
  // expected-error @+1 {{reads parameters of @u before their gather was awaited}}
  exec.copy %w into %a : memref<64xf32>, memref<64xf32>
  return
}
func.func @update() {
  %g = exec.buffer gradients @u 0 : memref<64xf32>
  exec.grad_acquire @u
  exec.zero %g : memref<64xf32>
  exec.reduce_start @u
  // expected-error @+1 {{writes gradients of @u outside grad_acquire and reduce_start}}
  exec.zero %g : memref<64xf32>
  return
}
func.func @eval() {
  %w = exec.buffer params @u 0 : memref<64xf32>
  exec.gather_wait @u
  // expected-error @+1 {{writes to params, which is read-only}}
  exec.zero %w : memref<64xf32>
  return
}

// -----

exec.space private bytes 1024 lower_bound 1024
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 1024 lower_bound 1024
// expected-error @+1 {{overlaps what lives at the same time in the private space}}
fsdp.unit @u sharded f32 reduce f32 length 256 [] {exec.grad_offset = 0 : i64, exec.grad_place = 512 : i64}
func.func @first_microbatch() {
  // expected-note @+1 {{this}}
  %a = exec.buffer private 0 : memref<256xf32>
  %g = exec.buffer gradients @u 0 : memref<256xf32>
  exec.zero %a : memref<256xf32>
  exec.grad_acquire @u
  exec.copy %a into %g : memref<256xf32>, memref<256xf32>
  exec.reduce_start @u
  return
}

// -----

exec.space private bytes 2048 lower_bound 2048
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 2048 lower_bound 2048
// expected-error @+1 {{overlaps what lives at the same time in the private space}}
fsdp.unit @u sharded f32 reduce f32 length 512 [] {exec.grad_offset = 0 : i64, exec.slice_place = 1024 : i64}
func.func @first_microbatch() {
  // expected-note @+1 {{this}}
  %a = exec.buffer private 1024 : memref<256xf32>
  exec.zero %a : memref<256xf32>
  exec.grad_acquire @u
  exec.reduce_start @u
  exec.zero %a : memref<256xf32>
  return
}

// -----

exec.space private bytes 1024 lower_bound 1024
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 2048 lower_bound 2048
// expected-error @+1 {{ends at byte 2048 of the private space of 1024}}
fsdp.unit @u sharded f32 reduce f32 length 512 [] {exec.grad_offset = 0 : i64, exec.slice_place = 1024 : i64}
func.func @first_microbatch() {
  exec.grad_acquire @u
  exec.reduce_start @u
  return
}

// -----

exec.space private bytes 0 lower_bound 0
exec.space params bytes 2048 lower_bound 2048
exec.space gradients bytes 0 lower_bound 0
// expected-note @+1 {{this}}
fsdp.unit @u sharded f32 reduce f32 length 256 [] {exec.param_offset = 0 : i64}
// expected-error @+1 {{overlaps what lives at the same time in the params space}}
fsdp.unit @v sharded f32 reduce f32 length 256 [] {exec.param_offset = 512 : i64}
func.func @first_microbatch() {
  exec.gather_start @u
  exec.gather_start @v
  exec.gather_free @u
  exec.gather_free @v
  return
}

// -----

exec.space private bytes 256 lower_bound 256
exec.space params bytes 1024 lower_bound 1024
exec.space gradients bytes 0 lower_bound 0
fsdp.unit @u sharded f32 reduce f32 length 256 [] kept {exec.param_offset = 0 : i64, exec.grad_offset = 0 : i64}
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %w = exec.buffer params @u 0 : memref<64xf32>
  // expected-error @+1 {{reads parameters of @u before their gather was awaited}}
  exec.copy %w into %a : memref<64xf32>, memref<64xf32>
  exec.gather_wait @u
  return
}

// -----

exec.space private bytes 0 lower_bound 0
exec.space params bytes 1024 lower_bound 1024
exec.space gradients bytes 0 lower_bound 0
fsdp.unit @u sharded f32 reduce f32 length 256 [] kept {exec.param_offset = 0 : i64, exec.grad_offset = 0 : i64}
// expected-error @+1 {{frees @u, which is kept, for good}}
func.func @update() {
  exec.gather_wait @u
  exec.gather_free @u
  return
}

// -----

exec.space private bytes 256 lower_bound 256
exec.space params bytes 1024 lower_bound 1024
exec.space gradients bytes 0 lower_bound 0
fsdp.unit @u sharded f32 reduce f32 length 256 [] reshard_after_forward reshard_group 2 {exec.param_offset = 0 : i64, exec.grad_offset = 0 : i64}
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %w = exec.buffer params @u 0 : memref<64xf32>
  exec.gather_start @u
  exec.gather_wait @u
  exec.gather_reshard @u
  // expected-error @+1 {{reads parameters of @u after they were freed}}
  exec.copy %w into %a : memref<64xf32>, memref<64xf32>
  return
}

// -----

// What earlier microbatches left is lost.
module attributes {fsdp.unsharded_accumulation} {
  exec.space private bytes 256 lower_bound 256
  exec.space params bytes 0 lower_bound 0
  exec.space gradients bytes 1024 lower_bound 1024
  fsdp.unit @u sharded f32 reduce f32 length 256 [] {exec.param_offset = 0 : i64, exec.grad_offset = 0 : i64}
  func.func @next_microbatch() {
    %a = exec.buffer private 0 : memref<64xf32>
    %g = exec.buffer gradients @u 0 : memref<64xf32>
    exec.zero %a : memref<64xf32>
    exec.grad_acquire @u
    exec.copy %a into %g accumulate : memref<64xf32>, memref<64xf32>
    // expected-error @+1 {{overwrites gradients of @u of earlier microbatches}}
    exec.copy %a into %g : memref<64xf32>, memref<64xf32>
    exec.reduce_start @u
    return
  }
}

// -----

// The first microbatch has nothing to add to.
module attributes {fsdp.unsharded_accumulation} {
  exec.space private bytes 256 lower_bound 256
  exec.space params bytes 0 lower_bound 0
  exec.space gradients bytes 1024 lower_bound 1024
  fsdp.unit @u sharded f32 reduce f32 length 256 [] {exec.param_offset = 0 : i64, exec.grad_offset = 0 : i64}
  func.func @first_microbatch() {
    %a = exec.buffer private 0 : memref<64xf32>
    %g = exec.buffer gradients @u 0 : memref<64xf32>
    exec.zero %a : memref<64xf32>
    exec.grad_acquire @u
    // expected-error @+1 {{reads gradients of @u that nothing has written}}
    exec.copy %a into %g accumulate : memref<64xf32>, memref<64xf32>
    exec.reduce_start @u
    return
  }
}

// -----

exec.space private bytes 512 lower_bound 512
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
exec.space host bytes 256 lower_bound 256
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %b = exec.buffer private 256 : memref<64xf32>
  %h = exec.buffer host 0 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  exec.offload_start 0 %a into %h : memref<64xf32>
  // expected-error @+1 {{writes to a buffer that is being copied to the host}}
  exec.zero %a : memref<64xf32>
  exec.offload_wait 0 %a : memref<64xf32>
  return
}

// -----

exec.space private bytes 512 lower_bound 512
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
exec.space host bytes 256 lower_bound 256
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %b = exec.buffer private 256 : memref<64xf32>
  %h = exec.buffer host 0 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  exec.offload_start 0 %a into %h : memref<64xf32>
  // expected-error @+1 {{copies back what no offload_wait has left there}}
  exec.reload_start 0 %h into %b : memref<64xf32>
  exec.offload_wait 0 %a : memref<64xf32>
  exec.reload_wait 0 %b : memref<64xf32>
  return
}

// -----

exec.space private bytes 512 lower_bound 512
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
exec.space host bytes 256 lower_bound 256
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %b = exec.buffer private 256 : memref<64xf32>
  %h = exec.buffer host 0 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  exec.offload_start 0 %a into %h : memref<64xf32>
  exec.offload_wait 0 %a : memref<64xf32>
  exec.reload_start 0 %h into %b : memref<64xf32>
  // expected-error @+1 {{reads a buffer that is being copied from the host}}
  exec.copy %b into %b : memref<64xf32>, memref<64xf32>
  exec.reload_wait 0 %b : memref<64xf32>
  return
}

// -----

exec.space private bytes 512 lower_bound 512
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
exec.space host bytes 256 lower_bound 256
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %b = exec.buffer private 256 : memref<64xf32>
  %h = exec.buffer host 0 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  // expected-error @+1 {{begins a copy that nobody waits for}}
  exec.offload_start 0 %a into %h : memref<64xf32>
  return
}

// -----

exec.space private bytes 512 lower_bound 512
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
exec.space host bytes 256 lower_bound 256
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %b = exec.buffer private 256 : memref<64xf32>
  %h = exec.buffer host 0 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  exec.offload_start 0 %a into %h : memref<64xf32>
  // expected-error @+1 {{waits for a copy that nobody has begun}}
  exec.offload_wait 1 %a : memref<64xf32>
  return
}

// -----

exec.space private bytes 512 lower_bound 512
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
exec.space host bytes 256 lower_bound 256
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %b = exec.buffer private 256 : memref<64xf32>
  %h = exec.buffer host 0 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  exec.offload_start 0 %a into %h : memref<64xf32>
  exec.offload_wait 0 %a : memref<64xf32>
  // expected-error @+1 {{ends at byte 320 of the host space of 256}}
  %i = exec.buffer host 64 : memref<64xf32>
  exec.offload_start 1 %a into %i : memref<64xf32>
  exec.offload_wait 1 %a : memref<64xf32>
  return
}

// -----

exec.space private bytes 512 lower_bound 512
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %b = exec.buffer private 256 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  // expected-note @+1 {{since here, and is not awaited}}
  exec.axis_start %a into %b {call = 0, axis = "tensor", parts = 2} : memref<64xf32>, memref<64xf32>
  // expected-error @+1 {{touches what is exchanged along an axis}}
  exec.zero %b : memref<64xf32>
  exec.axis_wait %a into %b {call = 0, axis = "tensor", parts = 2} : memref<64xf32>, memref<64xf32>
  return
}

// -----

exec.space private bytes 512 lower_bound 512
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %b = exec.buffer private 256 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  // expected-error @+1 {{is never awaited}}
  exec.axis_start %a into %b {call = 0, axis = "tensor", parts = 2} : memref<64xf32>, memref<64xf32>
  return
}

// -----

exec.space private bytes 512 lower_bound 512
exec.space params bytes 0 lower_bound 0
exec.space gradients bytes 0 lower_bound 0
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<64xf32>
  %b = exec.buffer private 256 : memref<64xf32>
  exec.zero %a : memref<64xf32>
  // expected-error @+1 {{is not of the first start without a wait}}
  exec.axis_wait %a into %b {call = 0, axis = "tensor", parts = 2} : memref<64xf32>, memref<64xf32>
  return
}
