// RUN: shardonnx-opt %s -exec-grow-loss-chunks -split-input-file | FileCheck %s

// The CPU's workspace of a loss: for each row of a chunk 64 logits of 4 bytes, 8
// bytes of sums, and a row of both operands of its product with the largest
// panels, the weight's gradient: (64 + 48) · 4 bytes. 712 · 256 = 182272. At the
// loss live
//   operand 65536 + weight 4096 + labels 8192 + loss 4 + workspace 182272 = 260100
// and elsewhere 676000, so that 415900 are left over: room for 840 rows. Steps
// of 128 rows reach 768, which is two chunks; two equal ones are of 512 rows.
// CHECK-LABEL: @first_microbatch
func.func @first_microbatch() {
  %big = exec.alloc : memref<676000xi8>
  exec.zero %big : memref<676000xi8>
  %x = exec.alloc : memref<1024x16xf32>
  %w = exec.alloc : memref<64x16xf32>
  %labels = exec.alloc : memref<1024xi64>
  %loss = exec.alloc : memref<f32>
  exec.zero %x : memref<1024x16xf32>
  exec.zero %w : memref<64x16xf32>
  exec.zero %labels : memref<1024xi64>
  // CHECK: %[[SPACE:.*]] = exec.alloc : memref<364544xi8>
  %space = exec.alloc : memref<182272xi8>
  // CHECK: exec.linear_cross_entropy {{.*}} workspace %[[SPACE]] : memref<364544xi8> {chunk_rows = 512
  exec.linear_cross_entropy %x, %w, %labels into %loss workspace %space : memref<182272xi8> {chunk_rows = 256 : i64, transpose_weight} : memref<1024x16xf32>, memref<64x16xf32>, memref<1024xi64>, memref<f32>
  return
}

// -----

// The peak is at the loss itself: nothing is left over.
// CHECK-LABEL: @first_microbatch
func.func @first_microbatch() {
  %x = exec.alloc : memref<1024x16xf32>
  %w = exec.alloc : memref<64x16xf32>
  %labels = exec.alloc : memref<1024xi64>
  %loss = exec.alloc : memref<f32>
  exec.zero %x : memref<1024x16xf32>
  exec.zero %w : memref<64x16xf32>
  exec.zero %labels : memref<1024xi64>
  %space = exec.alloc : memref<182272xi8>
  // CHECK: memref<182272xi8> {chunk_rows = 256
  exec.linear_cross_entropy %x, %w, %labels into %loss workspace %space : memref<182272xi8> {chunk_rows = 256 : i64, transpose_weight} : memref<1024x16xf32>, memref<64x16xf32>, memref<1024xi64>, memref<f32>
  return
}
