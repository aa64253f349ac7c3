// RUN: shardonnx-opt %s --nn-assign-dtypes="param-dtype=bf16" | FileCheck %s

// A depthwise convolution takes its parameter's type, as a product does, where
// what enters the unit is not cast.
module attributes {nn.unit_policies = {
    h.1 = {param_dtype = f32}, h.0 = {cast_forward_inputs = false}}} {
nn.parameter @w : tensor<4x3xf32> trainable {onnx_name = "w", place = #nn.place<@h.0>}
nn.parameter @f : tensor<9x9xf32> trainable {onnx_name = "f", place = #nn.place<@h.1>}
// CHECK: nn.depthwise_conv %{{.*}} : (tensor<2x4x9xbf16>, tensor<4x3xbf16>) -> tensor<2x4x7xbf16>
func.func @forward(%x: tensor<8x9xf32> {nn.name = "x"}) -> tensor<2x4x7xf32> {
  %w = nn.get @w {place = #nn.place<@h.0>} : tensor<4x3xf32>
  %f = nn.get @f {place = #nn.place<@h.1>} : tensor<9x9xf32>
  %h = nn.matmul %x, %f {place = #nn.place<@h.1>} : (tensor<8x9xf32>, tensor<9x9xf32>) -> tensor<8x9xf32>
  %r = nn.reshape %h {place = #nn.place<@h.1>} : tensor<8x9xf32> -> tensor<2x4x9xf32>
  %y = nn.depthwise_conv %r, %w {place = #nn.place<@h.0>, strides = array<i64: 1>, dilations = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>} : (tensor<2x4x9xf32>, tensor<4x3xf32>) -> tensor<2x4x7xf32>
  return %y : tensor<2x4x7xf32>
}
}
