// A mask, and a random number, is elementwise arithmetic on indices: it is made in the kernels that
// use it, forward and backward, and stored by none.
// RUN: shardonnx-opt %s --nn-decompose | FileCheck %s
// RUN: shardonnx-opt %s --nn-decompose-step --nn-fuse-step | FileCheck %s --check-prefix=FUSED

// CHECK-LABEL: func.func @f
// CHECK-SAME: %[[X:.*]]: tensor<4x3x8xf32>, %[[R:.*]]: tensor<3xi64>
// CHECK-DAG: %[[FIRST:.*]] = nn.slice %[[R]] {offsets = array<i64: 0>, sizes = array<i64: 1>}
// CHECK-DAG: %[[KEY:.*]] = nn.slice %[[R]] {offsets = array<i64: 2>, sizes = array<i64: 1>}
// CHECK-DAG: %[[TWO:.*]] = nn.constant dense<2> : tensor<i64>
// CHECK: %[[ROW:.*]] = nn.mul %[[FIRST]], %[[TWO]]
// CHECK: %[[LOW:.*]] = nn.random_key %[[KEY]], %[[ROW]], %{{.*}}, %{{.*}} {half = 0 : i64, sizes = array<i64: 4, 3>}
// CHECK: %[[HIGH:.*]] = nn.random_key %[[KEY]], %[[ROW]], %{{.*}}, %{{.*}} {half = 1 : i64, sizes = array<i64: 4, 3>}
// CHECK: %[[COLUMN:.*]] = nn.iota {axis = 0 : i64} : () -> tensor<8xi32>
// CHECK: %[[KEEP:.*]] = nn.random_keep %[[LOW]], %[[HIGH]], %[[COLUMN]] {threshold = 1073741824 : i64}
// CHECK: nn.select %[[KEEP]]

// FUSED-LABEL: func.func @f
// FUSED: nn.fused rows
// FUSED: nn.random_keep
// FUSED: nn.yield %{{.*}} : tensor<4x3x8xf32>
// FUSED-NOT: nn.fused
func.func @f(%x: tensor<4x3x8xf32>, %r: tensor<3xi64>) -> tensor<4x3x8xf32> {
  %0 = nn.dropout %x, %r {ratio = 0.25 : f64, samples = 2 : i64, stream = 1 : i64} : (tensor<4x3x8xf32>, tensor<3xi64>) -> tensor<4x3x8xf32>
  %1 = nn.add %0, %x : (tensor<4x3x8xf32>, tensor<4x3x8xf32>) -> tensor<4x3x8xf32>
  return %1 : tensor<4x3x8xf32>
}

// CHECK-LABEL: func.func @uniform
// CHECK: %[[LOW:.*]] = nn.random_key %{{.*}} {half = 0 : i64, sizes = array<i64: 4>}
// CHECK: %[[HIGH:.*]] = nn.random_key %{{.*}} {half = 1 : i64, sizes = array<i64: 4>}
// CHECK: nn.random_fraction %[[LOW]], %[[HIGH]], %{{.*}} : ({{.*}}) -> tensor<4x8xf32>

// FUSED-LABEL: func.func @uniform
// FUSED: nn.fused rows
// FUSED: nn.random_fraction
// FUSED-NOT: nn.fused
func.func @uniform(%x: tensor<4x8xf32>, %r: tensor<2xi64>) -> tensor<4x8xf32> {
  %0 = nn.random_uniform %r {samples = 2 : i64, stream = 0 : i64} : (tensor<2xi64>) -> tensor<4x8xf32>
  %1 = nn.add %0, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
