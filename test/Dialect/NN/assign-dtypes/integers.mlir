// RUN: shardonnx-opt %s --nn-assign-dtypes="param-dtype=bf16" | FileCheck %s

// Floats alone are cast where they enter a unit: what a router has chosen stays
// integers and booleans.
module attributes {nn.unit_policies = {h.0 = {param_dtype = f32}}} {
  nn.parameter @a : tensor<8x8xf32> trainable {onnx_name = "a", place = #nn.place<@h.0>}
  nn.parameter @b : tensor<8x8xf32> trainable {onnx_name = "b", place = #nn.place<@h.1>}

  // CHECK-LABEL: func.func @forward
  func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %a = nn.get @a {place = #nn.place<@h.0>} : tensor<8x8xf32>
    %b = nn.get @b {place = #nn.place<@h.1>} : tensor<8x8xf32>
    // CHECK: %[[P:.*]] = nn.matmul {{.*}} -> tensor<4x8xf32>
    %p = nn.matmul %x, %a {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: %[[CHOSEN:.*]] = nn.compare gt
    %m = nn.compare gt %p, %x {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xi1>
    // CHECK: %[[RESHAPED:.*]] = nn.reshape %[[CHOSEN]] {{.*}} : tensor<4x8xi1> -> tensor<8x4xi1>
    %r = nn.reshape %m {place = #nn.place<@h.1>} : tensor<4x8xi1> -> tensor<8x4xi1>
    %t = nn.reshape %r {place = #nn.place<@h.1>} : tensor<8x4xi1> -> tensor<4x8xi1>
    // CHECK: %[[Q:.*]] = nn.matmul {{.*}} -> tensor<4x8xbf16>
    %q = nn.matmul %p, %b {place = #nn.place<@h.1>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: nn.select {{.*}} : (tensor<4x8xi1>, tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
    %s = nn.select %t, %q, %p {place = #nn.place<@h.1>} : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    return %s : tensor<4x8xf32>
  }
}
