// RUN: shardonnx-opt %s -fsdp-to-exec -split-input-file | FileCheck %s

// A slice is a strided view, a transpose swaps strides; attention takes both
// without a copy. q is columns 0…15 of rows of 48, so k begins at 16, v at 32.
// CHECK-LABEL: func.func @eval()
// CHECK: %[[X:.*]] = exec.buffer input 0 : memref<2x8x48xf32>
// CHECK: %[[Q:.*]] = exec.view %[[X]][0] : memref<2x8x48xf32> to memref<2x8x2x8xf32, strided<[384, 48, 8, 1]>>
// CHECK: %[[K:.*]] = exec.view %[[X]][16]
// CHECK: %[[V:.*]] = exec.view %[[X]][32]
// CHECK-NOT: exec.copy
// CHECK: exec.attention %[[Q]], %[[K]], %[[V]] into
func.func @eval(%x: tensor<2x8x48xf32>) {
  %q = nn.slice %x {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 2, 8, 16>} : (tensor<2x8x48xf32>) -> tensor<2x8x16xf32>
  %k = nn.slice %x {offsets = array<i64: 0, 0, 16>, sizes = array<i64: 2, 8, 16>} : (tensor<2x8x48xf32>) -> tensor<2x8x16xf32>
  %v = nn.slice %x {offsets = array<i64: 0, 0, 32>, sizes = array<i64: 2, 8, 16>} : (tensor<2x8x48xf32>) -> tensor<2x8x16xf32>
  %q4 = nn.reshape %q : tensor<2x8x16xf32> -> tensor<2x8x2x8xf32>
  %k4 = nn.reshape %k : tensor<2x8x16xf32> -> tensor<2x8x2x8xf32>
  %v4 = nn.reshape %v : tensor<2x8x16xf32> -> tensor<2x8x2x8xf32>
  %o, %lse = nn.attention %q4, %k4, %v4 {scale = 0.25 : f32} : (tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>) -> (tensor<2x8x2x8xf32>, tensor<2x2x8xf32>)
  return
}

// -----

// The gradients of q, k and v are parts of one concat: attention_grad writes
// them there, at distances of the joined rows.
// CHECK-LABEL: func.func @eval()
// CHECK: %[[ALL:.*]] = exec.alloc : memref<2x8x48xf32>
// CHECK: %[[DQ:.*]] = exec.view %[[ALL]][0] : memref<2x8x48xf32> to memref<2x8x2x8xf32, strided<[384, 48, 8, 1]>>
// CHECK: %[[DK:.*]] = exec.view %[[ALL]][16]
// CHECK: %[[DV:.*]] = exec.view %[[ALL]][32]
// CHECK: exec.attention_grad {{.*}} into %[[DQ]], %[[DK]], %[[DV]]
// CHECK-NOT: exec.copy
// CHECK: %[[ROWS:.*]] = exec.view %[[ALL]][0] : memref<2x8x48xf32> to memref<16x48xf32>
// CHECK: exec.gemm %[[ROWS]]
func.func @eval(%q: tensor<2x8x2x8xf32>, %lse: tensor<2x2x8xf32>, %w: tensor<48x4xf32>) {
  %dq, %dk, %dv = nn.attention_grad %q, %q, %q, %q, %lse, %q {scale = 0.25 : f32} : (tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>, tensor<2x2x8xf32>, tensor<2x8x2x8xf32>) -> (tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>, tensor<2x8x2x8xf32>)
  %a = nn.reshape %dq : tensor<2x8x2x8xf32> -> tensor<2x8x16xf32>
  %b = nn.reshape %dk : tensor<2x8x2x8xf32> -> tensor<2x8x16xf32>
  %c = nn.reshape %dv : tensor<2x8x2x8xf32> -> tensor<2x8x16xf32>
  %all = nn.concat %a, %b, %c {axis = 2 : i64} : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x48xf32>
  %rows = nn.reshape %all : tensor<2x8x48xf32> -> tensor<16x48xf32>
  %y = nn.matmul %rows, %w : (tensor<16x48xf32>, tensor<48x4xf32>) -> tensor<16x4xf32>
  return
}

// -----

