// Experts that are modules of their own become a stack, of which each row
// chooses its matrix.
// RUN: shardonnx-opt %s -nn-group-experts -split-input-file | FileCheck %s

// Two of three experts a row, as torch.where(chosen == i) has them: chosen by
// comparisons of their own.
// CHECK-LABEL: func.func @chosen
func.func @chosen(%x: tensor<4x5xf32>, %gate: tensor<4x3xf32>, %w: tensor<8x1xf32>) -> tensor<4x5xf32> {
  // CHECK: %{{.*}}, %[[IDS:.*]] = nn.top_k
  // CHECK: %[[ROWS:.*]] = nn.reshape %{{.*}} -> tensor<8x5xf32>
  // CHECK: %[[FLAT:.*]] = nn.reshape %[[IDS]] : tensor<4x2xi64> -> tensor<8xi64>
  // CHECK: %[[JOINED:.*]] = nn.concat %{{.*}}, %{{.*}}, %{{.*}} {axis = 0 : i64} : (tensor<6x5xf32>, tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<18x5xf32>
  // CHECK: %[[STACK:.*]] = nn.reshape %[[JOINED]] : tensor<18x5xf32> -> tensor<3x6x5xf32>
  // CHECK: %[[IN:.*]] = nn.grouped_matmul %[[ROWS]], %[[STACK]], %[[FLAT]] {transposed} : (tensor<8x5xf32>, tensor<3x6x5xf32>, tensor<8xi64>) -> tensor<8x6xf32>
  // CHECK: nn.concat
  // CHECK: %[[BIASES:.*]] = nn.reshape %{{.*}} : tensor<18xf32> -> tensor<3x6xf32>
  // CHECK: %[[BIAS:.*]] = nn.embedding %[[BIASES]], %[[FLAT]]
  // CHECK: nn.add %[[IN]], %[[BIAS]]
  // CHECK: nn.silu
  // CHECK: nn.grouped_matmul {{.*}} -> tensor<8x5xf32>
  // CHECK-NOT: nn.matmul
  // Each row has chosen one of the three: nothing is left out.
  // CHECK-NOT: nn.select
  // CHECK: nn.mul
  // CHECK: nn.reduce_sum
  // CHECK: return
  %zero = nn.constant dense<0.0> : tensor<f32>
  %base = nn.constant dense<0.0> : tensor<4x5xf32>
  %values, %ids = nn.top_k %gate {axis = 1 : i64, k = 2 : i64} : (tensor<4x3xf32>) -> (tensor<4x2xf32>, tensor<4x2xi64>)
  %x1 = nn.reshape %x : tensor<4x5xf32> -> tensor<4x1x5xf32>
  %x2 = nn.broadcast %x1 : tensor<4x1x5xf32> -> tensor<4x2x5xf32>
  %rows = nn.reshape %x2 : tensor<4x2x5xf32> -> tensor<8x5xf32>
  %n0 = nn.constant dense<0> : tensor<i64>
  %n1 = nn.constant dense<1> : tensor<i64>
  %n2 = nn.constant dense<2> : tensor<i64>
  %a0 = nn.get @a0 : tensor<6x5xf32>
  %b0 = nn.get @b0 : tensor<6xf32>
  %c0 = nn.get @c0 : tensor<5x6xf32>
  %p0 = nn.matmul %rows, %a0 {transpose_rhs} : (tensor<8x5xf32>, tensor<6x5xf32>) -> tensor<8x6xf32>
  %q0 = nn.add %p0, %b0 : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
  %s0 = nn.silu %q0 : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %y0 = nn.matmul %s0, %c0 {transpose_rhs} : (tensor<8x6xf32>, tensor<5x6xf32>) -> tensor<8x5xf32>
  %z0 = nn.mul %w, %y0 : (tensor<8x1xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
  %e0 = nn.compare eq %ids, %n0 : (tensor<4x2xi64>, tensor<i64>) -> tensor<4x2xi1>
  %f0 = nn.reshape %e0 : tensor<4x2xi1> -> tensor<8x1xi1>
  %t0 = nn.select %f0, %z0, %zero : (tensor<8x1xi1>, tensor<8x5xf32>, tensor<f32>) -> tensor<8x5xf32>
  %u0 = nn.reshape %t0 : tensor<8x5xf32> -> tensor<4x2x5xf32>
  %r0 = nn.reduce_sum %u0 {axes = array<i64: 1>} : (tensor<4x2x5xf32>) -> tensor<4x5xf32>
  %a1 = nn.get @a1 : tensor<6x5xf32>
  %b1 = nn.get @b1 : tensor<6xf32>
  %c1 = nn.get @c1 : tensor<5x6xf32>
  %p1 = nn.matmul %rows, %a1 {transpose_rhs} : (tensor<8x5xf32>, tensor<6x5xf32>) -> tensor<8x6xf32>
  %q1 = nn.add %p1, %b1 : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
  %s1 = nn.silu %q1 : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %y1 = nn.matmul %s1, %c1 {transpose_rhs} : (tensor<8x6xf32>, tensor<5x6xf32>) -> tensor<8x5xf32>
  %z1 = nn.mul %w, %y1 : (tensor<8x1xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
  %e1 = nn.compare eq %ids, %n1 : (tensor<4x2xi64>, tensor<i64>) -> tensor<4x2xi1>
  %f1 = nn.reshape %e1 : tensor<4x2xi1> -> tensor<8x1xi1>
  %t1 = nn.select %f1, %z1, %zero : (tensor<8x1xi1>, tensor<8x5xf32>, tensor<f32>) -> tensor<8x5xf32>
  %u1 = nn.reshape %t1 : tensor<8x5xf32> -> tensor<4x2x5xf32>
  %r1 = nn.reduce_sum %u1 {axes = array<i64: 1>} : (tensor<4x2x5xf32>) -> tensor<4x5xf32>
  %a2 = nn.get @a2 : tensor<6x5xf32>
  %b2 = nn.get @b2 : tensor<6xf32>
  %c2 = nn.get @c2 : tensor<5x6xf32>
  %p2 = nn.matmul %rows, %a2 {transpose_rhs} : (tensor<8x5xf32>, tensor<6x5xf32>) -> tensor<8x6xf32>
  %q2 = nn.add %p2, %b2 : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
  %s2 = nn.silu %q2 : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %y2 = nn.matmul %s2, %c2 {transpose_rhs} : (tensor<8x6xf32>, tensor<5x6xf32>) -> tensor<8x5xf32>
  %z2 = nn.mul %w, %y2 : (tensor<8x1xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
  %e2 = nn.compare eq %ids, %n2 : (tensor<4x2xi64>, tensor<i64>) -> tensor<4x2xi1>
  %f2 = nn.reshape %e2 : tensor<4x2xi1> -> tensor<8x1xi1>
  %t2 = nn.select %f2, %z2, %zero : (tensor<8x1xi1>, tensor<8x5xf32>, tensor<f32>) -> tensor<8x5xf32>
  %u2 = nn.reshape %t2 : tensor<8x5xf32> -> tensor<4x2x5xf32>
  %r2 = nn.reduce_sum %u2 {axes = array<i64: 1>} : (tensor<4x2x5xf32>) -> tensor<4x5xf32>
  %1 = nn.add %base, %r0 : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %2 = nn.add %1, %r1 : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  %3 = nn.add %2, %r2 : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  return %3 : tensor<4x5xf32>
}
nn.parameter @a0 : tensor<6x5xf32> {onnx_name = "a0"}
nn.parameter @a1 : tensor<6x5xf32> {onnx_name = "a1"}
nn.parameter @a2 : tensor<6x5xf32> {onnx_name = "a2"}
nn.parameter @b0 : tensor<6xf32> {onnx_name = "b0"}
nn.parameter @b1 : tensor<6xf32> {onnx_name = "b1"}
nn.parameter @b2 : tensor<6xf32> {onnx_name = "b2"}
nn.parameter @c0 : tensor<5x6xf32> {onnx_name = "c0"}
nn.parameter @c1 : tensor<5x6xf32> {onnx_name = "c1"}
nn.parameter @c2 : tensor<5x6xf32> {onnx_name = "c2"}

// -----

// Slices of one comparison, transposed, as one_hot has it; of any indices, so
// that a row may have chosen none.
// CHECK-LABEL: func.func @slices
func.func @slices(%rows: tensor<6x5xf32>, %ids: tensor<3x2x1xi64>) -> tensor<3x4xf32> {
  // CHECK: %[[TURNED:.*]] = nn.transpose %{{.*}} {permutation = array<i64: 1, 0>} : (tensor<3x2xi64>) -> tensor<2x3xi64>
  // CHECK: %[[FLAT:.*]] = nn.reshape %[[TURNED]] : tensor<2x3xi64> -> tensor<6xi64>
  // CHECK: nn.compare eq %[[FLAT]]
  // CHECK: %[[SOME:.*]] = nn.reshape %{{.*}} : tensor<6xi1> -> tensor<6x1xi1>
  // CHECK: %[[ALL:.*]] = nn.grouped_matmul %{{.*}} : (tensor<6x5xf32>, tensor<2x5x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
  // CHECK: nn.select %[[SOME]], %[[ALL]]
  // CHECK-NOT: nn.matmul
  %zero = nn.constant dense<0.0> : tensor<f32>
  %numbers = nn.constant dense<[7, 9]> : tensor<2xi64>
  %none = nn.constant dense<0> : tensor<i64>
  %e = nn.compare eq %ids, %numbers : (tensor<3x2x1xi64>, tensor<2xi64>) -> tensor<3x2x2xi1>
  %i = nn.cast %e : tensor<3x2x2xi1> -> tensor<3x2x2xi64>
  %t = nn.transpose %i {permutation = array<i64: 2, 1, 0>} : (tensor<3x2x2xi64>) -> tensor<2x2x3xi64>
  %s0 = nn.slice %t {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 1, 2, 3>} : (tensor<2x2x3xi64>) -> tensor<1x2x3xi64>
  %s1 = nn.slice %t {offsets = array<i64: 1, 0, 0>, sizes = array<i64: 1, 2, 3>} : (tensor<2x2x3xi64>) -> tensor<1x2x3xi64>
  %f0 = nn.reshape %s0 : tensor<1x2x3xi64> -> tensor<2x3xi64>
  %f1 = nn.reshape %s1 : tensor<1x2x3xi64> -> tensor<2x3xi64>
  %g0 = nn.compare ne %f0, %none : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi1>
  %g1 = nn.compare ne %f1, %none : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi1>
  %h0 = nn.reshape %g0 : tensor<2x3xi1> -> tensor<6x1xi1>
  %h1 = nn.reshape %g1 : tensor<2x3xi1> -> tensor<6x1xi1>
  %w0 = nn.get @w0 : tensor<5x4xf32>
  %w1 = nn.get @w1 : tensor<5x4xf32>
  %y0 = nn.matmul %rows, %w0 : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
  %y1 = nn.matmul %rows, %w1 : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
  %z0 = nn.select %h0, %y0, %zero : (tensor<6x1xi1>, tensor<6x4xf32>, tensor<f32>) -> tensor<6x4xf32>
  %z1 = nn.select %h1, %y1, %zero : (tensor<6x1xi1>, tensor<6x4xf32>, tensor<f32>) -> tensor<6x4xf32>
  %v0 = nn.reshape %z0 : tensor<6x4xf32> -> tensor<2x3x4xf32>
  %v1 = nn.reshape %z1 : tensor<6x4xf32> -> tensor<2x3x4xf32>
  %r0 = nn.reduce_sum %v0 {axes = array<i64: 0>} : (tensor<2x3x4xf32>) -> tensor<3x4xf32>
  %r1 = nn.reduce_sum %v1 {axes = array<i64: 0>} : (tensor<2x3x4xf32>) -> tensor<3x4xf32>
  %1 = nn.add %r0, %r1 : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}
nn.parameter @w0 : tensor<5x4xf32> {onnx_name = "w0"}
nn.parameter @w1 : tensor<5x4xf32> {onnx_name = "w1"}

// -----

// y[mask] = …: the last of a chain hides the others.
// CHECK-LABEL: func.func @replaced
func.func @replaced(%x: tensor<6x5xf32>, %ids: tensor<6xi64>, %base: tensor<6x4xf32>) -> tensor<6x4xf32> {
  // CHECK: %[[ALL:.*]] = nn.grouped_matmul
  // CHECK: nn.select %{{.*}}, %[[ALL]], %arg2
  // CHECK-NOT: nn.matmul
  %n0 = nn.constant dense<0> : tensor<i64>
  %n1 = nn.constant dense<1> : tensor<i64>
  %w0 = nn.get @w0 : tensor<5x4xf32>
  %w1 = nn.get @w1 : tensor<5x4xf32>
  %y0 = nn.matmul %x, %w0 : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
  %y1 = nn.matmul %x, %w1 : (tensor<6x5xf32>, tensor<5x4xf32>) -> tensor<6x4xf32>
  %e0 = nn.compare eq %ids, %n0 : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
  %e1 = nn.compare eq %ids, %n1 : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
  %f0 = nn.reshape %e0 : tensor<6xi1> -> tensor<6x1xi1>
  %f1 = nn.reshape %e1 : tensor<6xi1> -> tensor<6x1xi1>
  %g0 = nn.broadcast %f0 : tensor<6x1xi1> -> tensor<6x4xi1>
  %g1 = nn.broadcast %f1 : tensor<6x1xi1> -> tensor<6x4xi1>
  %z0 = nn.select %g0, %y0, %base : (tensor<6x4xi1>, tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %z1 = nn.select %g1, %y1, %z0 : (tensor<6x4xi1>, tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  return %z1 : tensor<6x4xf32>
}
nn.parameter @w0 : tensor<5x4xf32> {onnx_name = "w0"}
nn.parameter @w1 : tensor<5x4xf32> {onnx_name = "w1"}

// -----

// The same expert twice, other indices, another activation, and ops that do not
// work on each row alone stay.
// CHECK-LABEL: func.func @others
// CHECK-NOT: nn.grouped_matmul
func.func @others(%x: tensor<6x6xf32>, %ids: tensor<6xi64>, %jds: tensor<6xi64>) -> (tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>) {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %n0 = nn.constant dense<0> : tensor<i64>
  %n1 = nn.constant dense<1> : tensor<i64>
  %w0 = nn.get @w0 : tensor<6x6xf32>
  %w1 = nn.get @w1 : tensor<6x6xf32>
  %e0 = nn.compare eq %ids, %n0 : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
  %e1 = nn.compare eq %ids, %n1 : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
  %d1 = nn.compare eq %jds, %n1 : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
  %f0 = nn.reshape %e0 : tensor<6xi1> -> tensor<6x1xi1>
  %f1 = nn.reshape %e1 : tensor<6xi1> -> tensor<6x1xi1>
  %g1 = nn.reshape %d1 : tensor<6xi1> -> tensor<6x1xi1>
  %y0 = nn.matmul %x, %w0 : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  %y1 = nn.matmul %x, %w1 : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  %r1 = nn.relu %y1 : (tensor<6x6xf32>) -> tensor<6x6xf32>
  %t1 = nn.matmul %w1, %x {transpose_lhs} : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  %t0 = nn.matmul %w0, %x {transpose_lhs} : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  %a0 = nn.select %f0, %y0, %zero : (tensor<6x1xi1>, tensor<6x6xf32>, tensor<f32>) -> tensor<6x6xf32>
  %a1 = nn.select %f0, %y1, %zero : (tensor<6x1xi1>, tensor<6x6xf32>, tensor<f32>) -> tensor<6x6xf32>
  %a = nn.add %a0, %a1 : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  %b0 = nn.select %f0, %y0, %zero : (tensor<6x1xi1>, tensor<6x6xf32>, tensor<f32>) -> tensor<6x6xf32>
  %b1 = nn.select %g1, %y1, %zero : (tensor<6x1xi1>, tensor<6x6xf32>, tensor<f32>) -> tensor<6x6xf32>
  %b = nn.add %b0, %b1 : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  %c0 = nn.select %f0, %y0, %zero : (tensor<6x1xi1>, tensor<6x6xf32>, tensor<f32>) -> tensor<6x6xf32>
  %c1 = nn.select %f1, %r1, %zero : (tensor<6x1xi1>, tensor<6x6xf32>, tensor<f32>) -> tensor<6x6xf32>
  %c = nn.add %c0, %c1 : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  %d0 = nn.select %f0, %t0, %zero : (tensor<6x1xi1>, tensor<6x6xf32>, tensor<f32>) -> tensor<6x6xf32>
  %d2 = nn.select %f1, %t1, %zero : (tensor<6x1xi1>, tensor<6x6xf32>, tensor<f32>) -> tensor<6x6xf32>
  %d = nn.add %d0, %d2 : (tensor<6x6xf32>, tensor<6x6xf32>) -> tensor<6x6xf32>
  return %a, %b, %c, %d : tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>, tensor<6x6xf32>
}
nn.parameter @w0 : tensor<6x6xf32> {onnx_name = "w0"}
nn.parameter @w1 : tensor<6x6xf32> {onnx_name = "w1"}
