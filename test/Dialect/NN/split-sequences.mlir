// RUN: shardonnx-opt %s "-nn-split-sequences=context=2 attention=ulysses" -split-input-file -verify-diagnostics | FileCheck %s

// Tokens and labels are cut where they are read, the labels of a part in the
// order of its rows; attention is by heads between all-to-alls.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[IDS:.*]]: tensor<2x4xi64>, %[[LABELS:.*]]: tensor<2x4xi64>, %[[KEYS:.*]]: tensor<2x4xi32>
func.func @forward(%ids: tensor<2x4xi64>, %labels: tensor<2x4xi64>, %keys: tensor<2x4xi32>) {
  %w = nn.get @w : tensor<16x8xf32>
  // CHECK: %[[PART:.*]] = nn.part_slice %[[IDS]] {axis = "context", dim = 1 : i64, parts = 2 : i64, sections = array<i64: 4>} : (tensor<2x4xi64>) -> tensor<2x2xi64>
  // CHECK: %[[TOKENS:.*]] = nn.embedding %{{.*}}, %[[PART]]
  %e = nn.embedding %w, %ids : (tensor<16x8xf32>, tensor<2x4xi64>) -> tensor<2x4x8xf32>
  // A trained table of positions.
  // CHECK: %[[P:.*]] = nn.get @p : tensor<4x8xf32>
  %p = nn.get @p : tensor<4x8xf32>
  // CHECK: %[[HERE:.*]] = nn.part_slice %[[P]] {axis = "context", dim = 0 : i64, parts = 2 : i64, sections = array<i64: 4>} : (tensor<4x8xf32>) -> tensor<2x8xf32>
  // CHECK: nn.add %[[TOKENS]], %[[HERE]]
  %x = nn.add %e, %p : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x4x8xf32>
  // CHECK: nn.matmul {{.*}} -> tensor<2x2x8xf32>
  %q = nn.get @q : tensor<8x8xf32>
  %qp = nn.matmul %x, %q : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
  %qh = nn.reshape %qp : tensor<2x4x8xf32> -> tensor<2x4x4x2xf32>
  // CHECK: nn.rotary {{.*}} : (tensor<2x2x4x2xf32>, tensor<2x1xf32>, tensor<2x1xf32>)
  %cos = nn.constant dense<1.0> : tensor<4x1xf32>
  %r = nn.rotary %qh, %cos, %cos : (tensor<2x4x4x2xf32>, tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<2x4x4x2xf32>
  // Masks are whole.
  // CHECK: %[[MASK:.*]] = nn.reshape %[[KEYS]] : tensor<2x4xi32> -> tensor<2x1x4x1xi32>
  %m = nn.reshape %keys : tensor<2x4xi32> -> tensor<2x1x4x1xi32>
  // One key/value head is repeated for two ranks.
  // CHECK-COUNT-2: nn.broadcast {{.*}} -> tensor<2x2x1x2x2xf32>
  %k = nn.get @k : tensor<8x2xf32>
  %kp = nn.matmul %x, %k : (tensor<2x4x8xf32>, tensor<8x2xf32>) -> tensor<2x4x2xf32>
  %kh = nn.reshape %kp : tensor<2x4x2xf32> -> tensor<2x4x1x2xf32>
  %sink = nn.get @sink : tensor<4xf32>
  // CHECK: %[[Q:.*]] = nn.all_to_all %{{.*}} {axis = "context", join_dim = 1 : i64, join_sections = array<i64: 4>, parts = 2 : i64, split_dim = 2 : i64, split_sections = array<i64: 4>} : (tensor<2x2x4x2xf32>) -> tensor<2x4x2x2xf32>
  // CHECK: %[[K:.*]] = nn.all_to_all %{{.*}} split_sections = array<i64: 2>} : (tensor<2x2x2x2xf32>) -> tensor<2x4x1x2xf32>
  // CHECK: %[[V:.*]] = nn.all_to_all
  // A sink belongs to its head.
  // CHECK: %[[SINK:.*]] = nn.part_slice %{{.*}} {axis = "context", dim = 0 : i64, parts = 2 : i64, sections = array<i64: 4>} : (tensor<4xf32>) -> tensor<2xf32>
  // CHECK: %[[A:.*]], %{{.*}} = nn.attention %[[Q]], %[[K]], %[[V]], %[[MASK]] sink(%[[SINK]])
  // CHECK: nn.all_to_all %[[A]] {axis = "context", join_dim = 2 : i64, join_sections = array<i64: 4>, parts = 2 : i64, split_dim = 1 : i64, split_sections = array<i64: 4>} : (tensor<2x4x2x2xf32>) -> tensor<2x2x4x2xf32>
  %a:2 = nn.attention %r, %kh, %kh, %m sink(%sink) {scale = 1.0 : f32, causal} : (tensor<2x4x4x2xf32>, tensor<2x4x1x2xf32>, tensor<2x4x1x2xf32>, tensor<2x1x4x1xi32>, tensor<4xf32>) -> (tensor<2x4x4x2xf32>, tensor<2x4x4xf32>)
  // CHECK: nn.reshape {{.*}} : tensor<2x2x4x2xf32> -> tensor<4x8xf32>
  %rows = nn.reshape %a#0 : tensor<2x4x4x2xf32> -> tensor<8x8xf32>
  // The labels of a part are those of its tokens in each sample.
  // CHECK: %[[L:.*]] = nn.part_slice %[[LABELS]] {axis = "context", dim = 1 : i64
  // CHECK: %[[FLAT:.*]] = nn.reshape %[[L]] : tensor<2x2xi64> -> tensor<4xi64>
  // CHECK: nn.linear_cross_entropy %{{.*}}, %{{.*}}, %[[FLAT]]
  %flat = nn.reshape %labels : tensor<2x4xi64> -> tensor<8xi64>
  %s = nn.linear_cross_entropy %rows, %w, %flat {transpose_weight} : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<8xi64>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
  return
}
// Parameters stay whole.
// CHECK: nn.parameter @w : tensor<16x8xf32>
nn.parameter @w : tensor<16x8xf32> trainable {onnx_name = "w"}
nn.parameter @p : tensor<4x8xf32> trainable {onnx_name = "p"}
nn.parameter @q : tensor<8x8xf32> trainable {onnx_name = "q"}
nn.parameter @k : tensor<8x2xf32> trainable {onnx_name = "k"}
nn.parameter @sink : tensor<4xf32> trainable {onnx_name = "sink"}

// -----

func.func @length(%ids: tensor<1x5xi64>) {
  %w = nn.get @w : tensor<16x8xf32>
  // expected-error @below {{--mesh: context:2 does not divide sequences of 5 tokens; the nearest that it does is --seq=6, of a graph that leaves the length open}}
  %e = nn.embedding %w, %ids : (tensor<16x8xf32>, tensor<1x5xi64>) -> tensor<1x5x8xf32>
  return
}
nn.parameter @w : tensor<16x8xf32> trainable {onnx_name = "w"}

// -----

// expected-error @below {{--mesh: context:2 splits sequences, and no embedding reads an input of tokens}}
func.func @pictures(%x: tensor<1x4xf32>) {
  return
}

// -----

func.func @masked(%ids: tensor<1x4xi64>, %bias: tensor<4x4xf32>) {
  %w = nn.get @w : tensor<16x6xf32>
  %e = nn.embedding %w, %ids : (tensor<16x6xf32>, tensor<1x4xi64>) -> tensor<1x4x6xf32>
  %q = nn.reshape %e : tensor<1x4x6xf32> -> tensor<1x4x3x2xf32>
  // expected-error @below {{--mesh: context:2 does not divide the 3 heads of this attention, by which --context-attention=ulysses splits; the nearest that does is context:3}}
  %0:2 = nn.attention %q, %q, %q, %bias {scale = 1.0 : f32, causal} : (tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<4x4xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x3x4xf32>)
  return
}
nn.parameter @w : tensor<16x6xf32> trainable {onnx_name = "w"}

// -----

// Each row drops what it drops in the whole.

// CHECK-LABEL: func.func @dropped
// CHECK-SAME: %{{.*}}, %[[KEYS:.*]]: tensor<2xi64>
func.func @dropped(%ids: tensor<2x4xi64>, %keys: tensor<2xi64>) {
  %w = nn.get @w : tensor<16x8xf32>
  // CHECK: %[[E:.*]] = nn.embedding
  %e = nn.embedding %w, %ids : (tensor<16x8xf32>, tensor<2x4xi64>) -> tensor<2x4x8xf32>
  // CHECK: %[[ROWS:.*]] = nn.reshape %[[E]]
  %rows = nn.reshape %e : tensor<2x4x8xf32> -> tensor<8x8xf32>
  // CHECK: %[[ALL:.*]] = nn.iota {axis = 0 : i64} : () -> tensor<8xi64>
  // CHECK: %[[HERE:.*]] = nn.part_slice %[[ALL]] {axis = "context", dim = 0 : i64, parts = 2 : i64, sections = array<i64: 4, 4>} : (tensor<8xi64>) -> tensor<4xi64>
  // CHECK: nn.part_dropout %[[ROWS]], %[[KEYS]], %[[HERE]] {dim = 0 : i64, ratio = 5.000000e-01 : f64, samples = 2 : i64, size = 8 : i64, stream = 0 : i64}
  %0 = nn.dropout %rows, %keys {ratio = 0.5 : f64, samples = 2 : i64, stream = 0 : i64} : (tensor<8x8xf32>, tensor<2xi64>) -> tensor<8x8xf32>
  return
}
nn.parameter @w : tensor<16x8xf32> trainable {onnx_name = "w"}

// -----

// What mixes tokens in another way.
func.func @pooled(%ids: tensor<1x4xi64>) {
  %w = nn.get @w : tensor<16x8xf32>
  %e = nn.embedding %w, %ids : (tensor<16x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
  // expected-error @below {{--mesh: context:2 splits sequences, and nn.reduce_mean cannot be computed in parts of them: it reduces the dimension that is split}}
  %m = nn.reduce_mean %e {axes = array<i64: 1>} : (tensor<1x4x8xf32>) -> tensor<1x8xf32>
  return
}
nn.parameter @w : tensor<16x8xf32> trainable {onnx_name = "w"}

// -----

func.func @summed(%ids: tensor<1x4xi64>, %labels: tensor<4xi64>) {
  %w = nn.get @w : tensor<16x8xf32>
  %e = nn.embedding %w, %ids : (tensor<16x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
  %rows = nn.reshape %e : tensor<1x4x8xf32> -> tensor<4x8xf32>
  // expected-error @below {{--mesh: context:2 splits sequences, and nn.cross_entropy cannot be computed in parts of them: it sums up what ranks have parts of}}
  %s = nn.cross_entropy %rows, %labels : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %l = nn.mul %s, %half : (tensor<f32>, tensor<f32>) -> tensor<f32>
  nn.loss %l {denominator = "batches"} : tensor<f32>
  return
}
nn.parameter @w : tensor<16x8xf32> trainable {onnx_name = "w"}

// -----

// A loss of what is computed whole would count once a rank.
func.func @whole(%ids: tensor<1x4xi64>, %x: tensor<f32>) {
  %w = nn.get @w : tensor<16x8xf32>
  %e = nn.embedding %w, %ids : (tensor<16x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
  // expected-error @below {{--mesh: context:2 splits sequences, and this loss is no sum over their tokens; train the logits with --loss=causal-lm}}
  nn.loss %x {denominator = "batches"} : tensor<f32>
  return
}
nn.parameter @w : tensor<16x8xf32> trainable {onnx_name = "w"}

// -----

// Each rank's tokens choose among all experts.

// CHECK-LABEL: func.func @routed
func.func @routed(%ids: tensor<1x4xi64>) {
  %w = nn.get @w : tensor<16x8xf32>
  %e = nn.embedding %w, %ids : (tensor<16x8xf32>, tensor<1x4xi64>) -> tensor<1x4x8xf32>
  %x = nn.reshape %e : tensor<1x4x8xf32> -> tensor<4x8xf32>
  %g = nn.get @gate : tensor<8x3xf32>
  %s = nn.matmul %x, %g : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<4x3xf32>
  // CHECK: nn.top_k {{.*}} -> (tensor<2x2xf32>, tensor<2x2xi64>)
  %v, %i = nn.top_k %s {axis = 1 : i64, k = 2 : i64} : (tensor<4x3xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  %single = nn.reshape %x : tensor<4x8xf32> -> tensor<4x1x8xf32>
  %twice = nn.broadcast %single : tensor<4x1x8xf32> -> tensor<4x2x8xf32>
  %rows = nn.reshape %twice : tensor<4x2x8xf32> -> tensor<8x8xf32>
  %chosen = nn.reshape %i : tensor<4x2xi64> -> tensor<8xi64>
  %m = nn.get @experts : tensor<3x8x5xf32>
  // CHECK: nn.grouped_matmul {{.*}} : (tensor<4x8xf32>, tensor<3x8x5xf32>, tensor<4xi64>) -> tensor<4x5xf32>
  %y = nn.grouped_matmul %rows, %m, %chosen : (tensor<8x8xf32>, tensor<3x8x5xf32>, tensor<8xi64>) -> tensor<8x5xf32>
  return
}
nn.parameter @w : tensor<16x8xf32> trainable {onnx_name = "w"}
nn.parameter @gate : tensor<8x3xf32> trainable {onnx_name = "gate"}
nn.parameter @experts : tensor<3x8x5xf32> trainable {onnx_name = "experts"}
