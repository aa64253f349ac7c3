// RUN: shardonnx-opt %s -nn-join-products -split-input-file | FileCheck %s

// Query, key and value of one unit are one product, biases too; each takes its
// columns.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>
func.func @forward(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>, tensor<2x2x4xf32>) {
  // CHECK-DAG: %[[Q:.*]] = nn.get @q
  // CHECK-DAG: %[[K:.*]] = nn.get @k
  // CHECK-DAG: %[[V:.*]] = nn.get @v
  // CHECK: %[[W:.*]] = nn.concat %[[Q]], %[[K]], %[[V]] {axis = 0 : i64, place = #nn.place<@h.0>}
  // CHECK: %[[Y:.*]] = nn.matmul %[[X]], %[[W]] {place = #nn.place<@h.0>, transpose_rhs}
  // CHECK-NOT: nn.matmul
  // CHECK: nn.slice %[[Y]] {offsets = array<i64: 0, 0>, {{.*}}sizes = array<i64: 4, 8>}
  // CHECK: nn.slice %[[Y]] {offsets = array<i64: 0, 8>, {{.*}}sizes = array<i64: 4, 4>}
  // CHECK: %[[LAST:.*]] = nn.slice %[[Y]] {offsets = array<i64: 0, 12>, {{.*}}sizes = array<i64: 4, 4>}
  // CHECK: nn.reshape %[[LAST]]
  %q = nn.get @q : tensor<8x8xf32>
  %a = nn.matmul %x, %q {place = #nn.place<@h.0>, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %k = nn.get @k : tensor<4x8xf32>
  %b = nn.matmul %x, %k {place = #nn.place<@h.0>, transpose_rhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %v = nn.get @v : tensor<4x8xf32>
  %c = nn.matmul %x, %v {place = #nn.place<@h.0>, transpose_rhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %d = nn.reshape %c {place = #nn.place<@h.0>} : tensor<4x4xf32> -> tensor<2x2x4xf32>
  return %a, %b, %d : tensor<4x8xf32>, tensor<4x4xf32>, tensor<2x2x4xf32>
}
nn.parameter @q : tensor<8x8xf32> trainable {onnx_name = "q", place = #nn.place<@h.0>}
nn.parameter @k : tensor<4x8xf32> trainable {onnx_name = "k", place = #nn.place<@h.0>}
nn.parameter @v : tensor<4x8xf32> trainable {onnx_name = "v", place = #nn.place<@h.0>}

// -----

// Biases are joined where all products have one.

// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<2x2x8xf32>) -> (tensor<2x2x16xf32>, tensor<2x2x4xf32>) {
  // CHECK: %[[Y:.*]] = nn.matmul
  // CHECK: %[[B:.*]] = nn.concat {{.*}} : (tensor<16xf32>, tensor<4xf32>) -> tensor<20xf32>
  // CHECK: %[[SUM:.*]] = nn.add %[[Y]], %[[B]]
  // CHECK-NOT: nn.add
  // CHECK: nn.slice %[[SUM]]
  %rows = nn.reshape %x : tensor<2x2x8xf32> -> tensor<4x8xf32>
  %w1 = nn.get @w1 : tensor<16x8xf32>
  %y1 = nn.matmul %rows, %w1 {transpose_rhs} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %r1 = nn.reshape %y1 : tensor<4x16xf32> -> tensor<2x2x16xf32>
  %b1 = nn.get @b1 : tensor<16xf32>
  %s1 = nn.add %r1, %b1 : (tensor<2x2x16xf32>, tensor<16xf32>) -> tensor<2x2x16xf32>
  // The same rows under another reshape.
  %again = nn.reshape %x : tensor<2x2x8xf32> -> tensor<4x8xf32>
  %w2 = nn.get @w2 : tensor<4x8xf32>
  %y2 = nn.matmul %again, %w2 {transpose_rhs} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
  %r2 = nn.reshape %y2 : tensor<4x4xf32> -> tensor<2x2x4xf32>
  %b2 = nn.get @b2 : tensor<4xf32>
  %s2 = nn.add %b2, %r2 : (tensor<4xf32>, tensor<2x2x4xf32>) -> tensor<2x2x4xf32>
  return %s1, %s2 : tensor<2x2x16xf32>, tensor<2x2x4xf32>
}
nn.parameter @w1 : tensor<16x8xf32> trainable {onnx_name = "w1"}
nn.parameter @b1 : tensor<16xf32> trainable {onnx_name = "b1"}
nn.parameter @w2 : tensor<4x8xf32> trainable {onnx_name = "w2"}
nn.parameter @b2 : tensor<4xf32> trainable {onnx_name = "b2"}

// -----

// A weight that something else reads, of another unit, frozen, or stored [in,
// out] stays apart, and the report says why.

// CHECK: module attributes {nn.raised = [
// CHECK-SAME: why = "a weight belongs to another unit"
// CHECK-SAME: why = "a weight is read in several places"
// CHECK-SAME: why = "their weights are stored [in, out], so they do not join without a copy"
// CHECK-SAME: why = "a weight is frozen and another is not, or is no multiple of 16 elements"
// CHECK-LABEL: func.func @forward
func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NOT: nn.concat
  %a = nn.get @a : tensor<8x8xf32>
  %b = nn.get @b : tensor<8x8xf32>
  %c = nn.get @c : tensor<8x8xf32>
  %d = nn.get @d : tensor<8x8xf32>
  %e = nn.get @e : tensor<8x8xf32>
  %1 = nn.matmul %x, %a {place = #nn.place<@h.0>, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = nn.matmul %x, %b {place = #nn.place<@h.0>, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = nn.matmul %x, %c {place = #nn.place<@h.0>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %4 = nn.matmul %x, %d {place = #nn.place<@h.0>, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %5 = nn.matmul %x, %e {place = #nn.place<@h.0>, transpose_rhs} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %6 = nn.add %b, %b : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %5 : tensor<4x8xf32>
}
nn.parameter @a : tensor<8x8xf32> trainable {onnx_name = "a", place = #nn.place<@root>}
nn.parameter @b : tensor<8x8xf32> trainable {onnx_name = "b", place = #nn.place<@h.0>}
nn.parameter @c : tensor<8x8xf32> trainable {onnx_name = "c", place = #nn.place<@h.0>}
nn.parameter @d : tensor<8x8xf32> trainable {onnx_name = "d", place = #nn.place<@h.0>}
nn.parameter @e : tensor<8x8xf32> {onnx_name = "e", place = #nn.place<@h.0>}
