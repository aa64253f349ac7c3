// RUN: shardonnx-opt %s --nn-assign-dtypes="param-dtype=bf16 output-dtype=f32" | FileCheck %s

// Each unit computes in its own type; casts stand where a value enters a unit
// from outside, and where it leaves one with an output_dtype.
module attributes {nn.unit_policies = {
    h.0 = {param_dtype = f32},
    h.1 = {output_dtype = f32},
    h.2 = {param_dtype = f16, reduce_dtype = bf16},
    h.3 = {cast_forward_inputs = false}}} {
  nn.parameter @a : tensor<8x8xf32> trainable {onnx_name = "a", place = #nn.place<@h.0>}
  nn.parameter @b : tensor<8x8xf32> trainable {onnx_name = "b", place = #nn.place<@h.1>}
  nn.parameter @c : tensor<8x8xf32> trainable {onnx_name = "c", place = #nn.place<@h.2>}
  nn.parameter @d : tensor<8x8xf32> trainable {onnx_name = "d", place = #nn.place<@h.3>}

  // CHECK-LABEL: func.func @forward
  // CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>) -> tensor<4x8xf32>
  func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // The model casts its input, the f32 unit casts it back, once.
    // CHECK: %[[LOW:.*]] = nn.cast %[[X]] : tensor<4x8xf32> -> tensor<4x8xbf16>
    // CHECK: %[[A:.*]] = nn.get @a {place = #nn.place<@h.0>} : tensor<8x8xf32>
    %a = nn.get @a {place = #nn.place<@h.0>} : tensor<8x8xf32>
    // CHECK: %[[IN:.*]] = nn.cast %[[LOW]] {place = #nn.place<@h.0>} : tensor<4x8xbf16> -> tensor<4x8xf32>
    // CHECK: %[[P:.*]] = nn.matmul %[[IN]], %[[A]] {{.*}} -> tensor<4x8xf32>
    %p = nn.matmul %x, %a {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: %[[R:.*]] = nn.add %[[P]], %[[IN]] {{.*}} -> tensor<4x8xf32>
    %r = nn.add %p, %x {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: %[[B:.*]] = nn.get @b {place = #nn.place<@h.1>} : tensor<8x8xbf16>
    %b = nn.get @b {place = #nn.place<@h.1>} : tensor<8x8xf32>
    // CHECK: %[[RL:.*]] = nn.cast %[[R]] {place = #nn.place<@h.1>} : tensor<4x8xf32> -> tensor<4x8xbf16>
    // CHECK: %[[Q:.*]] = nn.matmul %[[RL]], %[[B]] {{.*}} -> tensor<4x8xbf16>
    %q = nn.matmul %r, %b {place = #nn.place<@h.1>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // It leaves the one unit in f32 and enters the other in f16.
    // CHECK: %[[C:.*]] = nn.get @c {place = #nn.place<@h.2>} : tensor<8x8xf16>
    %c = nn.get @c {place = #nn.place<@h.2>} : tensor<8x8xf32>
    // CHECK: %[[QW:.*]] = nn.cast %[[Q]] {place = #nn.place<@h.2>} : tensor<4x8xbf16> -> tensor<4x8xf32>
    // CHECK: %[[QL:.*]] = nn.cast %[[QW]] {place = #nn.place<@h.2>} : tensor<4x8xf32> -> tensor<4x8xf16>
    // CHECK: %[[S:.*]] = nn.matmul %[[QL]], %[[C]] {{.*}} -> tensor<4x8xf16>
    %s = nn.matmul %q, %c {place = #nn.place<@h.2>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // Without casts of inputs ops compute in what they get, products in the
    // parameter's type.
    // CHECK: %[[D:.*]] = nn.get @d {place = #nn.place<@h.3>} : tensor<8x8xbf16>
    %d = nn.get @d {place = #nn.place<@h.3>} : tensor<8x8xf32>
    // CHECK: %[[N:.*]] = nn.neg %[[S]] {{.*}} -> tensor<4x8xf16>
    %n = nn.neg %s {place = #nn.place<@h.3>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: %[[NW:.*]] = nn.cast %[[N]] {{.*}} -> tensor<4x8xf32>
    // CHECK: %[[NL:.*]] = nn.cast %[[NW]] {{.*}} -> tensor<4x8xbf16>
    // CHECK: %[[T:.*]] = nn.matmul %[[NL]], %[[D]] {{.*}} -> tensor<4x8xbf16>
    %t = nn.matmul %n, %d {place = #nn.place<@h.3>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    // CHECK: %[[OUT:.*]] = nn.cast %[[T]] : tensor<4x8xbf16> -> tensor<4x8xf32>
    // CHECK: return %[[OUT]]
    return %t : tensor<4x8xf32>
  }
}
