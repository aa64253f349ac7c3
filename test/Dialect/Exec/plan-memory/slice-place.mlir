// RUN: shardonnx-opt %s -exec-plan-memory -verify-exec -split-input-file | FileCheck %s

// Of 1024 elements one of two ranks owns 512, 2048 bytes of sums, which come to
// be behind reduce_start: %a is dead then, %b, which the update reads, is not
// in the way.
// CHECK: exec.space private bytes 3072 lower_bound 3072
// CHECK: fsdp.unit @u {{.*}}exec.slice_place = [[A:[0-9]+]] : i64
// CHECK: exec.buffer private [[A]] : memref<512xf32>
fsdp.unit @u sharded f32 reduce f32 length 1024 []
func.func @first_microbatch() {
  %a = exec.alloc : memref<512xf32>
  %b = exec.alloc : memref<256xf32>
  %g = exec.buffer gradients @u 0 : memref<512xf32>
  exec.zero %a : memref<512xf32>
  exec.zero %b : memref<256xf32>
  exec.grad_acquire @u
  exec.copy %a into %g : memref<512xf32>, memref<512xf32>
  exec.reduce_start @u
  exec.zero %b : memref<256xf32>
  return
}

// -----

// Slices are cut where blocks of 256 are: of 768 elements a rank may own 512.
// What lives behind the reduction leaves no room for them, and the space does
// not grow.
// CHECK: exec.space private bytes 3072 lower_bound 3072
// CHECK-NOT: exec.slice_place
fsdp.unit @u sharded f32 reduce f32 length 768 []
func.func @first_microbatch() {
  %a = exec.alloc : memref<384xf32>
  %b = exec.alloc : memref<384xf32>
  exec.zero %a : memref<384xf32>
  exec.copy %a into %b : memref<384xf32>, memref<384xf32>
  exec.grad_acquire @u
  exec.reduce_start @u
  exec.zero %b : memref<384xf32>
  return
}

// -----

// It lives until the update ends, beside what that needs; a replicated unit has
// no slices.
// CHECK: exec.space private bytes 1024 lower_bound 1024
// CHECK-NOT: exec.slice_place
fsdp.unit @u sharded f32 reduce f32 length 256 []
fsdp.unit @whole replicated f32 reduce f32 length 256 []
func.func @first_microbatch() {
  %a = exec.alloc : memref<256xf32>
  exec.zero %a : memref<256xf32>
  exec.grad_acquire @u
  exec.reduce_start @u
  exec.grad_acquire @whole
  exec.reduce_start @whole
  return
}
func.func @update() {
  %a = exec.alloc : memref<256xf32>
  exec.zero %a : memref<256xf32>
  return
}
