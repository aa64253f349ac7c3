// RUN: shardonnx-opt %s "-nn-split-sequences=context=2 attention=ring" -split-input-file -verify-diagnostics | FileCheck %s

// A rank of two has the first and the last of four chunks: of tokens, positions
// and labels alike.

// CHECK-LABEL: func.func @causal
// CHECK-SAME: %[[IDS:.*]]: tensor<2x8xi64>, %[[LABELS:.*]]: tensor<2x8xi64>, %[[FIRST:.*]]: tensor<2x8xi32>
func.func @causal(%ids: tensor<2x8xi64>, %labels: tensor<2x8xi64>, %first: tensor<2x8xi32>) {
  %w = nn.get @w : tensor<16x6xf32>
  // CHECK: %[[PART:.*]] = nn.part_slice %[[IDS]] {axis = "context", dim = 1 : i64, parts = 2 : i64, sections = array<i64: 4, 4>, zigzag} : (tensor<2x8xi64>) -> tensor<2x4xi64>
  // CHECK: nn.embedding %{{.*}}, %[[PART]]
  %e = nn.embedding %w, %ids : (tensor<16x6xf32>, tensor<2x8xi64>) -> tensor<2x8x6xf32>
  // CHECK: nn.part_slice %{{.*}} {axis = "context", dim = 0 : i64, parts = 2 : i64, sections = array<i64: 4, 4>, zigzag} : (tensor<8x6xf32>) -> tensor<4x6xf32>
  %p = nn.get @p : tensor<8x6xf32>
  %x = nn.add %e, %p : (tensor<2x8x6xf32>, tensor<8x6xf32>) -> tensor<2x8x6xf32>
  // CHECK: %[[Q:.*]] = nn.reshape {{.*}} -> tensor<2x4x3x2xf32>
  %q = nn.reshape %x : tensor<2x8x6xf32> -> tensor<2x8x3x2xf32>
  // CHECK: %[[A:.*]], %{{.*}} = nn.ring_attention %[[Q]], %[[Q]], %[[Q]] {axis = "context", causal, parts = 2 : i64, scale = 1.000000e+00 : f32, {{.*}}zigzag} : (tensor<2x4x3x2xf32>, tensor<2x4x3x2xf32>, tensor<2x4x3x2xf32>) -> (tensor<2x4x3x2xf32>, tensor<2x3x4xf32>)
  %0:2 = nn.attention %q, %q, %q {scale = 1.0 : f32, causal} : (tensor<2x8x3x2xf32>, tensor<2x8x3x2xf32>, tensor<2x8x3x2xf32>) -> (tensor<2x8x3x2xf32>, tensor<2x3x8xf32>)
  // Documents: of the whole sequence, for this rank's queries.
  // CHECK: %[[M:.*]] = nn.reshape %[[FIRST]]
  // CHECK: %[[ROWS:.*]] = nn.part_slice %[[M]] {axis = "context", dim = 2 : i64, parts = 2 : i64, sections = array<i64: 4, 4>, zigzag} : (tensor<2x1x8x1xi32>) -> tensor<2x1x4x1xi32>
  // A window begins where the later of both does.
  // CHECK: %[[HERE:.*]] = nn.part_slice %{{.*}} {axis = "context", dim = 0 : i64, parts = 2 : i64, sections = array<i64: 4, 4>, zigzag} : (tensor<8xi32>) -> tensor<4xi32>
  // CHECK: %[[BACK:.*]] = nn.constant dense<-2> : tensor<i32>
  // CHECK: %[[WINDOW:.*]] = nn.add %{{.*}}, %[[BACK]]
  // CHECK: %[[BOTH:.*]] = nn.max %[[ROWS]], %[[WINDOW]]
  // CHECK: nn.ring_attention %[[A]], %[[A]], %[[A]], %[[BOTH]] {{.*}}window = 3 : i64
  %m = nn.reshape %first : tensor<2x8xi32> -> tensor<2x1x8x1xi32>
  %1:2 = nn.attention %0#0, %0#0, %0#0, %m {scale = 1.0 : f32, causal, window = 3 : i64} : (tensor<2x8x3x2xf32>, tensor<2x8x3x2xf32>, tensor<2x8x3x2xf32>, tensor<2x1x8x1xi32>) -> (tensor<2x8x3x2xf32>, tensor<2x3x8xf32>)
  // Two samples, one behind the other, are four sections.
  // CHECK: nn.reshape {{.*}} -> tensor<8x6xf32>
  %rows = nn.reshape %1#0 : tensor<2x8x3x2xf32> -> tensor<16x6xf32>
  // CHECK: nn.iota {axis = 0 : i64} : () -> tensor<16xi64>
  // CHECK: nn.part_slice {{.*}} sections = array<i64: 4, 4, 4, 4>, zigzag} : (tensor<16xi64>) -> tensor<8xi64>
  %keys = nn.constant dense<0> : tensor<2xi64>
  %d = nn.dropout %rows, %keys {ratio = 0.5 : f64, samples = 2 : i64, stream = 0 : i64} : (tensor<16x6xf32>, tensor<2xi64>) -> tensor<16x6xf32>
  // CHECK: %[[L:.*]] = nn.part_slice %[[LABELS]] {axis = "context", dim = 1 : i64, parts = 2 : i64, sections = array<i64: 4, 4>, zigzag}
  // CHECK: nn.reshape %[[L]] : tensor<2x4xi64> -> tensor<8xi64>
  %flat = nn.reshape %labels : tensor<2x8xi64> -> tensor<16xi64>
  %s = nn.linear_cross_entropy %d, %w, %flat {transpose_weight} : (tensor<16x6xf32>, tensor<16x6xf32>, tensor<16xi64>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
  return
}
nn.parameter @w : tensor<16x6xf32> trainable {onnx_name = "w"}
nn.parameter @p : tensor<8x6xf32> trainable {onnx_name = "p"}

// -----

// Where nothing is causal, parts are contiguous; a mask has this rank's queries.

// CHECK-LABEL: func.func @encoder
func.func @encoder(%ids: tensor<1x4xi64>, %bias: tensor<4x4xf32>) {
  %w = nn.get @w : tensor<16x6xf32>
  // CHECK: nn.part_slice {{.*}} sections = array<i64: 4>} : (tensor<1x4xi64>) -> tensor<1x2xi64>
  %e = nn.embedding %w, %ids : (tensor<16x6xf32>, tensor<1x4xi64>) -> tensor<1x4x6xf32>
  %q = nn.reshape %e : tensor<1x4x6xf32> -> tensor<1x4x3x2xf32>
  // Every rank has all heads, and their sinks.
  // CHECK: %[[SINK:.*]] = nn.get @sink : tensor<3xf32>
  %sink = nn.get @sink : tensor<3xf32>
  // CHECK: %[[MASK:.*]] = nn.part_slice %{{.*}} {axis = "context", dim = 0 : i64, parts = 2 : i64, sections = array<i64: 4>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
  // CHECK: nn.ring_attention %{{.*}}, %{{.*}}, %{{.*}}, %[[MASK]] sink(%[[SINK]]) {axis = "context", parts = 2 : i64
  %0:2 = nn.attention %q, %q, %q, %bias sink(%sink) {scale = 1.0 : f32} : (tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<4x4xf32>, tensor<3xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x3x4xf32>)
  return
}
nn.parameter @w : tensor<16x6xf32> trainable {onnx_name = "w"}
nn.parameter @sink : tensor<3xf32> trainable {onnx_name = "sink"}

// -----

func.func @chunks(%ids: tensor<1x6xi64>) {
  %w = nn.get @w : tensor<16x6xf32>
  %e = nn.embedding %w, %ids : (tensor<16x6xf32>, tensor<1x6xi64>) -> tensor<1x6x6xf32>
  %q = nn.reshape %e : tensor<1x6x6xf32> -> tensor<1x6x3x2xf32>
  // expected-error @below {{--mesh: context:2 balances a ring over 4 chunks, which do not divide sequences of 6 tokens; the nearest that they do is --seq=8}}
  %0:2 = nn.attention %q, %q, %q {scale = 1.0 : f32, causal} : (tensor<1x6x3x2xf32>, tensor<1x6x3x2xf32>, tensor<1x6x3x2xf32>) -> (tensor<1x6x3x2xf32>, tensor<1x3x6xf32>)
  return
}
nn.parameter @w : tensor<16x6xf32> trainable {onnx_name = "w"}

// -----

func.func @trained(%ids: tensor<1x4xi64>) {
  %w = nn.get @w : tensor<16x6xf32>
  %e = nn.embedding %w, %ids : (tensor<16x6xf32>, tensor<1x4xi64>) -> tensor<1x4x6xf32>
  %q = nn.reshape %e : tensor<1x4x6xf32> -> tensor<1x4x3x2xf32>
  %bias = nn.get @bias : tensor<4x4xf32>
  // expected-error @below {{--mesh: context:2 cannot compute this attention in a ring: its mask is trained; leave --context-attention=ring out}}
  %0:2 = nn.attention %q, %q, %q, %bias {scale = 1.0 : f32} : (tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<4x4xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x3x4xf32>)
  return
}
nn.parameter @w : tensor<16x6xf32> trainable {onnx_name = "w"}
nn.parameter @bias : tensor<4x4xf32> trainable {onnx_name = "bias"}

// -----

// Half of a sequence is no part of what a rank has.
func.func @half(%ids: tensor<1x8xi64>) {
  %w = nn.get @w : tensor<16x6xf32>
  %e = nn.embedding %w, %ids : (tensor<16x6xf32>, tensor<1x8xi64>) -> tensor<1x8x6xf32>
  %q = nn.reshape %e : tensor<1x8x6xf32> -> tensor<1x8x3x2xf32>
  %0:2 = nn.attention %q, %q, %q {scale = 1.0 : f32, causal} : (tensor<1x8x3x2xf32>, tensor<1x8x3x2xf32>, tensor<1x8x3x2xf32>) -> (tensor<1x8x3x2xf32>, tensor<1x3x8xf32>)
  // expected-error @below {{--mesh: context:2 splits sequences, and nn.slice cannot be computed in parts of them: it takes half of a sequence}}
  %1 = nn.slice %0#0 {offsets = array<i64: 0, 4, 0, 0>, sizes = array<i64: 1, 4, 3, 2>} : (tensor<1x8x3x2xf32>) -> tensor<1x4x3x2xf32>
  return
}
nn.parameter @w : tensor<16x6xf32> trainable {onnx_name = "w"}
