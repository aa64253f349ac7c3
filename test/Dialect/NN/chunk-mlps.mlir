// RUN: shardonnx-opt %s --split-input-file --nn-chunk-mlps="chunks=2" --verify-diagnostics | FileCheck %s

// Each chunk of rows goes through the whole MLP before the next one: its rows
// are a view, and what it gives is joined. The kernel sees a box of the rows.
// CHECK-LABEL: func.func @forward
// CHECK: %[[X0:.*]] = nn.slice %arg0 {offsets = array<i64: 0, 0>, {{.*}}sizes = array<i64: 4, 3>}
// CHECK-NEXT: %[[H0:.*]] = nn.matmul %[[X0]], %arg1 {{.*}} -> tensor<4x10xf32>
// CHECK-NEXT: %[[G0:.*]] = nn.slice %[[H0]] {offsets = array<i64: 0, 0>, {{.*}}sizes = array<i64: 4, 5>}
// CHECK-NEXT: %[[U0:.*]] = nn.slice %[[H0]] {offsets = array<i64: 0, 5>, {{.*}}sizes = array<i64: 4, 5>}
// CHECK-NEXT: nn.reshape %[[G0]] {{.*}}tensor<4x5xf32> -> tensor<1x4x5xf32>
// CHECK-NEXT: nn.reshape %[[U0]]
// CHECK-NEXT: nn.fused rows [1, 4, 5]
// CHECK: nn.silu %{{.*}} : (tensor<1x4x5xf32>) -> tensor<1x4x5xf32>
// CHECK: %[[A0:.*]] = nn.reshape %{{.*}} : tensor<1x4x5xf32> -> tensor<4x5xf32>
// CHECK-NEXT: %[[Y0:.*]] = nn.matmul %[[A0]], %arg2 {{.*}} -> tensor<4x3xf32>
// CHECK-NEXT: nn.slice %arg0 {offsets = array<i64: 4, 0>, {{.*}}sizes = array<i64: 4, 3>}
// CHECK: %[[Y1:.*]] = nn.matmul %{{.*}}, %arg2 {{.*}} -> tensor<4x3xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.concat %[[Y0]], %[[Y1]] {axis = 0
// CHECK-NEXT: nn.reshape %[[Y]]
func.func @forward(%x: tensor<8x3xf32>, %up: tensor<10x3xf32>, %down: tensor<3x5xf32>) -> tensor<2x4x3xf32> {
  %h = nn.matmul %x, %up {transpose_rhs} : (tensor<8x3xf32>, tensor<10x3xf32>) -> tensor<8x10xf32>
  %0 = nn.slice %h {offsets = array<i64: 0, 0>, sizes = array<i64: 8, 5>} : (tensor<8x10xf32>) -> tensor<8x5xf32>
  %1 = nn.slice %h {offsets = array<i64: 0, 5>, sizes = array<i64: 8, 5>} : (tensor<8x10xf32>) -> tensor<8x5xf32>
  %2 = nn.reshape %0 : tensor<8x5xf32> -> tensor<2x4x5xf32>
  %3 = nn.reshape %1 : tensor<8x5xf32> -> tensor<2x4x5xf32>
  %4 = nn.fused rows [2, 4, 5] (%g = %2 : tensor<2x4x5xf32>, %u = %3 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32> {
    %7 = nn.silu %g : (tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
    %8 = nn.mul %7, %u : (tensor<2x4x5xf32>, tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
    nn.yield %8 : tensor<2x4x5xf32>
  }
  %5 = nn.reshape %4 : tensor<2x4x5xf32> -> tensor<8x5xf32>
  %6 = nn.matmul %5, %down {transpose_rhs} : (tensor<8x5xf32>, tensor<3x5xf32>) -> tensor<8x3xf32>
  %7 = nn.reshape %6 : tensor<8x3xf32> -> tensor<2x4x3xf32>
  return %7 : tensor<2x4x3xf32>
}

// -----

// Backward: gradients of weights and of the bias are sums over the chunks, that
// of the rows is joined; what reads one of them stands behind all chunks.
// CHECK-LABEL: func.func @backward
// CHECK: %[[D0:.*]] = nn.matmul %{{.*}} {{.*}}transpose_lhs} : (tensor<4x3xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
// CHECK-NOT: nn.grad
// CHECK: %[[W0:.*]] = nn.matmul %{{.*}} {{.*}}transpose_lhs} : (tensor<4x5xf32>, tensor<4x3xf32>) -> tensor<5x3xf32>
// CHECK: nn.slice %arg0 {offsets = array<i64: 4, 0>
// CHECK: %[[D1:.*]] = nn.matmul %{{.*}} {{.*}}transpose_lhs} : (tensor<4x3xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
// CHECK: %[[D:.*]] = nn.fused rows [3, 5] (%{{.*}} = %[[D0]] : tensor<3x5xf32>, %{{.*}} = %[[D1]] : tensor<3x5xf32>)
// CHECK: nn.add
// CHECK: nn.fused rows [5] (
// CHECK: %[[X:.*]] = nn.concat {{.*}} {axis = 0
// CHECK: nn.fused rows [5, 3] (%{{.*}} = %[[W0]]
// CHECK: nn.grad @down, %[[D]]
// CHECK: return %[[X]]
nn.parameter @up : tensor<5x3xf32> trainable {onnx_name = "up"}
nn.parameter @bias : tensor<5xf32> trainable {onnx_name = "bias"}
nn.parameter @down : tensor<3x5xf32> trainable {onnx_name = "down"}
func.func @backward(%x: tensor<8x3xf32>, %dy: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %up = nn.get @up : tensor<5x3xf32>
  %bias = nn.get @bias : tensor<5xf32>
  %down = nn.get @down : tensor<3x5xf32>
  %h = nn.matmul %x, %up {transpose_rhs} : (tensor<8x3xf32>, tensor<5x3xf32>) -> tensor<8x5xf32>
  %da = nn.matmul %dy, %down : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  %0:2 = nn.fused rows [8, 5] (%a = %h : tensor<8x5xf32>, %b = %bias : tensor<5xf32>, %c = %da : tensor<8x5xf32>) -> (tensor<8x5xf32>, tensor<8x5xf32>) {
    %7 = nn.add %a, %b : (tensor<8x5xf32>, tensor<5xf32>) -> tensor<8x5xf32>
    %8 = nn.exp %7 : (tensor<8x5xf32>) -> tensor<8x5xf32>
    %9 = nn.mul %8, %c : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
    nn.yield %8, %9 : tensor<8x5xf32>, tensor<8x5xf32>
  }
  %1 = nn.matmul %dy, %0#0 {transpose_lhs} : (tensor<8x3xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  nn.grad @down, %1 : tensor<3x5xf32>
  %2 = nn.fused columns [8, 5] (%a = %0#1 : tensor<8x5xf32>) -> tensor<5xf32> {
    %7 = nn.reduce_sum %a {axes = array<i64: 0>} : (tensor<8x5xf32>) -> tensor<5xf32>
    nn.yield %7 : tensor<5xf32>
  }
  nn.grad @bias, %2 : tensor<5xf32>
  %3 = nn.matmul %0#1, %up : (tensor<8x5xf32>, tensor<5x3xf32>) -> tensor<8x3xf32>
  %4 = nn.matmul %0#1, %x {transpose_lhs} : (tensor<8x5xf32>, tensor<8x3xf32>) -> tensor<5x3xf32>
  nn.grad @up, %4 : tensor<5x3xf32>
  return %3 : tensor<8x3xf32>
}

// -----

// The gradient of a weight that something else reads, too, is one sum.
// CHECK-LABEL: func.func @shared_weight
// CHECK: %[[D0:.*]] = nn.matmul %{{.*}} {transpose_lhs}
// CHECK: %[[D1:.*]] = nn.matmul %{{.*}} {transpose_lhs}
// CHECK: %[[D:.*]] = nn.fused rows [3, 5] (%{{.*}} = %arg3 : tensor<3x5xf32>, %{{.*}} = %[[D0]] : tensor<3x5xf32>, %{{.*}} = %[[D1]] : tensor<3x5xf32>)
// CHECK: return %[[D]]
func.func @shared_weight(%x: tensor<8x3xf32>, %dy: tensor<8x3xf32>, %up: tensor<3x5xf32>, %other: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %h = nn.matmul %x, %up : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  %0 = nn.fused rows [8, 5] (%a = %h : tensor<8x5xf32>) -> tensor<8x5xf32> {
    %7 = nn.exp %a : (tensor<8x5xf32>) -> tensor<8x5xf32>
    nn.yield %7 : tensor<8x5xf32>
  }
  %1 = nn.matmul %dy, %0 {transpose_lhs} : (tensor<8x3xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  %2 = nn.fused rows [3, 5] (%a = %other : tensor<3x5xf32>, %b = %1 : tensor<3x5xf32>) -> tensor<3x5xf32> {
    %7 = nn.add %a, %b : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    nn.yield %7 : tensor<3x5xf32>
  }
  return %2 : tensor<3x5xf32>
}

// -----

// The shared weight's sum stands right behind the MLP, and another result has a
// sum of its own.
// CHECK-LABEL: func.func @shared_behind
// CHECK: %[[ALL:.*]] = nn.fused rows [3, 5] ({{.*}} = %arg{{[0-9]}} : tensor<3x5xf32>, {{.*}} = %{{.*}} : tensor<3x5xf32>, {{.*}} = %{{.*}} : tensor<3x5xf32>)
// CHECK: %[[BIAS:.*]] = nn.fused rows [5]
// CHECK: return %[[ALL]], %[[BIAS]]
func.func @shared_behind(%x: tensor<8x3xf32>, %dy: tensor<8x3xf32>, %up: tensor<3x5xf32>, %other: tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<5xf32>) {
  %h = nn.matmul %x, %up : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  %0 = nn.fused rows [8, 5] (%a = %h : tensor<8x5xf32>) -> tensor<8x5xf32> {
    %7 = nn.exp %a : (tensor<8x5xf32>) -> tensor<8x5xf32>
    nn.yield %7 : tensor<8x5xf32>
  }
  %1 = nn.matmul %dy, %0 {transpose_lhs} : (tensor<8x3xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  %2 = nn.fused columns [8, 5] (%a = %0 : tensor<8x5xf32>) -> tensor<5xf32> {
    %7 = nn.reduce_sum %a {axes = array<i64: 0>} : (tensor<8x5xf32>) -> tensor<5xf32>
    nn.yield %7 : tensor<5xf32>
  }
  %3 = nn.fused rows [3, 5] (%a = %other : tensor<3x5xf32>, %b = %1 : tensor<3x5xf32>) -> tensor<3x5xf32> {
    %7 = nn.add %a, %b : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    nn.yield %7 : tensor<3x5xf32>
  }
  return %3, %2 : tensor<3x5xf32>, tensor<5xf32>
}

// -----

// A kernel that reads other rows, of a residual stream or a mask, that needs to
// know where its row is, or whose results something else reads, stays whole.
// expected-warning @below {{--mlp-chunks=2: there is no MLP that can be computed in chunks}}
module {
// CHECK-LABEL: func.func @residual
// CHECK-NOT: nn.slice
func.func @residual(%x: tensor<8x3xf32>, %r: tensor<8x5xf32>, %up: tensor<3x5xf32>, %down: tensor<5x3xf32>) -> tensor<8x3xf32> {
  %h = nn.matmul %x, %up : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  %0 = nn.fused rows [8, 5] (%a = %h : tensor<8x5xf32>, %b = %r : tensor<8x5xf32>) -> tensor<8x5xf32> {
    %7 = nn.mul %a, %b : (tensor<8x5xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
    nn.yield %7 : tensor<8x5xf32>
  }
  %1 = nn.matmul %0, %down : (tensor<8x5xf32>, tensor<5x3xf32>) -> tensor<8x3xf32>
  return %1 : tensor<8x3xf32>
}
// CHECK-LABEL: func.func @place_of_row
// CHECK-NOT: nn.slice
func.func @place_of_row(%x: tensor<8x3xf32>, %up: tensor<3x5xf32>, %down: tensor<5x3xf32>) -> tensor<8x3xf32> {
  %h = nn.matmul %x, %up : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  %0 = nn.fused rows [8, 5] (%a = %h : tensor<8x5xf32>) -> tensor<8x5xf32> {
    %6 = nn.iota {axis = 0 : i64} : () -> tensor<8x1xi64>
    %7 = nn.cast %6 : tensor<8x1xi64> -> tensor<8x1xf32>
    %8 = nn.mul %a, %7 : (tensor<8x5xf32>, tensor<8x1xf32>) -> tensor<8x5xf32>
    nn.yield %8 : tensor<8x5xf32>
  }
  %1 = nn.matmul %0, %down : (tensor<8x5xf32>, tensor<5x3xf32>) -> tensor<8x3xf32>
  return %1 : tensor<8x3xf32>
}
// CHECK-LABEL: func.func @read_elsewhere
// CHECK-NOT: nn.slice
func.func @read_elsewhere(%x: tensor<8x3xf32>, %up: tensor<3x5xf32>, %down: tensor<5x3xf32>) -> (tensor<8x3xf32>, tensor<8x5xf32>) {
  %h = nn.matmul %x, %up : (tensor<8x3xf32>, tensor<3x5xf32>) -> tensor<8x5xf32>
  %0 = nn.fused rows [8, 5] (%a = %h : tensor<8x5xf32>) -> tensor<8x5xf32> {
    %7 = nn.exp %a : (tensor<8x5xf32>) -> tensor<8x5xf32>
    nn.yield %7 : tensor<8x5xf32>
  }
  %1 = nn.matmul %0, %down : (tensor<8x5xf32>, tensor<5x3xf32>) -> tensor<8x3xf32>
  return %1, %0 : tensor<8x3xf32>, tensor<8x5xf32>
}
}

// -----

// Rows of samples may be cut anywhere: 3 samples of 2.
// CHECK-LABEL: func.func @within_samples
// CHECK: nn.slice %arg0 {offsets = array<i64: 0, 0>, sizes = array<i64: 3, 3>}
// CHECK: nn.fused rows [1, 3, 5]
// CHECK: nn.slice %arg0 {offsets = array<i64: 3, 0>, sizes = array<i64: 3, 3>}
func.func @within_samples(%x: tensor<6x3xf32>, %up: tensor<3x5xf32>, %down: tensor<5x3xf32>) -> tensor<6x3xf32> {
  %h = nn.matmul %x, %up : (tensor<6x3xf32>, tensor<3x5xf32>) -> tensor<6x5xf32>
  %0 = nn.reshape %h : tensor<6x5xf32> -> tensor<3x2x5xf32>
  %1 = nn.fused rows [3, 2, 5] (%a = %0 : tensor<3x2x5xf32>) -> tensor<3x2x5xf32> {
    %7 = nn.exp %a : (tensor<3x2x5xf32>) -> tensor<3x2x5xf32>
    nn.yield %7 : tensor<3x2x5xf32>
  }
  %2 = nn.reshape %1 : tensor<3x2x5xf32> -> tensor<6x5xf32>
  %3 = nn.matmul %2, %down : (tensor<6x5xf32>, tensor<5x3xf32>) -> tensor<6x3xf32>
  return %3 : tensor<6x3xf32>
}

// -----

func.func @odd(%x: tensor<9x3xf32>, %up: tensor<3x5xf32>, %down: tensor<5x3xf32>) -> tensor<9x3xf32> {
  // expected-error @below {{--mlp-chunks=2: the 9 rows of this MLP cannot be cut into so many equal parts; the nearest number is 3}}
  %h = nn.matmul %x, %up : (tensor<9x3xf32>, tensor<3x5xf32>) -> tensor<9x5xf32>
  %0 = nn.fused rows [9, 5] (%a = %h : tensor<9x5xf32>) -> tensor<9x5xf32> {
    %7 = nn.exp %a : (tensor<9x5xf32>) -> tensor<9x5xf32>
    nn.yield %7 : tensor<9x5xf32>
  }
  %1 = nn.matmul %0, %down : (tensor<9x5xf32>, tensor<5x3xf32>) -> tensor<9x3xf32>
  return %1 : tensor<9x3xf32>
}
