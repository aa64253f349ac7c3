// RUN: shardonnx-opt %s -exec-plan-memory -verify-exec -split-input-file | FileCheck %s

// One rank and one microbatch: %a is dead when @u's gradients are acquired, so
// they take its place; %b lives on. The buffers do not move where that is for
// nothing.
// CHECK: exec.space private bytes 2048 lower_bound 2048
// CHECK: fsdp.unit @u {{.*}}exec.grad_place = [[A:[0-9]+]] : i64
// CHECK: exec.buffer private [[A]] : memref<256xf32>
// CHECK: exec.zero
fsdp.unit @u sharded f32 reduce f32 length 256 []
func.func @first_microbatch() {
  %a = exec.alloc : memref<256xf32>
  %b = exec.alloc : memref<256xf32>
  exec.zero %a : memref<256xf32>
  exec.copy %a into %b : memref<256xf32>, memref<256xf32>
  %g = exec.buffer gradients @u 0 : memref<256xf32>
  exec.grad_acquire @u
  exec.copy %b into %g : memref<256xf32>, memref<256xf32>
  exec.reduce_start @u
  return
}

// -----

// By size %y would lie between what dies before the gradients are there, and
// these beyond all. So what lives longest lies lowest, and they take one piece.
// CHECK: exec.space private bytes 4608 lower_bound 4608
// CHECK: fsdp.unit @u {{.*}}exec.grad_place = 1536 : i64
// CHECK-DAG: exec.buffer private 1536 : memref<512xf32>
// CHECK-DAG: exec.buffer private 0 : memref<384xf32>
// CHECK-DAG: exec.buffer private 3584 : memref<256xf32>
fsdp.unit @u sharded f32 reduce f32 length 768 []
func.func @first_microbatch() {
  %x = exec.alloc : memref<512xf32>
  %y = exec.alloc : memref<384xf32>
  %w = exec.alloc : memref<256xf32>
  exec.zero %y : memref<384xf32>
  exec.zero %x : memref<512xf32>
  exec.zero %w : memref<256xf32>
  exec.zero %x : memref<512xf32>
  exec.zero %w : memref<256xf32>
  exec.grad_acquire @u
  exec.zero %y : memref<384xf32>
  exec.reduce_start @u
  return
}

// -----

// They live until the update ends, beside what it needs: beyond the space where
// that leaves no room.
// CHECK: exec.space private bytes 1024 lower_bound 1024
// CHECK: fsdp.unit @u {{.*}}exec.grad_place = 1024 : i64
fsdp.unit @u sharded f32 reduce f32 length 256 []
func.func @first_microbatch() {
  exec.grad_acquire @u
  exec.reduce_start @u
  return
}
func.func @update() {
  %a = exec.alloc : memref<256xf32>
  exec.zero %a : memref<256xf32>
  return
}

// -----

// A unit without gradients has no place for them, and programs for GPUs have
// other memory.
// CHECK: fsdp.unit @none {{.*}} {exec.grad_offset = 0 : i64, exec.param_offset = 0 : i64}
fsdp.unit @none sharded f32 reduce f32 length 256 []
func.func @first_microbatch() {
  return
}

// -----

// CHECK: fsdp.unit @gpu {{.*}} {exec.grad_offset = 0 : i64, exec.param_offset = 0 : i64}
module attributes {exec.target = "cuda"} {
  fsdp.unit @gpu sharded f32 reduce f32 length 256 []
  func.func @first_microbatch() {
    exec.grad_acquire @gpu
    exec.reduce_start @gpu
    return
  }
}