// Transposed operands of a matmul are swapped strides; a transposed result is
// the product of the swapped operands. A value in two concats is copied into
// the second (the one decided last, the earlier).
// CHECK-LABEL: func.func @eval()
// CHECK: %[[B:.*]] = exec.view %{{.*}}[0] : memref<4x8xf32> to memref<8x4xf32, strided<[1, 8]>>
// CHECK: exec.gemm %{{.*}}, %[[B]] into %{{.*}} : memref<16x8xf32>, memref<8x4xf32, strided<[1, 8]>>, memref<16x4xf32>
// CHECK: exec.copy
// CHECK-NOT: exec.copy
func.func @eval(%x: tensor<16x8xf32>, %w: tensor<4x8xf32>) {
  %y = nn.matmul %x, %w {transpose_rhs} : (tensor<16x8xf32>, tensor<4x8xf32>) -> tensor<16x4xf32>
  %c = nn.concat %y, %y {axis = 0 : i64} : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<32x4xf32>
  return
}

// -----

// A reshape across a transpose needs a copy, and only there.
// CHECK-LABEL: func.func @eval()
// CHECK: %[[T:.*]] = exec.view %{{.*}}[0] : memref<4x8xf32> to memref<8x4xf32, strided<[1, 8]>>
// CHECK: %[[C:.*]] = exec.alloc : memref<8x4xf32>
// CHECK: exec.copy %[[T]] into %[[C]]
// CHECK: exec.view %[[C]][0] : memref<8x4xf32> to memref<2x16xf32>
func.func @eval(%x: tensor<4x8xf32>, %w: tensor<16x2xf32>) {
  %t = nn.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
  %r = nn.reshape %t : tensor<8x4xf32> -> tensor<2x16xf32>
  %y = nn.matmul %r, %w : (tensor<2x16xf32>, tensor<16x2xf32>) -> tensor<2x2xf32>
  return
}

// -----

// pad: zeros, then the operand at (1, 0).
// CHECK-LABEL: func.func @eval()
// CHECK: exec.zero %[[P:.*]] : memref<6x8xf32>
// CHECK: %[[IN:.*]] = exec.view %[[P]][8] : memref<6x8xf32> to memref<4x8xf32>
// CHECK: exec.copy %{{.*}} into %[[IN]]
func.func @eval(%x: tensor<4x8xf32>) {
  %p = nn.pad %x {low = array<i64: 1, 0>, high = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<6x8xf32>
  return
}

// -----

// cos and sin of positions 0 and 1 at frequency 1: 1, cos 1; 0, sin 1.
// CHECK-DAG: exec.constant @constant{{.*}} = dense<{{\[\[}}1.000000e+00], [0.540302277]]> : tensor<2x1xf32>
// CHECK-DAG: exec.constant @constant{{.*}} = dense<{{\[\[}}0.000000e+00], [0.841470957]]> : tensor<2x1xf32>
func.func @eval() {
  %cos, %sin = nn.rotary_table {inv_freq = array<f32: 1.0>, length = 2 : i64} : () -> (tensor<2x1xf32>, tensor<2x1xf32>)
  return
}

// -----

// A pre-activation that nobody reads is not written; one that is lies as the
// result does, which may not be a part of a wider concat then.
// CHECK-LABEL: func.func @eval()
// CHECK: exec.gemm_epilogue %{{.*}}, %{{.*}} side %{{.*}} : memref<8xf32> into %[[H:[0-9]+]] workspace %{{[0-9]+}} : memref<5120xi8> {epilogue
// CHECK: %[[G:.*]] = exec.alloc : memref<4x8xf32>
// CHECK: %[[X:.*]] = exec.alloc : memref<4x8xf32>
// CHECK: exec.gemm_epilogue %[[H]], %{{.*}} side %{{.*}} : memref<8xf32> into %[[G]] extra %[[X]] : memref<4x8xf32>
// CHECK: exec.copy %[[G]]
func.func @eval(%a: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) {
  %h, %unread = nn.matmul_epilogue gelu_bias %a, %w, %b : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %g, %x = nn.matmul_epilogue gelu_bias %h, %w, %b : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %c = nn.concat %g, %x {axis = 1 : i64} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return
}
