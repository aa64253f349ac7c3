// RUN: shardonnx-opt %s -exec-plan-memory -verify-exec -split-input-file | FileCheck %s

// Three units of 256 f32 = 1024 bytes. Prefetch distance 1: @c starts when @a
// was freed, so two are live at once and @c takes the place of @a. Gradients
// come in the order c, b, a: c's reduction overlaps b's gradients and is awaited
// before a is acquired, which takes the place of c.
// CHECK-DAG: exec.space params bytes 2048 lower_bound 2048
// CHECK-DAG: exec.space gradients bytes 2048 lower_bound 2048
// CHECK-DAG: fsdp.unit @a {{.*}}exec.grad_offset = [[GA:[0-9]+]] : i64, {{.*}}exec.param_offset = [[A:[0-9]+]] : i64
// CHECK-DAG: fsdp.unit @b {{.*}}exec.grad_offset = [[GB:[0-9]+]] : i64, {{.*}}exec.param_offset = [[B:[0-9]+]] : i64
// CHECK-DAG: fsdp.unit @c {{.*}}exec.grad_offset = [[GA]] : i64, {{.*}}exec.param_offset = [[A]] : i64
fsdp.unit @a sharded f32 reduce f32 length 256 []
fsdp.unit @b sharded f32 reduce f32 length 256 []
fsdp.unit @c sharded f32 reduce f32 length 256 []
func.func @first_microbatch() {
  exec.gather_start @a
  exec.gather_wait @a
  exec.gather_start @b
  exec.gather_free @a
  exec.gather_wait @b
  exec.gather_start @c
  exec.gather_free @b
  exec.gather_wait @c
  exec.gather_free @c
  exec.grad_acquire @c
  exec.reduce_start @c
  exec.grad_acquire @b
  exec.reduce_start @b
  exec.reduce_wait @c
  exec.grad_acquire @a
  exec.reduce_start @a
  return
}

// -----

// @a is gathered in @update for the next step's forward: it stays through the
// end of @update and from the beginning of @first_microbatch, where @b cannot
// take its place. @eval uses @b alone, yet @a must survive it.
// CHECK: exec.space params bytes 2048 lower_bound 2048
fsdp.unit @a sharded f32 reduce f32 length 256 []
fsdp.unit @b sharded f32 reduce f32 length 256 []
func.func @first_microbatch() {
  exec.gather_start @b
  exec.gather_wait @a
  exec.gather_free @a
  exec.gather_wait @b
  exec.gather_free @b
  return
}
func.func @update() {
  exec.gather_start @a
  return
}
func.func @eval() {
  exec.gather_start @b
  exec.gather_wait @b
  exec.gather_free @b
  return
}

// -----

// bf16 parameters and f32 gradients: 2 and 4 bytes an element; the frozen
// section is gathered with the unit and has no gradient.
// CHECK-DAG: exec.space params bytes 1024 lower_bound 1024
// CHECK-DAG: exec.space gradients bytes 1024 lower_bound 1024
fsdp.unit @a sharded bf16 reduce f32 length 256 [] frozen 256 []
func.func @first_microbatch() {
  exec.gather_start @a
  exec.gather_wait @a
  exec.grad_acquire @a
  exec.reduce_start @a
  exec.gather_free @a
  return
}

// -----

// @a is kept: it has its place through every function, though @update frees it
// for a while; @b, which comes and goes, lies beside it.
// CHECK: exec.space params bytes 2048 lower_bound 2048
fsdp.unit @a sharded f32 reduce f32 length 256 [] kept
fsdp.unit @b sharded f32 reduce f32 length 256 []
func.func @first_microbatch() {
  exec.gather_wait @a
  return
}
func.func @update() {
  exec.gather_wait @a
  exec.gather_free @a
  exec.gather_start @b
  exec.gather_wait @b
  exec.gather_free @b
  exec.gather_start @a
  return
}

// -----

// Gradients that stay whole share nothing, though their units take turns: three
// times 1024 bytes, not two.
// CHECK: exec.space gradients bytes 3072 lower_bound 3072
module attributes {fsdp.unsharded_accumulation} {
  fsdp.unit @a sharded f32 reduce f32 length 256 []
  fsdp.unit @b sharded f32 reduce f32 length 256 []
  fsdp.unit @c sharded f32 reduce f32 length 256 []
  func.func @first_microbatch() {
    exec.grad_acquire @c
    exec.reduce_start @c
    exec.reduce_wait @c
    exec.grad_acquire @b
    exec.reduce_start @b
    exec.reduce_wait @b
    exec.grad_acquire @a
    exec.reduce_start @a
    exec.reduce_wait @a
    return
  }
}

// -----

// Resharding ends the gathered unit's life as its free does.
// CHECK: exec.space params bytes 1024 lower_bound 1024
fsdp.unit @a sharded f32 reduce f32 length 256 [] reshard_after_forward reshard_group 2
fsdp.unit @b sharded f32 reduce f32 length 256 []
func.func @first_microbatch() {
  exec.gather_start @a
  exec.gather_wait @a
  exec.gather_reshard @a
  exec.gather_start @b
  exec.gather_wait @b
  exec.gather_free @b
  return
}
