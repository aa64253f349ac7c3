// RUN: shardonnx-opt %s -verify-diagnostics -split-input-file

// expected-error @below {{is trainable, so its elements must be floats, not 'i64'}}
nn.parameter @p : tensor<4xi64> trainable {onnx_name = "p"}

// -----

// expected-error @below {{needs a ranked tensor type with a static shape, not 'tensor<?xf32>'}}
nn.parameter @p : tensor<?xf32> {onnx_name = "p"}

// -----

func.func @get() {
  // expected-error @below {{names @p, which is no nn.parameter}}
  %0 = nn.get @p : tensor<4xf32>
  return
}

// -----

nn.parameter @p : tensor<4xf32> {onnx_name = "p"}
func.func @get() {
  // expected-error @below {{has 'tensor<5xf32>', but @p is 'tensor<4xf32>'}}
  %0 = nn.get @p : tensor<5xf32>
  return
}

// -----

nn.parameter @p : tensor<4xf32> {onnx_name = "p"}
func.func @get() {
  // expected-error @below {{has 'tensor<4xi64>', but @p is 'tensor<4xf32>'}}
  %0 = nn.get @p : tensor<4xi64>
  return
}

// -----

nn.parameter @p : tensor<4xf32> {onnx_name = "p"}
func.func @grad(%g: tensor<4xf32>) {
  // expected-error @below {{names @p, which is not trainable}}
  nn.grad @p, %g : tensor<4xf32>
  return
}

// -----

func.func @iota() {
  // expected-error @below {{axis 2 is outside rank 2}}
  %0 = nn.iota {axis = 2 : i64} : () -> tensor<4x2xi64>
  return
}

// -----

func.func @loss(%s: tensor<f32>) {
  // expected-error @below {{denominator must be labels, elements, sum or batches, not "rows"}}
  nn.loss %s {denominator = "rows"} : tensor<f32>
  return
}

// -----

