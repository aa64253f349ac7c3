// A product, its row sums and a second product in a unit, and what backward
// reads of them.
module {
nn.parameter @h.0.w : tensor<8x8xf32> trainable {onnx_name = "h.0.w", place = #nn.place<@h.0>}

func.func @microbatch(%x: tensor<4x8xf32>) {
  %w = nn.get @h.0.w {place = #nn.place<@h.0>} : tensor<8x8xf32>
  %m = nn.matmul %x, %w {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %sum = nn.reduce_sum %m {axes = array<i64: 1>, keepdims, place = #nn.place<@h.0>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %n = nn.mul %m, %sum {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y = nn.matmul %n, %w {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %seed = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  %dy = nn.mul %y, %seed {place = #nn.place<@h.0, backward>} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %ds = nn.mul %dy, %sum {place = #nn.place<@h.0, backward>} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %dm = nn.mul %ds, %m {place = #nn.place<@h.0, backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %dw = nn.matmul %x, %dm {place = #nn.place<@h.0, backward>, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  nn.grad @h.0.w, %dw {place = #nn.place<backward>} : tensor<8x8xf32>
  return
}
}
