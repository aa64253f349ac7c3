// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics -nn-assign-units | FileCheck %s
// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics=only-expected -nn-assign-units=unit=block | FileCheck %s

// Two modules are one unit, named by the first pattern; the first entry that
// matches a module holds; the root has a policy; the rules are read once.
// CHECK:      module attributes
// CHECK-NOT:  nn.unit_rules
// CHECK-SAME: nn.unit_policies = {h.0 = {param_dtype = f32},
// CHECK-SAME: h.1 = {recompute = "block"},
// CHECK-SAME: lm_head = {output_dtype = f32},
// CHECK-SAME: root = {cast_forward_inputs = false}}
module attributes {nn.unit_rules = [
  {modules = ["h\\.0"], param_dtype = f32},
  {modules = ["block"], recompute = "block"},
  {modules = ["lm_head", "norm"], together, output_dtype = f32},
  {modules = ["root"], cast_forward_inputs = false}]} {
  // CHECK: @wte.weight {{.*}}place = #nn.place<@root>
  nn.parameter @wte.weight : tensor<32x8xf32> trainable {onnx_name = "wte.weight"}
  // CHECK: @h.0.w {{.*}}place = #nn.place<@h.0>
  nn.parameter @h.0.w : tensor<8x8xf32> trainable {onnx_name = "h.0.w"}
  // CHECK: @h.1.w {{.*}}place = #nn.place<@h.1>
  nn.parameter @h.1.w : tensor<8x8xf32> trainable {onnx_name = "h.1.w"}
  // CHECK: @norm.weight {{.*}}place = #nn.place<@lm_head>
  nn.parameter @norm.weight : tensor<8xf32> trainable {onnx_name = "norm.weight"}
  // CHECK: @lm_head.weight {{.*}}place = #nn.place<@lm_head>
  nn.parameter @lm_head.weight : tensor<32x8xf32> trainable {onnx_name = "lm_head.weight"}
  func.func @main(%ids: tensor<4xi64>) -> tensor<4x32xf32> {
    %wte = nn.get @wte.weight : tensor<32x8xf32>
    %x = nn.embedding %wte, %ids : (tensor<32x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
    %w0 = nn.get @h.0.w : tensor<8x8xf32>
    %m0 = nn.matmul %x, %w0 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %w1 = nn.get @h.1.w : tensor<8x8xf32>
    %m1 = nn.matmul %m0, %w1 : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %n = nn.get @norm.weight : tensor<8xf32>
    // CHECK: nn.mul {{.*}}place = #nn.place<@lm_head>
    %s = nn.mul %m1, %n : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %head = nn.get @lm_head.weight : tensor<32x8xf32>
    %logits = nn.matmul %s, %head {transpose_rhs} : (tensor<4x8xf32>, tensor<32x8xf32>) -> tensor<4x32xf32>
    return %logits : tensor<4x32xf32>
  }
}

// -----

// expected-error @below {{units[1]: 'h\.9' matches no module}}
module attributes {nn.unit_rules = [{modules = ["block"]}, {modules = ["h\\.9"]}]} {
}

// -----

// expected-error @below {{units[0]: 'block' stands alone, not in a list of modules}}
module attributes {nn.unit_rules = [{modules = ["norm", "block"], together}]} {
}

// -----

// expected-error @below {{units: root may be named once}}
module attributes {nn.unit_rules = [{modules = ["root"]}, {modules = ["root"]}]} {
}
