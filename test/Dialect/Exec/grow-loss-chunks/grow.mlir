// RUN: shardonnx-opt %s -exec-grow-loss-chunks -split-input-file | FileCheck %s

// The CPU's workspace of a loss without gradients: for each row of a chunk 64
// logits of 4 bytes, 8 bytes of sums, and the row's 16 elements packed, 328 bytes;
// beside them the weight, whose 64 columns fill two panels of 48: 6144 bytes.
// 256 · 328 + 6144 = 90112. At the loss live
//   operand 65536 + weight 4096 + labels 8192 + loss 4 + workspace 90112 = 167940
// and elsewhere 377828, so that 209888 are left over: room for 895 rows. Steps
// of 128 rows reach 768, which is two chunks; two equal ones are of 512 rows.
// CHECK-LABEL: @first_microbatch
func.func @first_microbatch() {
  %big = exec.alloc : memref<377828xi8>
  exec.zero %big : memref<377828xi8>
  %x = exec.alloc : memref<1024x16xf32>
  %w = exec.alloc : memref<64x16xf32>
  %labels = exec.alloc : memref<1024xi64>
  %loss = exec.alloc : memref<f32>
  exec.zero %x : memref<1024x16xf32>
  exec.zero %w : memref<64x16xf32>
  exec.zero %labels : memref<1024xi64>
  // CHECK: %[[SPACE:.*]] = exec.alloc : memref<174080xi8>
  %space = exec.alloc : memref<90112xi8>
  // CHECK: exec.linear_cross_entropy {{.*}} workspace %[[SPACE]] : memref<174080xi8> {chunk_rows = 512
  exec.linear_cross_entropy %x, %w, %labels into %loss workspace %space : memref<90112xi8> {chunk_rows = 256 : i64, transpose_weight} : memref<1024x16xf32>, memref<64x16xf32>, memref<1024xi64>, memref<f32>
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
  %space = exec.alloc : memref<90112xi8>
  // CHECK: memref<90112xi8> {chunk_rows = 256
  exec.linear_cross_entropy %x, %w, %labels into %loss workspace %space : memref<90112xi8> {chunk_rows = 256 : i64, transpose_weight} : memref<1024x16xf32>, memref<64x16xf32>, memref<1024xi64>, memref<f32>
  return
}
