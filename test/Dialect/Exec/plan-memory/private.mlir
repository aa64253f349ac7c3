// RUN: shardonnx-opt %s -exec-plan-memory -verify-exec -split-input-file | FileCheck %s

// A chain of three buffers of 1024 bytes: the first dies where the third is
// born (after op 2), so the third takes its place.
//   op 1: writes a        a [1..2]  b [2..3]  c [3..4]
//   op 2: a -> b          a and b live at once: 2048 bytes
//   op 3: b -> c
//   op 4: reads c
// CHECK: exec.space private bytes 2048 lower_bound 2048
// CHECK-LABEL: @first_microbatch
func.func @first_microbatch() {
  // CHECK: %[[A:.*]] = exec.buffer private 0 : memref<256xf32>
  %a = exec.alloc : memref<256xf32>
  // CHECK: %[[B:.*]] = exec.buffer private 1024 : memref<256xf32>
  %b = exec.alloc : memref<256xf32>
  // CHECK: %[[C:.*]] = exec.buffer private 0 : memref<256xf32>
  %c = exec.alloc : memref<256xf32>
  exec.zero %a : memref<256xf32>
  exec.copy %a into %b : memref<256xf32>, memref<256xf32>
  exec.copy %b into %c : memref<256xf32>, memref<256xf32>
  exec.copy %c into %c : memref<256xf32>, memref<256xf32>
  return
}

// -----

// Sizes are rounded up to 64 bytes: 4 bytes at 0, the next at 64. A view keeps
// its root alive: `a` is read through %v in the last op.
// CHECK: exec.space private bytes 192 lower_bound 192
// CHECK-LABEL: @eval
func.func @eval() {
  // CHECK: exec.buffer private [[A:[0-9]+]] : memref<2x4xf32>
  %a = exec.alloc : memref<2x4xf32>
  // CHECK-NOT: exec.buffer private [[A]] :
  %v = exec.view %a[4] : memref<2x4xf32> to memref<4xf32>
  %b = exec.alloc : memref<1xf32>
  %c = exec.alloc : memref<4xf32>
  exec.zero %a : memref<2x4xf32>
  exec.zero %b : memref<1xf32>
  exec.copy %v into %c : memref<4xf32>, memref<4xf32>
  exec.copy %b into %b : memref<1xf32>, memref<1xf32>
  return
}

// -----

// Functions run one after the other, so each starts at 0 and the space is as
// large as the larger: 64·4 = 256 bytes.
// CHECK: exec.space private bytes 256 lower_bound 256
func.func @first_microbatch() {
  // CHECK: exec.buffer private 0 : memref<64xf32>
  %a = exec.alloc : memref<64xf32>
  exec.zero %a : memref<64xf32>
  return
}
func.func @next_microbatch() {
  // CHECK: exec.buffer private 0 : memref<16xf32>
  %a = exec.alloc : memref<16xf32>
  exec.zero %a : memref<16xf32>
  return
}

// -----

// A workspace lives during its call alone, beside the call's operands.
// CHECK: exec.space private bytes 1024 lower_bound 1024
func.func @first_microbatch() {
  %a = exec.alloc : memref<8x8xf32>
  %c = exec.alloc : memref<8x8xf32>
  // 512 bytes of workspace over 2·256 of operands.
  // CHECK: exec.buffer private 0 : memref<512xi8>
  %ws = exec.alloc : memref<512xi8>
  exec.zero %a : memref<8x8xf32>
  exec.gemm %a, %a into %c workspace %ws : memref<512xi8> : memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>
  exec.copy %c into %a : memref<8x8xf32>, memref<8x8xf32>
  // Takes the workspace's place.
  // CHECK: exec.buffer private 0 : memref<16x8xf32>
  %d = exec.alloc : memref<16x8xf32>
  exec.zero %d : memref<16x8xf32>
  exec.copy %a into %a : memref<8x8xf32>, memref<8x8xf32>
  return
}
