// A product, its row sums and a second product in a unit, and what backward
// reads of them.
module {
nn.parameter @h.0.w : tensor<8x8xf32> trainable {nn.unit = @h.0, onnx_name = "h.0.w"}

func.func @microbatch(%x: tensor<4x8xf32>) {
  %w = nn.get @h.0.w {nn.unit = @h.0} : tensor<8x8xf32>
  %m = nn.matmul %x, %w {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %sum = nn.reduce_sum %m {axes = array<i64: 1>, keepdims, nn.unit = @h.0} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %n = nn.mul %m, %sum {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %y = nn.matmul %n, %w {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %seed = nn.loss_scale : tensor<f32>
  %dy = nn.mul %y, %seed {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %ds = nn.mul %dy, %sum {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %dm = nn.mul %ds, %m {nn.unit = @h.0} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %dw = nn.matmul %x, %dm {nn.unit = @h.0, transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  nn.grad @h.0.w, %dw : tensor<8x8xf32>
  return
}
}
