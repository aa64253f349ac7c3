// RUN: shardonnx-opt %s | shardonnx-opt | FileCheck %s
// RUN: shardonnx-opt --mlir-print-op-generic %s | shardonnx-opt | FileCheck %s

// CHECK: nn.parameter @wte.weight : tensor<32x8xf32> trainable {onnx_name = "wte"}
nn.parameter @wte.weight : tensor<32x8xf32> trainable {onnx_name = "wte"}
// CHECK: nn.parameter @table : tensor<4x2xi64> {onnx_name = "table", source = #nn.external<file = "w.bin", offset = 16, length = 64, elementType = i64>}
nn.parameter @table : tensor<4x2xi64> {onnx_name = "table", source = #nn.external<file = "w.bin", offset = 16, length = 64, elementType = i64>}

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<4x8xf32>, %b: tensor<8xf32>, %c: tensor<4x1xi1>) -> tensor<4x8xf32> {
  // CHECK: nn.constant dense<5.000000e-01> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  // CHECK: nn.add %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %0 = nn.add %x, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: nn.mul %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  %1 = nn.mul %0, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  // CHECK: nn.gelu %{{.*}} {tanh} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = nn.gelu %1 {tanh} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: nn.compare gt %{{.*}}, %{{.*}} : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
  %3 = nn.compare gt %2, %half : (tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xi1>
  %4 = nn.and %3, %c : (tensor<4x8xi1>, tensor<4x1xi1>) -> tensor<4x8xi1>
  // CHECK: nn.select
  %5 = nn.select %4, %2, %half : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
  // CHECK: nn.cast %{{.*}} : tensor<4x8xf32> -> tensor<4x8xbf16>
  %6 = nn.cast %5 : tensor<4x8xf32> -> tensor<4x8xbf16>
  %7 = nn.cast %6 : tensor<4x8xbf16> -> tensor<4x8xf32>
  return %7 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: tensor<2x3x4xf32>) -> (tensor<12xf32>, tensor<2x3x1xf32>) {
  // CHECK: nn.reshape %{{.*}} : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %0 = nn.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  // CHECK: nn.transpose %{{.*}} {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  %1 = nn.transpose %0 {permutation = array<i64: 1, 0>} : (tensor<6x4xf32>) -> tensor<4x6xf32>
  // CHECK: nn.slice %{{.*}} {offsets = array<i64: 0, 1>, sizes = array<i64: 4, 3>}
  %2 = nn.slice %1 {offsets = array<i64: 0, 1>, sizes = array<i64: 4, 3>} : (tensor<4x6xf32>) -> tensor<4x3xf32>
  // CHECK: nn.pad
  %3 = nn.pad %2 {low = array<i64: 0, 1>, high = array<i64: 0, 2>} : (tensor<4x3xf32>) -> tensor<4x6xf32>
  // CHECK: nn.concat %{{.*}}, %{{.*}} {axis = 1 : i64}
  %4 = nn.concat %1, %3 {axis = 1 : i64} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x12xf32>
  // CHECK: nn.reduce_sum %{{.*}} {axes = array<i64: 0>}
  %5 = nn.reduce_sum %4 {axes = array<i64: 0>} : (tensor<4x12xf32>) -> tensor<12xf32>
  // CHECK: nn.reduce_max %{{.*}} {axes = array<i64: 2>, keepdims}
  %6 = nn.reduce_max %x {axes = array<i64: 2>, keepdims} : (tensor<2x3x4xf32>) -> tensor<2x3x1xf32>
  // CHECK: nn.broadcast %{{.*}} : tensor<2x3x1xf32> -> tensor<2x3x4xf32>
  %7 = nn.broadcast %6 : tensor<2x3x1xf32> -> tensor<2x3x4xf32>
  // CHECK: nn.iota {axis = 0 : i64} : () -> tensor<4x2xi64>
  %8 = nn.iota {axis = 0 : i64} : () -> tensor<4x2xi64>
  return %5, %6 : tensor<12xf32>, tensor<2x3x1xf32>
}

// CHECK-LABEL: func.func @model
func.func @model(%ids: tensor<2x4xi64>, %labels: tensor<8xi64>) {
  // CHECK: nn.get @wte.weight : tensor<32x8xbf16>
  %w = nn.get @wte.weight : tensor<32x8xbf16>
  // CHECK: nn.embedding
  %x = nn.embedding %w, %ids : (tensor<32x8xbf16>, tensor<2x4xi64>) -> tensor<2x4x8xbf16>
  // CHECK: nn.rotary_table {inv_freq = array<f32: 1.000000e+00, 5.000000e-01>, length = 4 : i64}
  %cos, %sin = nn.rotary_table {inv_freq = array<f32: 1.0, 0.5>, length = 4 : i64} : () -> (tensor<4x2xf32>, tensor<4x2xf32>)
  %h = nn.reshape %x : tensor<2x4x8xbf16> -> tensor<2x4x2x4xbf16>
  // CHECK: nn.rotary
  %q = nn.rotary %h, %cos, %sin : (tensor<2x4x2x4xbf16>, tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<2x4x2x4xbf16>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} {causal, scale = 5.000000e-01 : f32}
  %a, %lse = nn.attention %q, %q, %h {causal, scale = 0.5 : f32} : (tensor<2x4x2x4xbf16>, tensor<2x4x2x4xbf16>, tensor<2x4x2x4xbf16>) -> (tensor<2x4x2x4xbf16>, tensor<2x2x4xf32>)
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} sink(%[[SINK:.*]]) {scale
  %sink = nn.constant dense<1.0> : tensor<2xf32>
  %as, %lses = nn.attention %q, %q, %h sink(%sink) {scale = 0.5 : f32} : (tensor<2x4x2x4xbf16>, tensor<2x4x2x4xbf16>, tensor<2x4x2x4xbf16>, tensor<2xf32>) -> (tensor<2x4x2x4xbf16>, tensor<2x2x4xf32>)
  %r = nn.reshape %a : tensor<2x4x2x4xbf16> -> tensor<8x8xbf16>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {transpose_rhs} : (tensor<8x8xbf16>, tensor<32x8xbf16>) -> tensor<8x32xbf16>
  %logits = nn.matmul %r, %w {transpose_rhs} : (tensor<8x8xbf16>, tensor<32x8xbf16>) -> tensor<8x32xbf16>
  // CHECK: nn.cross_entropy %{{.*}}, %{{.*}} : (tensor<8x32xbf16>, tensor<8xi64>) -> tensor<f32>
  %sum = nn.cross_entropy %logits, %labels : (tensor<8x32xbf16>, tensor<8xi64>) -> tensor<f32>
  // CHECK: nn.loss %{{.*}} {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
  nn.loss %sum {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
  %scale = nn.loss_scale {place = #nn.place<backward>} : tensor<f32>
  %grad = nn.broadcast %scale {place = #nn.place<backward>} : tensor<f32> -> tensor<32x8xf32>
  // CHECK: nn.grad @wte.weight, %{{.*}} : tensor<32x8xf32>
  nn.grad @wte.weight, %grad {place = #nn.place<backward>} : tensor<32x8xf32>
  return
}

// CHECK-LABEL: func.func @fused
func.func @fused(%a: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  // CHECK: nn.fused rows [4, 8] (%[[X:.*]] = %{{.*}} : tensor<4x8xf32>, %{{.*}} = %{{.*}} : tensor<8xf32>) -> tensor<4x8xf32> attributes {place = #nn.place<@block>} {
  // CHECK-NEXT: nn.reduce_sum %[[X]]
  %0 = nn.fused rows [4, 8] (%x = %a : tensor<4x8xf32>, %y = %b : tensor<8xf32>) -> tensor<4x8xf32> attributes {place = #nn.place<@block>} {
    %s = nn.reduce_sum %x {axes = array<i64: 1>, keepdims} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %z = nn.mul %s, %y : (tensor<4x1xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    nn.yield %z : tensor<4x8xf32>
  }
  // CHECK: nn.fused columns [4, 8]
  %1 = nn.fused columns [4, 8] (%x = %a : tensor<4x8xf32>) -> tensor<8xf32> {
    %z = nn.mul %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    %s = nn.reduce_sum %z {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
    nn.yield %s : tensor<8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @epilogues
func.func @epilogues(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>, %c: tensor<8xf32>) {
  // CHECK: %{{.*}} = nn.matmul_epilogue bias %arg0, %arg1, %arg2 {transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %0 = nn.matmul_epilogue bias %a, %b, %c {transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  // CHECK: %{{.*}}, %[[X:.*]] = nn.matmul_epilogue gelu_bias
  %1, %x = nn.matmul_epilogue gelu_bias %a, %b, %c : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  // CHECK: nn.matmul_epilogue dgelu %arg0, %arg1, %[[X]]
  %2 = nn.matmul_epilogue dgelu %a, %b, %x : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: nn.matmul_epilogue bgrad %arg0, %{{.*}} {transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  %3, %s = nn.matmul_epilogue bgrad %a, %2 {transpose_lhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  return
}
