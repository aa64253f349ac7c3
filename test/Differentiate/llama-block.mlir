// RUN: shardonnx-opt %s --nn-attach-loss --nn-differentiate --canonicalize --cse | FileCheck %s
//
// One Llama block: rotary, grouped heads, a gated unit, an untied head.

// CHECK-LABEL: func.func @microbatch
// CHECK: %[[COS:.*]], %[[SIN:.*]] = nn.rotary_table
// CHECK: nn.linear_cross_entropy_grad
// CHECK: nn.grad @head
// CHECK: nn.grad @down
// CHECK: nn.grad @up
// CHECK: nn.sigmoid
// CHECK: nn.grad @gate
// CHECK: nn.attention_grad {{.*}} -> (tensor<2x3x4x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>)
// The gradient of a rotation rotates back.
// CHECK: nn.rotary %{{.*}}, %[[COS]], %[[SIN]] {inverse, place = #nn.place<backward>}
// CHECK: nn.rotary %{{.*}}, %[[COS]], %[[SIN]] {inverse, place = #nn.place<backward>}
// CHECK: nn.grad @ln
// CHECK: nn.grad @embed
nn.parameter @embed : tensor<32x16xf32> trainable {onnx_name = "embed"}
nn.parameter @ln : tensor<16xf32> trainable {onnx_name = "ln"}
nn.parameter @q : tensor<16x16xf32> trainable {onnx_name = "q"}
nn.parameter @k : tensor<8x16xf32> trainable {onnx_name = "k"}
nn.parameter @v : tensor<8x16xf32> trainable {onnx_name = "v"}
nn.parameter @gate : tensor<24x16xf32> trainable {onnx_name = "gate"}
nn.parameter @up : tensor<24x16xf32> trainable {onnx_name = "up"}
nn.parameter @down : tensor<16x24xf32> trainable {onnx_name = "down"}
nn.parameter @head : tensor<32x16xf32> trainable {onnx_name = "head"}
func.func @forward(%ids: tensor<2x3xi64> {nn.kind = "tokens", nn.name = "input_ids"}) -> (tensor<2x3x32xf32> {nn.name = "logits"}) {
  %embed = nn.get @embed : tensor<32x16xf32>
  %e = nn.embedding %embed, %ids : (tensor<32x16xf32>, tensor<2x3xi64>) -> tensor<2x3x16xf32>
  %x = nn.reshape %e : tensor<2x3x16xf32> -> tensor<6x16xf32>
  %ln = nn.get @ln : tensor<16xf32>
  %n, %rstd = nn.rms_norm %x, %ln {epsilon = 1.0e-5 : f32} : (tensor<6x16xf32>, tensor<16xf32>) -> (tensor<6x16xf32>, tensor<6x1xf32>)
  %cos, %sin = nn.rotary_table {inv_freq = array<f32: 1.0, 0.25>, length = 3 : i64} : () -> (tensor<3x2xf32>, tensor<3x2xf32>)
  %wq = nn.get @q : tensor<16x16xf32>
  %q0 = nn.matmul %n, %wq {transpose_rhs} : (tensor<6x16xf32>, tensor<16x16xf32>) -> tensor<6x16xf32>
  %q1 = nn.reshape %q0 : tensor<6x16xf32> -> tensor<2x3x4x4xf32>
  %q = nn.rotary %q1, %cos, %sin : (tensor<2x3x4x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x4x4xf32>
  %wk = nn.get @k : tensor<8x16xf32>
  %k0 = nn.matmul %n, %wk {transpose_rhs} : (tensor<6x16xf32>, tensor<8x16xf32>) -> tensor<6x8xf32>
  %k1 = nn.reshape %k0 : tensor<6x8xf32> -> tensor<2x3x2x4xf32>
  %k = nn.rotary %k1, %cos, %sin : (tensor<2x3x2x4xf32>, tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x3x2x4xf32>
  %wv = nn.get @v : tensor<8x16xf32>
  %v0 = nn.matmul %n, %wv {transpose_rhs} : (tensor<6x16xf32>, tensor<8x16xf32>) -> tensor<6x8xf32>
  %v = nn.reshape %v0 : tensor<6x8xf32> -> tensor<2x3x2x4xf32>
  %a, %lse = nn.attention %q, %k, %v {causal, scale = 0.5 : f32} : (tensor<2x3x4x4xf32>, tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> (tensor<2x3x4x4xf32>, tensor<2x4x3xf32>)
  %a1 = nn.reshape %a : tensor<2x3x4x4xf32> -> tensor<6x16xf32>
  %h = nn.add %x, %a1 : (tensor<6x16xf32>, tensor<6x16xf32>) -> tensor<6x16xf32>
  %wg = nn.get @gate : tensor<24x16xf32>
  %g0 = nn.matmul %h, %wg {transpose_rhs} : (tensor<6x16xf32>, tensor<24x16xf32>) -> tensor<6x24xf32>
  %g = nn.silu %g0 : (tensor<6x24xf32>) -> tensor<6x24xf32>
  %wu = nn.get @up : tensor<24x16xf32>
  %u = nn.matmul %h, %wu {transpose_rhs} : (tensor<6x16xf32>, tensor<24x16xf32>) -> tensor<6x24xf32>
  %m = nn.mul %g, %u : (tensor<6x24xf32>, tensor<6x24xf32>) -> tensor<6x24xf32>
  %wd = nn.get @down : tensor<16x24xf32>
  %d = nn.matmul %m, %wd {transpose_rhs} : (tensor<6x24xf32>, tensor<16x24xf32>) -> tensor<6x16xf32>
  %y = nn.add %h, %d : (tensor<6x16xf32>, tensor<6x16xf32>) -> tensor<6x16xf32>
  %wh = nn.get @head : tensor<32x16xf32>
  %l = nn.matmul %y, %wh {transpose_rhs} : (tensor<6x16xf32>, tensor<32x16xf32>) -> tensor<6x32xf32>
  %logits = nn.reshape %l : tensor<6x32xf32> -> tensor<2x3x32xf32>
  return %logits : tensor<2x3x32xf32>
}
