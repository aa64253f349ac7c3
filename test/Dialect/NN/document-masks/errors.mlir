// RUN: shardonnx-opt %s --nn-document-masks=separator=7 -split-input-file -verify-diagnostics

nn.parameter @w : tensor<8x6xf32> trainable {onnx_name = "w"}
func.func @forward(%ids: tensor<2x4xi64> {nn.name = "input_ids"}) {
  %w = nn.get @w : tensor<8x6xf32>
  %x = nn.embedding %w, %ids : (tensor<8x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %q = nn.reshape %x : tensor<2x4x6xf32> -> tensor<2x4x1x6xf32>
  // expected-error @below {{--document-separator: attention sees later positions too, and only causal attention can be kept within documents}}
  %a, %l = nn.attention %q, %q, %q {scale = 1.0 : f32} : (tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>) -> (tensor<2x4x1x6xf32>, tensor<2x1x4xf32>)
  %s = nn.reduce_sum %q {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x4x1x6xf32>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 0 : i64} : tensor<f32>
  return
}

// -----

nn.parameter @w : tensor<8x6xf32> trainable {onnx_name = "w"}
func.func @forward(%ids: tensor<2x4xi64> {nn.name = "input_ids"}, %m: tensor<1x1x4x4xi1>) {
  %w = nn.get @w : tensor<8x6xf32>
  %x = nn.embedding %w, %ids : (tensor<8x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %q = nn.reshape %x : tensor<2x4x6xf32> -> tensor<2x4x1x6xf32>
  // expected-error @below {{--document-separator: attention has a mask of its own, which cannot be joined with the documents'}}
  %a, %l = nn.attention %q, %q, %q, %m {scale = 1.0 : f32, causal} : (tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>, tensor<1x1x4x4xi1>) -> (tensor<2x4x1x6xf32>, tensor<2x1x4xf32>)
  %s = nn.reduce_sum %q {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x4x1x6xf32>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 0 : i64} : tensor<f32>
  return
}

// -----

nn.parameter @w : tensor<8x12xf32> trainable {onnx_name = "w"}
func.func @forward(%ids: tensor<2x4xi64> {nn.name = "input_ids"}) {
  %w = nn.get @w : tensor<8x12xf32>
  %x = nn.embedding %w, %ids : (tensor<8x12xf32>, tensor<2x4xi64>) -> tensor<2x4x12xf32>
  %q = nn.reshape %x : tensor<2x4x12xf32> -> tensor<2x4x1x12xf32>
  %p = nn.reshape %x : tensor<2x4x12xf32> -> tensor<2x3x4x4xf32>
  // expected-error @below {{--document-separator: this softmax mixes positions but was not recognised as attention}}
  %o = nn.softmax %p : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %s = nn.reduce_sum %q {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x4x1x12xf32>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 0 : i64} : tensor<f32>
  return
}

// -----

nn.parameter @w : tensor<8x6xf32> trainable {onnx_name = "w"}
// expected-error @below {{--document-separator: the graph has no attention that it could keep within documents}}
func.func @forward(%ids: tensor<2x4xi64> {nn.name = "input_ids"}) {
  %w = nn.get @w : tensor<8x6xf32>
  %x = nn.embedding %w, %ids : (tensor<8x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %q = nn.reshape %x : tensor<2x4x6xf32> -> tensor<2x4x1x6xf32>
  %s = nn.reduce_sum %q {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x4x1x6xf32>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 0 : i64} : tensor<f32>
  return
}

// -----

nn.parameter @w : tensor<8x6xf32> trainable {onnx_name = "w"}
// expected-error @below {{--document-separator: the loss of this graph does not count labels}}
func.func @forward(%ids: tensor<2x4xi64> {nn.name = "input_ids"}) {
  %w = nn.get @w : tensor<8x6xf32>
  %x = nn.embedding %w, %ids : (tensor<8x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %q = nn.reshape %x : tensor<2x4x6xf32> -> tensor<2x4x1x6xf32>
  %a, %l = nn.attention %q, %q, %q {scale = 1.0 : f32, causal} : (tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>) -> (tensor<2x4x1x6xf32>, tensor<2x1x4xf32>)
  %s = nn.reduce_sum %q {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x4x1x6xf32>) -> tensor<f32>
  nn.loss %s {denominator = "batches"} : tensor<f32>
  return
}

// -----

nn.parameter @w : tensor<5x6xf32> trainable {onnx_name = "w"}
// expected-error @below {{--document-separator: 7 is outside the vocabulary of 5}}
func.func @forward(%ids: tensor<2x4xi64> {nn.name = "input_ids"}) {
  %w = nn.get @w : tensor<5x6xf32>
  %x = nn.embedding %w, %ids : (tensor<5x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %q = nn.reshape %x : tensor<2x4x6xf32> -> tensor<2x4x1x6xf32>
  %a, %l = nn.attention %q, %q, %q {scale = 1.0 : f32, causal} : (tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>) -> (tensor<2x4x1x6xf32>, tensor<2x1x4xf32>)
  %s = nn.reduce_sum %q {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x4x1x6xf32>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 0 : i64} : tensor<f32>
  return
}

// -----

// expected-error @below {{--document-separator: no embedding reads an input of tokens}}
func.func @forward(%x: tensor<2x4xf32>) {
  %s = nn.reduce_sum %x {axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<f32>
  nn.loss %s {denominator = "batches"} : tensor<f32>
  return
}

// -----

nn.parameter @w : tensor<8x6xf32> trainable {onnx_name = "w"}
// expected-error @below {{--document-separator: the input position_ids is 'tensor<1x4xi64>'}}
func.func @forward(%ids: tensor<2x4xi64> {nn.name = "input_ids"}, %p: tensor<1x4xi64> {nn.name = "position_ids"}) {
  %w = nn.get @w : tensor<8x6xf32>
  %x = nn.embedding %w, %ids : (tensor<8x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %q = nn.reshape %x : tensor<2x4x6xf32> -> tensor<2x4x1x6xf32>
  %a, %l = nn.attention %q, %q, %q {scale = 1.0 : f32, causal} : (tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>) -> (tensor<2x4x1x6xf32>, tensor<2x1x4xf32>)
  %s = nn.reduce_sum %q {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x4x1x6xf32>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 0 : i64} : tensor<f32>
  return
}

// -----

// What transformers makes of positions that restart, where no mask is given.
nn.parameter @w : tensor<8x6xf32> trainable {onnx_name = "w"}
func.func @forward(%ids: tensor<2x4xi64> {nn.name = "input_ids"}, %positions: tensor<2x4xi64> {nn.name = "position_ids"}) {
  %w = nn.get @w : tensor<8x6xf32>
  %x = nn.embedding %w, %ids : (tensor<8x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %q = nn.reshape %x : tensor<2x4x6xf32> -> tensor<2x4x1x6xf32>
  %r = nn.reshape %positions : tensor<2x4xi64> -> tensor<2x1x4x1xi64>
  %c = nn.reshape %positions : tensor<2x4xi64> -> tensor<2x1x1x4xi64>
  %m = nn.compare le %c, %r : (tensor<2x1x1x4xi64>, tensor<2x1x4x1xi64>) -> tensor<2x1x4x4xi1>
  // expected-error @below {{--document-separator: attention has a mask of the graph's own that is computed from position_ids, as transformers has one where no attention_mask comes with them: export the model with both, or with neither}}
  %a, %l = nn.attention %q, %q, %q, %m {scale = 1.0 : f32} : (tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>, tensor<2x4x1x6xf32>, tensor<2x1x4x4xi1>) -> (tensor<2x4x1x6xf32>, tensor<2x1x4xf32>)
  %s = nn.reduce_sum %q {axes = array<i64: 0, 1, 2, 3>} : (tensor<2x4x1x6xf32>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 0 : i64} : tensor<f32>
  return
}

// -----

nn.parameter @w : tensor<8x6xf32> trainable {onnx_name = "w"}
func.func @forward(%ids: tensor<2x4xi64> {nn.name = "input_ids"}) {
  %w = nn.get @w : tensor<8x6xf32>
  %x = nn.embedding %w, %ids : (tensor<8x6xf32>, tensor<2x4xi64>) -> tensor<2x4x6xf32>
  %t = nn.transpose %x {permutation = array<i64: 1, 0, 2>} : (tensor<2x4x6xf32>) -> tensor<4x2x6xf32>
  %q = nn.reshape %t : tensor<4x2x6xf32> -> tensor<1x4x2x6xf32>
  // expected-error @below {{--document-separator: attention has its samples among its heads, as nn.MultiheadAttention does; let the module use scaled_dot_product_attention}}
  %a, %l = nn.attention %q, %q, %q {scale = 1.0 : f32, causal} : (tensor<1x4x2x6xf32>, tensor<1x4x2x6xf32>, tensor<1x4x2x6xf32>) -> (tensor<1x4x2x6xf32>, tensor<1x2x4xf32>)
  %s = nn.reduce_sum %q {axes = array<i64: 0, 1, 2, 3>} : (tensor<1x4x2x6xf32>) -> tensor<f32>
  nn.loss %s {denominator = "labels", denominator_arg = 0 : i64} : tensor<f32>
  return
}