func.func @loss(%s: tensor<f32>) {
  // expected-error @below {{denominator_arg 1 is no argument of the function}}
  nn.loss %s {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
  return
}

// -----

func.func @loss(%s: tensor<f32>) {
  // expected-error @below {{denominator_arg 0 must hold integer labels}}
  nn.loss %s {denominator = "labels", denominator_arg = 0 : i64} : tensor<f32>
  return
}

// -----

func.func @loss(%s: tensor<2xf32>) {
  // expected-error @below {{takes a scalar, not 'tensor<2xf32>'}}
  nn.loss %s {denominator = "batches"} : tensor<2xf32>
  return
}

// -----

func.func @add(%a: tensor<3xf32>, %b: tensor<4xf32>) {
  // expected-error @+2 {{operand shapes do not broadcast: 'tensor<4xf32>' against [3]}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.add %a, %b : (tensor<3xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @add(%a: tensor<3xf32>, %b: tensor<3xbf16>) {
  // expected-error @+2 {{operands differ in element type: 'f32' and 'bf16'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.add %a, %b : (tensor<3xf32>, tensor<3xbf16>) -> tensor<3xf32>
  return
}

// -----

func.func @add(%a: tensor<3xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @below {{inferred type(s) 'tensor<3xf32>' are incompatible with return type(s) of operation 'tensor<4xf32>'}}
  %0 = nn.add %a, %a : (tensor<3xf32>, tensor<3xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @div(%a: tensor<3xi64>) {
  // expected-error @+2 {{operands must be floats, not 'i64'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.div %a, %a : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  return
}

// -----

func.func @cast(%a: tensor<3xf32>) {
  // expected-error @below {{keeps the shape, but goes from 'tensor<3xf32>' to 'tensor<1x3xi64>'}}
  %0 = nn.cast %a : tensor<3xf32> -> tensor<1x3xi64>
  return
}

// -----

func.func @reshape(%a: tensor<3xf32>) {
  // expected-error @below {{keeps elements and their type, but goes from 'tensor<3xf32>' to 'tensor<2x2xf32>'}}
  %0 = nn.reshape %a : tensor<3xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @transpose(%a: tensor<3x4xf32>) {
  // expected-error @+2 {{[0, 0] is no permutation of the axes of 'tensor<3x4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.transpose %a {permutation = array<i64: 0, 0>} : (tensor<3x4xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @broadcast(%a: tensor<3xf32>) {
  // expected-error @below {{cannot broadcast 'tensor<3xf32>' to 'tensor<3x2xf32>'}}
  %0 = nn.broadcast %a : tensor<3xf32> -> tensor<3x2xf32>
  return
}

// -----

func.func @slice(%a: tensor<3xf32>) {
  // expected-error @+2 {{takes 3 elements from 1 on of an axis of 3}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.slice %a {offsets = array<i64: 1>, sizes = array<i64: 3>} : (tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @concat(%a: tensor<3x2xf32>, %b: tensor<2x2xf32>) {
  // expected-error @+2 {{cannot join 'tensor<2x2xf32>' to 'tensor<3x2xf32>' along axis 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.concat %a, %b {axis = 1 : i64} : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @pad(%a: tensor<3xf32>) {
  // expected-error @+2 {{cannot pad by a negative number}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.pad %a {low = array<i64: -1>, high = array<i64: 0>} : (tensor<3xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @reduce(%a: tensor<3x4xf32>) {
  // expected-error @+2 {{axes [1, 0] are not sorted, distinct axes of 'tensor<3x4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.reduce_sum %a {axes = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<f32>
  return
}

// -----

func.func @matmul(%a: tensor<3x4xf32>) {
  // expected-error @below {{operands do not fit each other: 'tensor<3x4xf32>' and 'tensor<3x4xf32>'}}
  %0 = nn.matmul %a, %a : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @matmul(%a: tensor<3x4xf32>) {
  // expected-error @below {{gives [3, 3], not 'tensor<4x4xf32>'}}
  %0 = nn.matmul %a, %a {transpose_rhs} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @attention(%q: tensor<1x3x3x4xf32>, %k: tensor<1x3x2x4xf32>) {
  // expected-error @below {{has 3 heads, no multiple of the 2 of key and value}}
  %0:2 = nn.attention %q, %k, %k {scale = 1.0 : f32} : (tensor<1x3x3x4xf32>, tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>) -> (tensor<1x3x3x4xf32>, tensor<1x3x3xf32>)
  return
}

// -----

func.func @attention(%q: tensor<1x3x2x4xf32>, %s: tensor<3xf32>) {
  // expected-error @below {{sink must be [heads], not 'tensor<3xf32>'}}
  %0:2 = nn.attention %q, %q, %q sink(%s) {scale = 1.0 : f32} : (tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>, tensor<3xf32>) -> (tensor<1x3x2x4xf32>, tensor<1x2x3xf32>)
  return
}

// -----

func.func @attention(%q: tensor<1x3x2x4xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{has a sink, which every query sees}}
  %0:2 = nn.attention %q, %q, %q sink(%s) {scale = 1.0 : f32, unguarded} : (tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>, tensor<2xf32>) -> (tensor<1x3x2x4xf32>, tensor<1x2x3xf32>)
  return
}

// -----

func.func @attention(%q: tensor<1x3x2x4xf32>, %m: tensor<1x1x3x3xi1>, %s: tensor<2xf32>) {
  // expected-error @below {{has a sink, beside which what is hidden weighs nothing}}
  %0:2 = nn.attention %q, %q, %q, %m sink(%s) {scale = 1.0 : f32, hidden = -1.0e+9 : f32} : (tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>, tensor<1x1x3x3xi1>, tensor<2xf32>) -> (tensor<1x3x2x4xf32>, tensor<1x2x3xf32>)
  return
}

// -----

func.func @attention(%q: tensor<1x3x2x4xf32>, %m: tensor<3x4xi1>) {
  // expected-error @below {{mask 'tensor<3x4xi1>' does not broadcast to [batch, heads, seqQ, seqK] = [1, 2, 3, 3]}}
  %0:2 = nn.attention %q, %q, %q, %m {scale = 1.0 : f32} : (tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>, tensor<3x4xi1>) -> (tensor<1x3x2x4xf32>, tensor<1x2x3xf32>)
  return
}

// -----

func.func @rotary(%x: tensor<1x3x2x4xf32>, %c: tensor<3x3xf32>) {
  // expected-error @below {{cos and sin must be [seq, d] with 2·d ≤ headDim, not 'tensor<3x3xf32>' and 'tensor<3x3xf32>'}}
  %0 = nn.rotary %x, %c, %c : (tensor<1x3x2x4xf32>, tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<1x3x2x4xf32>
  return
}

// -----

func.func @embedding_grad(%i: tensor<3xi64>, %g: tensor<3x4xf32>) {
  // expected-error @below {{cannot add rows 'tensor<3x4xf32>' at ids 'tensor<3xi64>' to a table 'tensor<8x5xf32>'}}
  %0 = nn.embedding_grad %i, %g : (tensor<3xi64>, tensor<3x4xf32>) -> tensor<8x5xf32>
  return
}

// -----

func.func @norm(%x: tensor<3x4xf32>, %w: tensor<3xf32>) {
  // expected-error @+2 {{weight and bias must be [4], not 'tensor<3xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0:2 = nn.rms_norm %x, %w {epsilon = 1.0e-5 : f32} : (tensor<3x4xf32>, tensor<3xf32>) -> (tensor<3x4xf32>, tensor<3x1xf32>)
  return
}

// -----

func.func @cross_entropy(%x: tensor<3x4xf32>, %l: tensor<4xi64>) {
  // expected-error @+2 {{needs rows [n, width] and labels [n], not 'tensor<3x4xf32>' and 'tensor<4xi64>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.cross_entropy %x, %l : (tensor<3x4xf32>, tensor<4xi64>) -> tensor<f32>
  return
}

// -----

func.func @linear_cross_entropy(%x: tensor<3x4xf32>, %w: tensor<5x4xf32>, %l: tensor<3xi64>) {
  // expected-error @+2 {{operand and weight do not fit each other: 'tensor<3x4xf32>' and 'tensor<5x4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.linear_cross_entropy %x, %w, %l : (tensor<3x4xf32>, tensor<5x4xf32>, tensor<3xi64>) -> tensor<f32>
  return
}

// -----

func.func @fused(%a: tensor<4x8xf32>) {
  // expected-error @+2 {{expected rows or columns}}
  %0 = nn.fused
    cells [4, 8] (%x = %a : tensor<4x8xf32>) -> tensor<4x8xf32> {
    nn.yield %x : tensor<4x8xf32>
  }
  return
}

// -----

func.func @fused(%a: tensor<4x8xf32>) {
  %0 = nn.fused rows [4, 8] (%x = %a : tensor<4x8xf32>) -> tensor<8x4xf32> {
    // expected-error @below {{cannot be part of a fused group}}
    %y = nn.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x8xf32>) -> tensor<8x4xf32>
    nn.yield %y : tensor<8x4xf32>
  }
  return
}

// -----

func.func @fused(%a: tensor<2x4x8xf32>) {
  %0 = nn.fused rows [2, 4, 8] (%x = %a : tensor<2x4x8xf32>) -> tensor<4x8xf32> {
    // expected-error @below {{must reduce the last axis of the domain, and keep it}}
    %y = nn.reduce_sum %x {axes = array<i64: 0>} : (tensor<2x4x8xf32>) -> tensor<4x8xf32>
    nn.yield %y : tensor<4x8xf32>
  }
  return
}

// -----

func.func @fused(%a: tensor<4x8xf32>) {
  %0 = nn.fused rows [4, 8] (%x = %a : tensor<4x8xf32>) -> tensor<4x8xf32> {
    // expected-error @below {{over rows must be a sum that is only yielded}}
    %y = nn.reduce_sum %x {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
    %z = nn.mul %x, %y : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    nn.yield %z : tensor<4x8xf32>
  }
  return
}

// -----

func.func @fused(%a: tensor<4x8xf32>) {
  %0 = nn.fused columns [4, 8] (%x = %a : tensor<4x8xf32>) -> tensor<4x8xf32> {
    // expected-error @below {{of a column reduction yields reduce_sums}}
    nn.yield %x : tensor<4x8xf32>
  }
  return
}

// -----

func.func @fused(%a: tensor<4x8xf32>) {
  %0 = nn.fused rows [4, 8] (%x = %a : tensor<4x8xf32>) -> tensor<8xf32> {
    // expected-error @below {{yields other types than the group's results}}
    nn.yield %x : tensor<4x8xf32>
  }
  return
}

// -----

func.func @epilogue(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8xbf16>) {
  // expected-error @below {{bias has the side operand 'tensor<8xf32>'}}
  %0 = nn.matmul_epilogue bias %a, %b, %c : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xbf16>) -> tensor<4x8xf32>
  return
}

// -----

func.func @epilogue(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8xf32>) {
  // expected-error @below {{gelu_bias has the extra result 'tensor<4x8xf32>'}}
  %0 = nn.matmul_epilogue gelu_bias %a, %b, %c : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @epilogue(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>, %c: tensor<4x8xf32>) {
  // expected-error @below {{dgelu has no extra result}}
  %0, %1 = nn.matmul_epilogue dgelu %a, %b, %c : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @epilogue(%a: tensor<2x4x8xf32>, %b: tensor<8x8xf32>) {
  // expected-error @below {{has a product of two axes}}
  %0, %1 = nn.matmul_epilogue bgrad %a, %b : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> (tensor<2x4x8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @first_keys(%q: tensor<1x3x2x4xf32>, %m: tensor<1x1x3x3xi32>) {
  // expected-error @below {{first keys must be [batch, 1, seqQ, 1], not 'tensor<1x1x3x3xi32>'}}
  %0:2 = nn.attention %q, %q, %q, %m {scale = 1.0 : f32} : (tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>, tensor<1x3x2x4xf32>, tensor<1x1x3x3xi32>) -> (tensor<1x3x2x4xf32>, tensor<1x2x3xf32>)
  return
}

// -----

func.func @dropout(%x: tensor<3x4xf32>, %r: tensor<2xi64>) {
  // expected-error @below {{ratio must be above 0 and below 1}}
  %0 = nn.dropout %x, %r {ratio = 1.0 : f64, samples = 3 : i64, stream = 0 : i64} : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @dropout(%x: tensor<3x4xf32>, %r: tensor<2xi64>) {
  // expected-error @below {{stream 1 has no key in 'tensor<2xi64>'}}
  %0 = nn.dropout %x, %r {ratio = 0.5 : f64, samples = 3 : i64, stream = 1 : i64} : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @dropout(%x: tensor<3x4xf32>, %r: tensor<2xi64>) {
  // expected-error @below {{axis 0 of 'tensor<3x4xf32>' is not made of 2 samples}}
  %0 = nn.dropout %x, %r {ratio = 0.5 : f64, samples = 2 : i64, stream = 0 : i64} : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @uniform(%r: tensor<2xi64>) {
  // expected-error @below {{axis 0 of 'tensor<3x4xf32>' is not made of 2 samples}}
  %0 = nn.random_uniform %r {samples = 2 : i64, stream = 0 : i64} : (tensor<2xi64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @axis(%x: tensor<4xf32>) {
  // expected-error @below {{is of an axis 'expert', which no mesh has}}
  %0 = nn.all_reduce %x {axis = "expert", parts = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @axis(%x: tensor<4xf32>) {
  // expected-error @below {{needs an axis of several ranks, not of 1}}
  %0 = nn.vary %x {axis = "tensor", parts = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

module attributes {nn.mesh = {tensor = 4 : i64}} {
  func.func @axis(%x: tensor<4xf32>) {
    // expected-error @below {{is of 2 ranks, but axis 'tensor' has 4}}
    %0 = nn.all_reduce %x {axis = "tensor", parts = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
    return
  }
}

// -----

func.func @sections(%x: tensor<9xf32>) {
  // expected-error @+2 {{2 ranks do not divide a section of 3}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.all_slice %x {axis = "tensor", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 6, 3>} : (tensor<9xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @sections(%x: tensor<4xf32>) {
  // expected-error @+2 {{sections of 12 need 6 along dimension 0 of 'tensor<4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.all_gather %x {axis = "tensor", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 8, 4>} : (tensor<4xf32>) -> tensor<12xf32>
  return
}

// -----

func.func @dropped(%x: tensor<3x4xf32>, %r: tensor<2xi64>, %p: tensor<2xi64>) {
  // expected-error @below {{positions 'tensor<2xi64>' are not those of dimension 0 of 'tensor<3x4xf32>', before its last, among 6}}
  %0 = nn.part_dropout %x, %r, %p {ratio = 0.5 : f64, samples = 3 : i64, stream = 0 : i64, dim = 0 : i64, size = 6 : i64} : (tensor<3x4xf32>, tensor<2xi64>, tensor<2xi64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @roll(%x: tensor<8xf32>) {
  // expected-error @below {{rolls one section, not 2}}
  %0 = nn.part_roll %x {axis = "context", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 4, 4>} : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @exchange(%x: tensor<2x6xf32>) {
  // expected-error @+2 {{splits and joins one dimension, 1}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.all_to_all %x {axis = "context", parts = 2 : i64, split_dim = 1 : i64, split_sections = array<i64: 6>, join_dim = 1 : i64, join_sections = array<i64: 6>} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  return
}

// -----

func.func @exchange(%x: tensor<2x6xf32>) {
  // expected-error @+2 {{sections of 8 need 8 along dimension 1 of 'tensor<4x6xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.all_to_all %x {axis = "context", parts = 2 : i64, split_dim = 1 : i64, split_sections = array<i64: 8>, join_dim = 0 : i64, join_sections = array<i64: 4>} : (tensor<2x6xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @sections(%x: tensor<4xf32>) {
  // expected-error @+2 {{dimension 1 is outside of 'tensor<4xf32>'}}
  // expected-error @below {{failed to infer returned types}}
  %0 = nn.all_gather %x {axis = "tensor", parts = 2 : i64, dim = 1 : i64, sections = array<i64: 8>} : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @words(%x: tensor<3x8xf32>, %w: tensor<5x4xf32>, %labels: tensor<3xi64>) {
  // expected-error @below {{operand, weight and labels do not fit each other: 'tensor<3x8xf32>', 'tensor<5x4xf32>' and 'tensor<3xi64>'}}
  %0 = nn.linear_cross_entropy_part %x, %w, %labels {axis = "tensor", parts = 2 : i64, transpose_weight} : (tensor<3x8xf32>, tensor<5x4xf32>, tensor<3xi64>) -> tensor<f32>
  return
}

// -----

func.func @words(%t: tensor<5x4xf32>, %ids: tensor<3xi64>) {
  // expected-error @below {{has 2 rows that are no words, of 5 on 2 ranks}}
  %0 = nn.embedding_part %t, %ids {axis = "tensor", padding = 2 : i64, parts = 2 : i64} : (tensor<5x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @words(%t: tensor<5x4xf32>, %ids: tensor<3xi64>) {
  // expected-error @below {{is of an axis 'words', which no mesh has}}
  %0 = nn.embedding_part %t, %ids {axis = "words", parts = 2 : i64} : (tensor<5x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @words(%ids: tensor<3xi64>, %g: tensor<3x4xf32>) {
  // expected-error @below {{cannot add rows 'tensor<3x4xf32>' at ids 'tensor<3xi64>' to a table 'tensor<5x8xf32>'}}
  %0 = nn.embedding_part_grad %ids, %g {axis = "tensor", parts = 2 : i64} : (tensor<3xi64>, tensor<3x4xf32>) -> tensor<5x8xf32>
  return
}

// -----

func.func @pairs(%x: tensor<12xf32>) {
  // expected-error @below {{has a zigzag of 3 sections, not of equal pairs}}
  %0 = nn.part_slice %x {axis = "context", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 4, 4, 4>, zigzag} : (tensor<12xf32>) -> tensor<6xf32>
  return
}

// -----

func.func @around(%x: tensor<12xf32>) {
  // expected-error @below {{is of a rank 2 behind, of 2}}
  %0 = nn.part_shift %x {axis = "context", parts = 2 : i64, behind = 2 : i64} : (tensor<12xf32>) -> tensor<12xf32>
  return
}

// -----

func.func @contiguous(%x: tensor<1x4x2x2xf32>) {
  // expected-error @below {{is causal, and needs a zigzag of one sequence}}
  %0:2 = nn.ring_attention %x, %x, %x {scale = 1.0 : f32, causal, axis = "context", parts = 2 : i64} : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @columns(%x: tensor<1x4x2x2xf32>, %m: tensor<4x4xi1>) {
  // expected-error @below {{mask 'tensor<4x4xi1>' is neither of this rank's first keys nor of all scores of its queries}}
  %0:2 = nn.ring_attention %x, %x, %x, %m {scale = 1.0 : f32, axis = "context", parts = 2 : i64} : (tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<4x4xi1>) -> (tensor<1x4x2x2xf32>, tensor<1x2x4xf32>)
  return
}

// -----

func.func @ring(%q: tensor<1x4x3x2xf32>, %k: tensor<1x4x2x2xf32>) {
  // expected-error @below {{has 3 heads, no multiple of the 2 of key and value}}
  %0:2 = nn.ring_attention %q, %k, %k {scale = 1.0 : f32, axis = "context", parts = 2 : i64} : (tensor<1x4x3x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>) -> (tensor<1x4x3x2xf32>, tensor<1x3x4xf32>)
  return
}
