nn.parameter @w : tensor<6x4xf32> trainable {onnx_name = "w"}

func.func @forward() {
  %w = nn.get @w : tensor<6x4xf32>
  %p = nn.part_slice %w {axis = "context", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 6>} : (tensor<6x4xf32>) -> tensor<3x4xf32>
  %x = nn.all_to_all %p {axis = "context", parts = 2 : i64, split_dim = 1 : i64, split_sections = array<i64: 2, 2>, join_dim = 0 : i64, join_sections = array<i64: 6>} : (tensor<3x4xf32>) -> tensor<6x2xf32>
  %r = nn.part_roll %x {axis = "context", parts = 2 : i64, dim = 0 : i64, sections = array<i64: 6>} : (tensor<6x2xf32>) -> tensor<6x2xf32>
  %f = nn.part_shift %r {axis = "context", parts = 4 : i64, behind = 1 : i64} : (tensor<6x2xf32>) -> tensor<6x2xf32>
  %m = nn.mul %f, %f : (tensor<6x2xf32>, tensor<6x2xf32>) -> tensor<6x2xf32>
  %l = nn.reduce_sum %m {axes = array<i64: 0, 1>} : (tensor<6x2xf32>) -> tensor<f32>
  nn.loss %l {denominator = "batches"} : tensor<f32>
  return
}
