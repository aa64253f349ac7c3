// RUN: shardonnx-opt %s "-nn-split-sequences=context=2" -split-input-file -verify-diagnostics | FileCheck %s

// Of what sends least: with C ranks, heads and their gradients are
// 2·(C-1)/C·(queries + results + keys + values) of a rank, blocks of a ring
// 3·(C-1)·(keys + values).

// Four heads of each: 2·1/2·32 against 3·16 elements a token.
// CHECK-LABEL: func.func @heads
func.func @heads(%ids: tensor<1x8xi64>) {
  %w = nn.get @w : tensor<16x8xf32>
  %e = nn.embedding %w, %ids : (tensor<16x8xf32>, tensor<1x8xi64>) -> tensor<1x8x8xf32>
  %q = nn.reshape %e : tensor<1x8x8xf32> -> tensor<1x8x4x2xf32>
  // CHECK: nn.all_to_all
  // CHECK-NOT: nn.ring_attention
  %0:2 = nn.attention %q, %q, %q {scale = 1.0 : f32, causal} : (tensor<1x8x4x2xf32>, tensor<1x8x4x2xf32>, tensor<1x8x4x2xf32>) -> (tensor<1x8x4x2xf32>, tensor<1x4x8xf32>)
  return
}
nn.parameter @w : tensor<16x8xf32> trainable {onnx_name = "w"}

// -----

// One key/value head for four, which is repeated for two ranks: 2·1/2·24 against
// 3·4.
// CHECK-LABEL: func.func @shared
func.func @shared(%ids: tensor<1x8xi64>) {
  %w = nn.get @w : tensor<16x8xf32>
  %e = nn.embedding %w, %ids : (tensor<16x8xf32>, tensor<1x8xi64>) -> tensor<1x8x8xf32>
  %q = nn.reshape %e : tensor<1x8x8xf32> -> tensor<1x8x4x2xf32>
  %v = nn.get @v : tensor<8x2xf32>
  %kv = nn.matmul %e, %v : (tensor<1x8x8xf32>, tensor<8x2xf32>) -> tensor<1x8x2xf32>
  %k = nn.reshape %kv : tensor<1x8x2xf32> -> tensor<1x8x1x2xf32>
  // CHECK: nn.ring_attention {{.*}} zigzag}
  %0:2 = nn.attention %q, %k, %k {scale = 1.0 : f32, causal} : (tensor<1x8x4x2xf32>, tensor<1x8x1x2xf32>, tensor<1x8x1x2xf32>) -> (tensor<1x8x4x2xf32>, tensor<1x4x8xf32>)
  return
}
nn.parameter @w : tensor<16x8xf32> trainable {onnx_name = "w"}
nn.parameter @v : tensor<8x2xf32> trainable {onnx_name = "v"}

// -----

// Heads that the ranks do not divide; a causal mask beside another one.
// CHECK-LABEL: func.func @masked
func.func @masked(%ids: tensor<1x4xi64>, %bias: tensor<4x4xf32>) {
  %w = nn.get @w : tensor<16x6xf32>
  %e = nn.embedding %w, %ids : (tensor<16x6xf32>, tensor<1x4xi64>) -> tensor<1x4x6xf32>
  %q = nn.reshape %e : tensor<1x4x6xf32> -> tensor<1x4x3x2xf32>
  // CHECK: nn.ring_attention {{.*}} zigzag}
  %0:2 = nn.attention %q, %q, %q, %bias {scale = 1.0 : f32, causal} : (tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<4x4xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x3x4xf32>)
  return
}
nn.parameter @w : tensor<16x6xf32> trainable {onnx_name = "w"}

// -----

// Chunks that do not divide the sequence: all keys on each rank.
// CHECK-LABEL: func.func @chunks
func.func @chunks(%ids: tensor<1x6xi64>) {
  %w = nn.get @w : tensor<16x6xf32>
  %e = nn.embedding %w, %ids : (tensor<16x6xf32>, tensor<1x6xi64>) -> tensor<1x6x6xf32>
  %q = nn.reshape %e : tensor<1x6x6xf32> -> tensor<1x6x3x2xf32>
  // CHECK: nn.all_gather
  %0:2 = nn.attention %q, %q, %q {scale = 1.0 : f32, causal} : (tensor<1x6x3x2xf32>, tensor<1x6x3x2xf32>, tensor<1x6x3x2xf32>) -> (tensor<1x6x3x2xf32>, tensor<1x3x6xf32>)
  return
}
nn.parameter @w : tensor<16x6xf32> trainable {onnx_name = "w"}

// -----

func.func @neither(%ids: tensor<1x8xi64>, %bias: tensor<8x8xf32>) {
  %w = nn.get @w : tensor<16x6xf32>
  %e = nn.embedding %w, %ids : (tensor<16x6xf32>, tensor<1x8xi64>) -> tensor<1x8x6xf32>
  %q = nn.reshape %e : tensor<1x8x6xf32> -> tensor<1x8x3x2xf32>
  // expected-error @below {{--mesh: context:2 does not divide the 3 heads of this attention, and cannot compute it in a ring: it has a window beside a mask; the nearest that does is context:3}}
  %0:2 = nn.attention %q, %q, %q, %bias {scale = 1.0 : f32, causal, window = 2 : i64} : (tensor<1x8x3x2xf32>, tensor<1x8x3x2xf32>, tensor<1x8x3x2xf32>, tensor<8x8xf32>) -> (tensor<1x8x3x2xf32>, tensor<1x3x8xf32>)
  return
}
nn.parameter @w : tensor<16x6xf32> trainable {onnx_name = "w"}
