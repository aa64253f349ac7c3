// RUN: shardonnx-opt %s -exec-overlap-axes | FileCheck %s

// The sum begins where it stood, and is awaited where its result is read. What
// is read of the operand meanwhile does not matter, views begin nothing.
// CHECK-LABEL: @reader
// CHECK-SAME: {
// CHECK: exec.axis_start %[[A:.*]] into %[[B:[0-9]+]] {
// CHECK-NEXT: exec.view
// CHECK-NEXT: exec.copy %[[A]] into
// CHECK-NEXT: exec.axis_wait %[[A]] into %[[B]] {axis = "tensor", call = 0 : i64, parts = 2 : i64}
// CHECK-NEXT: exec.copy
func.func @reader() {
  %a = exec.alloc : memref<8xf32>
  %b = exec.alloc : memref<8xf32>
  %c = exec.alloc : memref<8xf32>
  %d = exec.alloc : memref<2x4xf32>
  exec.zero %a : memref<8xf32>
  exec.axis_collective %a into %b {call = 0, axis = "tensor", parts = 2} : memref<8xf32>, memref<8xf32>
  %v = exec.view %b[0] : memref<8xf32> to memref<2x4xf32>
  exec.copy %a into %c : memref<8xf32>, memref<8xf32>
  exec.copy %v into %d : memref<2x4xf32>, memref<2x4xf32>
  return
}

// It is awaited before its operand is written, at the latest before the end;
// what lies beside its part of a buffer is free to all.
// CHECK-LABEL: @writer
// CHECK: exec.axis_start
// CHECK-NEXT: exec.zero %[[BESIDE:.*]] :
// CHECK-NEXT: exec.axis_wait
// CHECK-NEXT: exec.zero
// CHECK-NEXT: exec.axis_start
// CHECK-NEXT: exec.axis_wait
// CHECK-NEXT: return
func.func @writer() {
  %a = exec.alloc : memref<8xf32>
  %b = exec.alloc : memref<16xf32>
  %mine = exec.view %b[0] : memref<16xf32> to memref<8xf32>
  %beside = exec.view %b[8] : memref<16xf32> to memref<8xf32>
  exec.zero %a : memref<8xf32>
  exec.axis_collective %a into %mine {call = 0, axis = "tensor", parts = 2} : memref<8xf32>, memref<8xf32>
  exec.zero %beside : memref<8xf32>
  exec.zero %a : memref<8xf32>
  exec.axis_collective %a into %mine {call = 0, axis = "tensor", parts = 2} : memref<8xf32>, memref<8xf32>
  return
}

// Waits come in the order of starts. A slice sends nothing.
// CHECK-LABEL: @order
// CHECK: exec.axis_start %{{.*}} into %[[B:[0-9]+]] {
// CHECK-NEXT: exec.axis_start %{{.*}} into %[[C:[0-9]+]] {
// CHECK-NEXT: exec.axis_wait %{{.*}} into %[[B]] {
// CHECK-NEXT: exec.axis_wait %{{.*}} into %[[C]] {
// CHECK-NEXT: exec.axis_collective %[[C]]
func.func @order() {
  %a = exec.alloc : memref<8xf32>
  %b = exec.alloc : memref<8xf32>
  %c = exec.alloc : memref<8xf32>
  %d = exec.alloc : memref<4xf32>
  exec.zero %a : memref<8xf32>
  exec.axis_collective %a into %b {call = 0, axis = "tensor", parts = 2} : memref<8xf32>, memref<8xf32>
  exec.axis_collective %a into %c {call = 8, axis = "tensor", parts = 2, behind = 1} : memref<8xf32>, memref<8xf32>
  exec.axis_collective %c into %d {call = 2, axis = "tensor", parts = 2, sections = array<i64: 8>} : memref<8xf32>, memref<4xf32>
  return
}

// A unit's gradients are read when their reduction begins.
// CHECK-LABEL: @gradients
// CHECK: exec.axis_start
// CHECK-NEXT: exec.zero
// CHECK-NEXT: exec.axis_wait
// CHECK-NEXT: exec.reduce_start
fsdp.unit @block sharded f32 reduce f32 length 256 []
func.func @gradients() {
  %a = exec.alloc : memref<8xf32>
  %c = exec.alloc : memref<8xf32>
  %g = exec.buffer gradients @block 0 : memref<8xf32>
  exec.zero %a : memref<8xf32>
  exec.grad_acquire @block
  exec.axis_collective %a into %g {call = 0, axis = "tensor", parts = 2} : memref<8xf32>, memref<8xf32>
  exec.zero %c : memref<8xf32>
  exec.reduce_start @block
  return
}
